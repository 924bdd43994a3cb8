import { once, setMaxListeners } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { isIPv6, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import type * as Sdk from '@aws-sdk/client-s3';
import { SyncError, type Recovery } from '../core/errors.ts';
import { orAborted } from '../http/or-aborted.ts';
import { hasProxies, proxyFor } from '../http/proxies.ts';
import type { PublishPlace } from '../settings/settings.ts';

export type S3Place = Pick<
  Extract<PublishPlace, { type: 's3' }>,
  'bucket' | 'prefix' | 'region' | 'endpoint' | 'credentials'
>;

type Verb = 'read' | 'write' | 'list' | 'remove';

/**
 * Rejects with the signal's reason, and with TARGET_FAILED: its context has the `status` and the `code` of the answer.
 */
type Ask = <Input extends Sdk.ServiceInputTypes, Output extends Sdk.ServiceOutputTypes>(
  verb: Verb,
  command: Sdk.$Command<
    Input,
    Output,
    Sdk.S3ClientResolvedConfig,
    Sdk.ServiceInputTypes,
    Sdk.ServiceOutputTypes
  >,
) => Promise<Output>;

export type OpenS3Client = Awaited<ReturnType<typeof openS3Client>>;

/** With those that the SDK makes itself, with a growing wait between them. */
const attempts = 5;

/** Until the first byte of an answer, the request's body included: 8 MiB at 70 kB/s. */
const answerMs = 120_000;

export async function openS3Client(
  place: S3Place,
  { signal, idleTimeoutMs }: { readonly signal: AbortSignal; readonly idleTimeoutMs: number },
) {
  const sdk = await loadSdk();
  const { region, endpoint, credentials } = place;
  const client = new sdk.S3Client({
    // A compatible server takes any; AWS's own is found where the SDK finds its settings.
    ...(region === null ? (endpoint === null ? {} : { region: 'us-east-1' }) : { region }),
    ...(endpoint === null ? {} : { endpoint, forcePathStyle: true }),
    ...(credentials === null
      ? {}
      : {
          credentials: {
            accessKeyId: credentials.accessKeyId,
            secretAccessKey: credentials.secretAccessKey.reveal(),
          },
        }),
    // Older servers refuse the checksums that the SDK adds; those that matter are given with their requests.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    retryMode: 'standard',
    maxAttempts: attempts,
    requestHandler: {
      ...agents(),
      connectionTimeout: 10_000,
      socketTimeout: idleTimeoutMs,
      requestTimeout: answerMs,
      throwOnRequestTimeout: true,
    },
  });
  const ended = new AbortController();
  // Each request that is under way listens to it.
  setMaxListeners(100, ended.signal);
  const end = (): void => ended.abort(signal.reason);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  const how = { abortSignal: ended.signal };
  const ask: Ask = async (verb, command) => {
    const { Prefix = '', Key = Prefix } = command.input as { Key?: string; Prefix?: string };
    ended.signal.throwIfAborted();
    try {
      // Not every version of the SDK checks the signal while it waits for the next attempt.
      return await orAborted(client.send(command, how), ended.signal);
    } catch (error) {
      ended.signal.throwIfAborted();
      throw toTargetError(error, verb, Key, place);
    }
  };
  return {
    sdk,
    client,
    ask,
    /** Aborted with the publication, and by `close`. */
    signal: ended.signal,
    toError: (error: unknown, verb: Verb, key: string): SyncError => toTargetError(error, verb, key, place),
    close: (): void => {
      signal.removeEventListener('abort', end);
      ended.abort(new SyncError('The target is closed.', { code: 'INTERRUPTED', recovery: 'stop' }));
      client.destroy();
    },
  };
}

/** For clients of Node's own, where the environment names a proxy. */
function agents() {
  return hasProxies() ? { httpAgent: tunnelAgent('http:'), httpsAgent: tunnelAgent('https:') } : {};
}

/** Makes each connection through the proxy of its host: a bucket may have one of its own, below that of the server. */
function tunnelAgent(protocol: 'http:' | 'https:'): http.Agent {
  const isTls = protocol === 'https:';
  const agent = new (isTls ? https : http).Agent({ keepAlive: true, maxSockets: 50 });
  const direct = agent.createConnection.bind(agent);
  return Object.assign(agent, {
    createConnection: (to: Target, made: (error: Error | null, socket?: Duplex) => void) => {
      const host = isIPv6(to.host) ? `[${to.host}]` : to.host;
      const proxy = proxyFor(new URL(`${protocol}//${host}:${to.port}`));
      if (proxy === null) return direct(to, made);
      openTunnel(proxy, to).then(
        (socket) => made(null, isTls ? connectTls({ ...to, port: Number(to.port), socket }) : socket),
        (error: unknown) => made(error instanceof Error ? error : new Error(String(error))),
      );
      return undefined;
    },
  });
}

interface Target {
  readonly host: string;
  readonly port: number | string;
}

async function openTunnel(proxy: URL, { host, port }: Target): Promise<Socket> {
  const isTls = proxy.protocol === 'https:';
  const [user, password] = [proxy.username, proxy.password].map(decodeURIComponent);
  const credentials = Buffer.from(`${user}:${password}`).toString('base64');
  const asked = (isTls ? https : http).request({
    host: proxy.hostname.replace(/^\[|\]$/g, ''),
    port: proxy.port || (isTls ? 443 : 80),
    method: 'CONNECT',
    path: `${host}:${port}`,
    agent: false,
    headers: user === '' ? {} : { 'proxy-authorization': `Basic ${credentials}` },
  });
  asked.setTimeout(10_000, () => asked.destroy(Object.assign(new Error('timeout'), { code: 'ETIMEDOUT' })));
  asked.end();
  // `as`: what the event brings.
  const [{ statusCode }, socket] = (await once(asked, 'connect')) as [{ statusCode: number }, Socket];
  socket.setTimeout(0);
  if (statusCode === 200) return socket;
  socket.destroy();
  throw Object.assign(new Error('the proxy refused the tunnel'), { code: `PROXY_HTTP_${statusCode}` });
}

async function loadSdk(): Promise<typeof Sdk> {
  try {
    return await import('@aws-sdk/client-s3');
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ERR_MODULE_NOT_FOUND';
    if (!isMissing) throw cause;
    throw new SyncError(
      'A target of type s3 needs the package @aws-sdk/client-s3, which is not installed. Install it beside this program: `npm install @aws-sdk/client-s3`.',
      { code: 'PACKAGE_MISSING', recovery: 'stop' },
    );
  }
}

/** The SDK's texts and objects stay out: a server can write into them what it likes, and headers have signatures. */
function toTargetError(error: unknown, verb: string, key: string, place: S3Place): SyncError {
  if (error instanceof SyncError) return error;
  const { status, code, region } = factsOf(error);
  const { text, recovery } = failureOf(status, code, region, place);
  const server = place.endpoint === null ? '' : ` at ${new URL(place.endpoint).host}`;
  return new SyncError(`Could not ${verb} s3://${place.bucket}/${key}${server}: ${text}`, {
    code: 'TARGET_FAILED',
    recovery,
    context: { status, code },
  });
}

function factsOf(error: unknown) {
  const of = (value: unknown, name: string): unknown =>
    typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  const wordOf = (...values: readonly unknown[]): string | undefined =>
    values.find((value): value is string => typeof value === 'string' && /^[\w-]{2,64}$/.test(value));
  const status = of(of(error, '$metadata'), 'httpStatusCode');
  const headers = of(of(error, '$response'), 'headers');
  return {
    /** 0: no answer came. */
    status: typeof status === 'number' ? status : 0,
    // An error of the network has its kind in `code`, one of S3 in `name`.
    code: wordOf(of(error, 'code'), of(error, 'Code'), of(error, 'name')) ?? 'unknown',
    region: wordOf(of(headers, 'x-amz-bucket-region'), of(error, 'Region')) ?? null,
  };
}

const rights = 's3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload';
const refusesKey = /^(?:InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken)$/;
const brokeOff = /^(?:ECONN\w+|EPIPE|ETIMEDOUT|TimeoutError|ERR_STREAM_PREMATURE_CLOSE)$/;
const refusesCertificate = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|EPROTO/;

function failureOf(
  status: number,
  code: string,
  region: string | null,
  { bucket, endpoint }: S3Place,
): { readonly text: string; readonly recovery: Recovery } {
  const stop = (text: string): ReturnType<typeof failureOf> => ({ text, recovery: 'stop' });
  const answer = `the server answered ${status} ${code}`;
  if (code === 'NoSuchBucket') {
    return stop(`there is no bucket "${bucket}". Create it, or correct \`bucket\`.`);
  }
  if ([301, 307, 308].includes(status) || (status === 400 && region !== null)) {
    const where = region === null ? 'in another region' : `in the region ${region}`;
    return stop(
      `the bucket is ${where}. Set \`region\` of the target${region === null ? '' : ` to ${region}`}.`,
    );
  }
  if (code === 'CredentialsProviderError' || code === 'TokenProviderError') {
    return stop(
      'no credentials were found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role for this machine, or `accessKeyId` and `secretAccessKey` of the target.',
    );
  }
  if (code === 'RequestTimeTooSkewed') return stop(`${answer}: the clock of this machine is wrong.`);
  if (refusesKey.test(code)) {
    return stop(`${answer}. Check the access key of the target, and that it is one of this service.`);
  }
  if (status === 401 || status === 403) {
    return stop(`${answer}. The access key needs ${rights} on the bucket.`);
  }
  if (status === 0 && refusesCertificate.test(code)) {
    return stop(`the server's certificate was refused (${code}). Name its authority in NODE_EXTRA_CA_CERTS.`);
  }
  // With a status the answer broke off: what it was to say is not known.
  if (status === 0 || brokeOff.test(code)) {
    const server = endpoint === null ? 'AWS' : new URL(endpoint).host;
    return { text: `${server} gave no answer in ${attempts} attempts (${code}).`, recovery: 'retry' };
  }
  if (passes(status, code)) {
    return { text: `${answer} after up to ${attempts} attempts.`, recovery: 'retry' };
  }
  return stop(`${answer}${status === 200 ? ', but not as S3 does' : ''}. Check \`endpoint\` and \`bucket\`.`);
}

/** Whether the same request may succeed later. */
function passes(status: number, code: string): boolean {
  // The answer to an upload's end was lost, and the server has forgotten the upload: the next publication makes
  // another.
  if (code === 'NoSuchUpload') return true;
  if (status === 400) return /Digest|Timeout|Incomplete/.test(code);
  return [408, 409, 412, 429].includes(status) || (status >= 500 && status !== 501);
}

/** For `catch`: null where the server says that there is no such object. */
export function nullIfAbsent(error: unknown): null {
  const isAbsent =
    error instanceof SyncError &&
    error.context['status'] === 404 &&
    (error.context['code'] === 'NoSuchKey' || error.context['code'] === 'NotFound');
  if (isAbsent) return null;
  throw error;
}
