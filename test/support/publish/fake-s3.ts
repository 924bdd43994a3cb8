import { createHash } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';

export type S3Operation = 'put' | 'get' | 'list' | 'delete';
import { Secret } from '../../../src/core/secret.ts';
import type { S3Place } from '../../../src/publish/s3-store.ts';
import { listen } from '../listen.ts';

/**
 * What happens to a request. `cut-before`: the connection breaks and nothing was done; `cut-after`: it was done, and
 * the answer is lost; `cut-within`: half of the answer comes; `silence`: nothing is done, and no answer comes; `late`:
 * it is done, and answered as a failure that says it was not.
 */
export type S3Fault =
  | 'slow-down'
  | 'cut-before'
  | 'cut-after'
  | 'cut-within'
  | 'silence'
  | 'late'
  | {
      readonly status: number;
      readonly code: string;
      readonly headers?: Readonly<Record<string, string>>;
    };

interface S3Request {
  readonly operation: S3Operation;
  readonly key: string;
  readonly headers: IncomingMessage['headers'];
}

interface S3Object {
  readonly body: Buffer;
  readonly modifiedAtMs: number;
}

export interface FakeS3 extends AsyncDisposable {
  readonly endpoint: string;
  /** By key, in no order. */
  readonly objects: Map<string, S3Object>;
  readonly requests: S3Request[];
  /** Asked for each request. */
  fault: (request: S3Request) => S3Fault | null;
  /** False: overwrites although asked not to, as s3rver does. */
  keepsConditions: boolean;
  /** Names in a page of a list. */
  pageSize: number;
  /** Before a request is done, and again before it is answered. */
  delayMs: () => number;
  /** How a key is written in a list. */
  listed: (key: string) => string;
}

export const fakeBucket = 'lake';
export const fakeKey = { accessKeyId: 'AKIAFAKE', secretAccessKey: 'fake-secret-access-key' };

/** Where the fake is, for the settings of a target. */
export function fakePlace(endpoint: string): S3Place {
  const { accessKeyId, secretAccessKey } = fakeKey;
  const credentials = { accessKeyId, secretAccessKey: new Secret(secretAccessKey) };
  return { bucket: fakeBucket, prefix: 'raw/sync', region: null, endpoint, credentials };
}

/** What a bucket holds below the prefix of `fakePlace`, as files of a folder in place of what it held. */
export function copyObjects({ objects }: FakeS3, folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  for (const [key, { body }] of objects) {
    const file = join(folder, key.slice('raw/sync/'.length));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, body);
  }
}

