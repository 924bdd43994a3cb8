import { createHash } from 'node:crypto';
import { once, setMaxListeners } from 'node:events';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import { isIPv6, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { addAbortSignal, type Duplex, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';
import type * as Sdk from '@aws-sdk/client-s3';
import type { ListObjectsV2CommandOutput } from '@aws-sdk/client-s3';
import { eachOf, grouped } from '../core/grouped.ts';
import { type ErrorCode, importOptional, SyncError } from '../core/errors.ts';
import { checkTemporaryFolder, makeTemporaryFolder } from '../files/private-file.ts';
import { orAborted } from '../http/or-aborted.ts';
import { hasProxies, proxyFor } from '../http/proxies.ts';
import type { PublishPlace } from '../settings/settings.ts';
import { explained, listFiles, removeFile } from './folder-store.ts';
import { type Advices, atOnce, failedError, type Leftover, type ObjectStore } from './target.ts';

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

type OpenS3Client = Awaited<ReturnType<typeof openS3Client>>;

/** Includes the attempts of the SDK, with a growing wait between them. */
const attempts = 5;

/** Until the first byte of an answer, the request's body included: 32 MiB at 70 kB/s. */
const answerMs = 500_000;

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
      // For clients of Node's own, where the environment names a proxy.
      ...(hasProxies() ? { httpAgent: tunnelAgent('http:'), httpsAgent: tunnelAgent('https:') } : {}),
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

/** Makes each connection through the proxy of its host: a bucket may have a separate host, below that of the server. */
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
  // `as`: the arguments of the event.
  const [{ statusCode }, socket] = (await once(asked, 'connect')) as [{ statusCode: number }, Socket];
  socket.setTimeout(0);
  if (statusCode === 200) return socket;
  socket.destroy();
  throw Object.assign(new Error('the proxy refused the tunnel'), { code: `PROXY_HTTP_${statusCode}` });
}

async function loadSdk(): Promise<typeof Sdk> {
  const load = async () => await import('@aws-sdk/client-s3');
  return await importOptional('A target of type s3', '@aws-sdk/client-s3', load);
}

/** Leaves out the SDK's texts and objects: a server can write anything into them, and headers have signatures. */
function toTargetError(error: unknown, verb: string, key: string, place: S3Place): SyncError {
  if (error instanceof SyncError) return error;
  const { status, code, region } = factsOf(error);
  const server = place.endpoint === null ? '' : ` at ${new URL(place.endpoint).host}`;
  const where = region === null ? '' : `, the bucket is in the region ${region}`;
  const said = `Could not ${verb} s3://${place.bucket}/${key}${server}: ${status === 0 ? 'no answer came' : `the server answered ${status}`} in up to ${attempts} attempts (${code}${where})`;
  return failedError(said, [status, code, region].join(' '), advices, { context: { status, code } });
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

const advices: Advices = [
  [/NoSuchBucket/, 'Create the bucket, or correct `bucket`.'],
  [/^(?:30[178] |400 \S+ \S)/, 'Set `region` of the target to that of the bucket.'],
  [
    /(?:Credentials|Token)ProviderError/,
    'Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role for this machine, or `accessKeyId` and `secretAccessKey` of the target.',
  ],
  [
    /^40[13] |InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|RequestTimeTooSkewed/,
    'Check the access key of the target, its rights on the bucket (s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject), and the clock of this machine.',
  ],
  [
    /^0 .*(?:CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|EPROTO)/,
    "The server's certificate was refused: name its authority in NODE_EXTRA_CA_CERTS.",
  ],
  // With a status of success, the answer broke off: its content is unknown.
  [
    /^0 |ECONN|EPIPE|ETIMEDOUT|TimeoutError|ERR_STREAM_PREMATURE_CLOSE/,
    'Check the server and the network, and publish again.',
    'retry',
  ],
  [
    /^(?:408|409|412|429|5(?!01)\d\d) |^400 \S*(?:Digest|Timeout|Incomplete)/,
    'Publish again later.',
    'retry',
  ],
  [/^/, 'Check `endpoint` and `bucket`: it does not answer as S3 does.'],
];

/** For `catch`: null where the server says that there is no such object. */
function nullIfAbsent(error: unknown): null {
  const isAbsent =
    error instanceof SyncError &&
    error.context['status'] === 404 &&
    (error.context['code'] === 'NoSuchKey' || error.context['code'] === 'NotFound');
  if (isAbsent) return null;
  throw error;
}

interface ObjectPlace {
  readonly Bucket: string;
  readonly Key: string;
}

/** Answers that may break off before the object ends. */
const maxBroken = 5;
/** No file of this program is longer, also where those of a folder were copied into the bucket. */
const maxReadBytes = 512 * 1024 * 1024;

/** Null where there is no such object. Rejects with TARGET_FAILED. */
async function readObject({ sdk, ask, signal, toError }: OpenS3Client, at: ObjectPlace) {
  for (let tried = 1; ; tried += 1) {
    const answer = await ask('read', new sdk.GetObjectCommand(at)).catch(nullIfAbsent);
    if (answer === null) return null;
    const { Body, ContentLength: bytes } = answer;
    // Without a length, a broken connection would not show how much is missing.
    if (bytes === undefined || !(Body instanceof Readable)) throw unreadable(at, noLength);
    if (bytes > maxReadBytes) throw unreadable(at, tooLong, 'TARGET_INCOMPATIBLE');
    let failure: unknown = Object.assign(new Error(), { code: 'ERR_STREAM_PREMATURE_CLOSE' });
    try {
      const body = await buffer(addAbortSignal(signal, Body));
      if (body.length === bytes) return body;
    } catch (error) {
      signal.throwIfAborted();
      failure = error;
    }
    if (tried === maxBroken) throw toError(failure, 'read', at.Key);
  }
}

const noLength =
  'the answer does not say how long the object is (Content-Length). Check `endpoint`, and whether a proxy on the way changes answers.';
const tooLong = `expected at most ${maxReadBytes} bytes, got more: this program did not write it. Remove it, or choose another \`prefix\`.`;

function unreadable({ Bucket, Key }: ObjectPlace, why: string, code: ErrorCode = 'TARGET_FAILED'): SyncError {
  return new SyncError(`Could not read s3://${Bucket}/${Key}: ${why}`, { code, recovery: 'stop' });
}

function notAsWritten(file: string, found: number, bytes: number): SyncError {
  return new SyncError(
    `${file} has ${found} bytes, and ${bytes} were written to it: something else changes the folder of temporary files. Publish again.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { file } },
  );
}

/** Files are sent from memory, each in one request, which is sent again as a whole. */
const maxFileBytes = 32 * 1024 * 1024;

export interface S3StoreOptions {
  readonly signal: AbortSignal;
  /** How long a connection may be silent. */
  readonly idleTimeoutMs?: number;
}

/**
 * A bucket, or the objects below a prefix in it. Rejects with the signal's reason, PACKAGE_MISSING, TARGET_FAILED, and
 * TARGET_INCOMPATIBLE if a server is not compatible with S3, or ignores conditions.
 */
export async function openS3Store(
  place: S3Place,
  { signal, idleTimeoutMs = 30_000 }: S3StoreOptions,
): Promise<ObjectStore> {
  const s3 = await openS3Client(place, { signal, idleTimeoutMs });
  /** For files that wait for their upload, for their owner alone. */
  let staging: Promise<string> | null = null;
  // Processes of one machine may publish to several places.
  const placeHash = createHash('sha256').update(JSON.stringify([place.endpoint, place.bucket, place.prefix]));
  const ownPrefix = stagingPrefix + placeHash.digest('hex').slice(0, 8);
  const at = (name: string) => ({ Bucket: place.bucket, Key: rootOf(place) + name });

  const read = async (name: string): Promise<Buffer | null> => await readObject(s3, at(name));
  const write = async (name: string, body: Buffer, sha256: Buffer, more: object = {}): Promise<void> => {
    const facts = { ContentLength: body.length, ChecksumSHA256: sha256.toString('base64') };
    await s3.ask('write', new s3.sdk.PutObjectCommand({ ...at(name), Body: body, ...facts, ...more }));
  };
  const writeText = async (name: string, text: string, more: object = {}): Promise<void> =>
    await write(name, Buffer.from(text), createHash('sha256').update(text).digest(), { ...json, ...more });
  const json = { ContentType: 'application/json' };
  const writeNew = async (name: string, text: string): Promise<SyncError | null> =>
    await writeText(name, text, { IfNoneMatch: '*' }).then(() => null, asSyncError);
  let keepsConditions = false;
  /** Before anything is written: two publishers could overwrite each other's manifests. */
  const checkConditions = async (): Promise<void> => {
    if (keepsConditions) return;
    await requireConditions(place, writeNew);
    keepsConditions = true;
  };

  return {
    maxFileBytes,
    list: (prefix, after) => listObjects(s3, place, prefix, after),
    sizes: async (names) => await sizesIn((...of) => listObjects(s3, place, ...of), names),
    read,
    stream: async function* (name) {
      const body = await read(name);
      if (body !== null) yield body;
    },
    stage: async (name) => {
      staging ??= makeTemporaryFolder(`${ownPrefix}-`, 'TARGET_FAILED');
      const staged = path.join(await staging, ...name.split('/'));
      await mkdir(path.dirname(staged), { recursive: true, mode: 0o700 });
      return staged;
    },
    put: async (name, from, { bytes, sha256 }) => {
      await checkConditions();
      const body = await explained(from, async () => await readFile(from));
      if (body.length !== bytes) throw notAsWritten(from, body.length, bytes);
      await write(name, body, Buffer.from(sha256, 'hex'));
      await rm(from);
    },
    create: async (name, text) => {
      await checkConditions();
      return await createByCondition({ read, writeNew }, name, text);
    },
    replace: writeText,
    remove: async (names) =>
      await eachOf(names, atOnce, async (name) => {
        await s3.ask('remove', new s3.sdk.DeleteObjectCommand(at(name))).catch(nullIfAbsent);
      }),
    leftovers: async () => await leftStaged(ownPrefix),
    [Symbol.asyncDispose]: async () => {
      s3.close();
      const folder = await staging?.catch(() => null);
      if (typeof folder === 'string') await rm(folder, { recursive: true, force: true });
    },
  };
}

function rootOf({ prefix }: S3Place): string {
  return prefix === '' ? '' : `${prefix}/`;
}

async function* listObjects(s3: OpenS3Client, place: S3Place, prefix: string, after?: string) {
  const root = rootOf(place);
  let last = after === undefined ? '' : root + after;
  let token: string | undefined;
  do {
    const from = token === undefined ? { StartAfter: last || undefined } : { ContinuationToken: token };
    const input = new s3.sdk.ListObjectsV2Command({ Bucket: place.bucket, Prefix: root + prefix, ...from });
    const page: ListObjectsV2CommandOutput = await s3.ask('list', input);
    if (page.IsTruncated === undefined) throw notS3(place);
    const objects = page.Contents ?? [];
    token = page.IsTruncated ? page.NextContinuationToken : undefined;
    if (token !== undefined && objects.length === 0) throw notS3(place);
    for (const { Key = '', Size = 0, LastModified } of objects) {
      // Names that only ever rise end every loop, whatever the server says.
      if (byBytes(Key, last) <= 0 || !Key.startsWith(root + prefix)) throw notS3(place);
      last = Key;
      yield { name: Key.slice(root.length), bytes: Size, modifiedAtMs: LastModified?.getTime() ?? 0 };
    }
  } while (token !== undefined);
}

interface Creating extends Pick<ObjectStore, 'read'> {
  /** Writes on condition that the name is not taken; resolves with the reason if it was not written. */
  readonly writeNew: (name: string, text: string) => Promise<SyncError | null>;
}

/**
 * Writes the same object on condition that it is not there, again if it was not: a server that ignores conditions
 * reports that it was written. Rejects with TARGET_INCOMPATIBLE then.
 */
async function requireConditions({ bucket }: S3Place, writeNew: Creating['writeNew']): Promise<void> {
  for (let tried = 1; tried <= 2; tried += 1) {
    const failure = await writeNew('_conditions', '{}\n');
    if (failure === null) continue;
    if (isRefusal(failure)) return;
    // The server knows no conditions, and says so: by 501, or by an argument that it does not take.
    if (failure.context['status'] === 501 || failure.context['code'] === 'InvalidArgument') break;
    throw failure;
  }
  throw new SyncError(
    `The server of the bucket "${bucket}" ignores conditions (If-None-Match: *), so two publishers could overwrite each other's publications. Nothing is published there. Use a server with conditional writes (docs/publications.md names some), or a target of type files.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop' },
  );
}

async function createByCondition(store: Creating, name: string, text: string): Promise<'created' | 'exists'> {
  for (let tried = 1; ; tried += 1) {
    const failure = await store.writeNew(name, text);
    if (failure === null) return 'created';
    // An attempt whose answer was lost may have written it: the text says whose it is.
    const found = await store.read(name);
    if (found !== null) return found.toString() === text ? 'created' : 'exists';
    if (!isRefusal(failure) || tried === 3) throw failure;
  }
}

const stagingPrefix = 'connector-sync-publish-';

/**
 * Staged files, and folders without any, by the clock of this machine, which gave them their times. Those for other
 * places have no name: only their age says that they are leftovers.
 */
async function leftStaged(ownPrefix: string): Promise<readonly Leftover[]> {
  checkTemporaryFolder([tmpdir()], 'TARGET_FAILED');
  const found: Leftover[] = [];
  for (const base of await readdir(tmpdir())) {
    if (!base.startsWith(stagingPrefix)) continue;
    const folder = path.join(tmpdir(), base);
    const own = found.length;
    try {
      for await (const { name, ...facts } of listFiles(folder, '', '')) {
        const remove = async (): Promise<void> => void (await removeFile(folder, path.join(folder, name)));
        const of = base.startsWith(ownPrefix) ? { name } : {};
        found.push({ ...of, files: 1, ...facts, remove });
      }
      if (found.length > own) continue;
      const { mtimeMs: modifiedAtMs } = await stat(folder);
      const remove = async (): Promise<void> => await rm(folder, { recursive: true }).catch(() => undefined);
      found.push({ files: 0, bytes: 0, modifiedAtMs, remove });
    } catch {
      // It is another user's, whose next prune removes it; or another process removes it now.
    }
  }
  return found;
}

/** A list for each folder, from the first of its names on: one answer has a thousand sizes. */
async function sizesIn(list: ObjectStore['list'], names: readonly string[]) {
  const byFolder = grouped(names.toSorted(byBytes), (name) => name.slice(0, name.lastIndexOf('/') + 1));
  const sizes = new Map<string, number>();
  await eachOf([...byFolder], atOnce, async ([folder, wanted]) => {
    const left = new Set(wanted);
    for await (const { name, bytes } of list(folder, wanted[0]?.slice(0, -1))) {
      if (left.delete(name)) sizes.set(name, bytes);
      if (left.size === 0) break;
    }
  });
  return sizes;
}

/** S3 sorts names by their bytes in UTF-8, which is not how texts compare here. */
function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

function asSyncError(error: unknown): SyncError {
  if (error instanceof SyncError) return error;
  throw error;
}

/** The name is taken (412), or another conditional request for it is under way (409). */
function isRefusal({ context }: SyncError): boolean {
  return context['status'] === 412 || context['status'] === 409;
}

function notS3({ bucket }: S3Place): SyncError {
  return new SyncError(
    `The list of the objects in the bucket "${bucket}" is not as S3 gives it, in the order of their names. Check \`endpoint\`, and use a general purpose bucket: directory buckets (S3 Express) keep no order.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop' },
  );
}