/** What a target needs of S3, on a free port, with faults. It checks lengths and checksums, not signatures. */
export async function startFakeS3(): Promise<FakeS3> {
  const server = createServer((request, response) => {
    void answer(fake, request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  const { origin, close } = await listen(server);
  const fake: FakeS3 = {
    endpoint: origin,
    objects: new Map(),
    requests: [],
    fault: () => null,
    keepsConditions: true,
    pageSize: 1000,
    delayMs: () => 0,
    listed: (key) => key,
    [Symbol.asyncDispose]: close,
  };
  return fake;
}

interface Answer {
  readonly status: number;
  readonly body?: Buffer | string;
  readonly headers?: Readonly<Record<string, string>>;
}

async function answer(fake: FakeS3, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', fake.endpoint);
  const [, bucket = '', ...rest] = decodeURIComponent(url.pathname).split('/');
  const key = rest.join('/');
  const asked = { operation: operationOf(request, key), key, headers: request.headers };
  fake.requests.push(asked);
  const fault = fake.fault(asked);
  if (fault === 'silence') return;
  if (fault === 'cut-before') return void request.socket.destroy();
  const body = await buffer(request);
  const waitMs = fake.delayMs();
  if (waitMs > 0) await wait(waitMs);
  const done =
    fault === null || typeof fault === 'string'
      ? refusal(asked, bucket, body)
      : failure(fault.status, fault.code, fault.headers);
  const given = done ?? (fault === 'slow-down' ? failure(503, 'SlowDown') : apply(fake, asked, url, body));
  if (fault === 'cut-after') return void request.socket.destroy();
  if (waitMs > 0) await wait(fake.delayMs());
  const { status, headers, body: content = '' } = fault === 'late' ? failure(500, 'InternalError') : given;
  const bytes = Buffer.from(content);
  response.writeHead(status, {
    'content-length': bytes.length,
    'content-type': 'application/xml',
    ...headers,
  });
  if (fault === 'cut-within') {
    response.write(bytes.subarray(0, bytes.length >> 1), () => request.socket.destroy());
    return;
  }
  response.end(status === 204 ? undefined : bytes);
}

function operationOf({ method }: IncomingMessage, key: string): S3Operation {
  if (method === 'GET') return key === '' ? 'list' : 'get';
  return method === 'DELETE' ? 'delete' : 'put';
}

/** What no server does, whatever was asked. */
function refusal({ headers }: S3Request, bucket: string, body: Buffer): Answer | null {
  if (!headers.authorization?.includes(`Credential=${fakeKey.accessKeyId}/`)) {
    return failure(403, 'InvalidAccessKeyId');
  }
  if (bucket !== fakeBucket) return failure(404, 'NoSuchBucket');
  if (headers['transfer-encoding'] !== undefined) return failure(411, 'MissingContentLength');
  const sum = headers['x-amz-checksum-sha256'];
  const isOther = sum !== undefined && sum !== createHash('sha256').update(body).digest('base64');
  return isOther ? failure(400, 'BadDigest') : null;
}

function apply(fake: FakeS3, { operation, key, headers }: S3Request, url: URL, body: Buffer): Answer {
  const query = url.searchParams;
  const found = fake.objects.get(key);
  switch (operation) {
    case 'put':
      if (found !== undefined && headers['if-none-match'] === '*' && fake.keepsConditions) {
        return failure(412, 'PreconditionFailed');
      }
      fake.objects.set(key, { body, modifiedAtMs: Date.now() });
      return { status: 200, headers: { etag: etagOf(body) } };
    case 'get':
      return found === undefined ? failure(404, 'NoSuchKey') : content(found, headers);
    case 'delete':
      fake.objects.delete(key);
      return { status: 204 };
    case 'list':
      return listing(fake, query);
  }
}

function content({ body, modifiedAtMs }: S3Object, headers: IncomingMessage['headers']): Answer {
  const common = { etag: etagOf(body), 'last-modified': new Date(modifiedAtMs).toUTCString() };
  if (headers['if-match'] !== undefined && headers['if-match'] !== common.etag) {
    return failure(412, 'PreconditionFailed');
  }
  const [, first] = /^bytes=(\d+)-$/.exec(headers.range ?? '') ?? [];
  if (first === undefined) return { status: 200, body, headers: common };
  const range = `bytes ${first}-${body.length - 1}/${body.length}`;
  return { status: 206, body: body.subarray(Number(first)), headers: { ...common, 'content-range': range } };
}

function listing(fake: FakeS3, query: URLSearchParams): Answer {
  const prefix = query.get('prefix') ?? '';
  const after = query.get('continuation-token') ?? query.get('start-after') ?? '';
  const keys = [...fake.objects.keys()]
    .filter((key) => key.startsWith(prefix) && byBytes(key, after) > 0)
    .sort(byBytes);
  const page = keys.slice(0, fake.pageSize);
  const next =
    keys.length > page.length ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
  const contents = page.map((key) => {
    const { body, modifiedAtMs } = fake.objects.get(key) ?? { body: '', modifiedAtMs: 0 };
    const at = new Date(modifiedAtMs).toISOString();
    return `<Contents><Key>${fake.listed(key)}</Key><LastModified>${at}</LastModified><Size>${body.length}</Size></Contents>`;
  });
  return xml(
    `<ListBucketResult><IsTruncated>${next !== ''}</IsTruncated>${next}${contents.join('')}</ListBucketResult>`,
  );
}

/** The order of S3. */
function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

const xml = (body: string): Answer => ({ status: 200, body: `<?xml version="1.0"?>${body}` });

function failure(status: number, code: string, headers: Readonly<Record<string, string>> = {}): Answer {
  return {
    status,
    headers,
    body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`,
  };
}

function etagOf(body: Buffer): string {
  return `"${createHash('md5').update(body).digest('hex')}"`;
}
