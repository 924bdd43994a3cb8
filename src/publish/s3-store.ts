import { mkdtemp, open, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ListObjectsV2CommandOutput } from '@aws-sdk/client-s3';
import { SyncError } from '../core/errors.ts';
import { removeEach, type Leftover, type ObjectStore } from './object-store.ts';
import { createByClaim, leftClaims } from './s3-claims.ts';
import { nullIfAbsent, openS3Client, type OpenS3Client, type S3Place } from './s3-client.ts';
import { checksumOf, leftUploads, readObject, readRange, streamObject, uploadInParts } from './s3-objects.ts';

export interface S3StoreOptions {
  readonly signal: AbortSignal;
  /** What is longer is uploaded in parts of this length. */
  readonly partBytes?: number;
  /** How long a connection may be silent. */
  readonly idleTimeoutMs?: number;
}

/**
 * A bucket, or what is below a prefix in it. Rejects with the signal's reason, PACKAGE_MISSING, TARGET_FAILED, and
 * TARGET_INCOMPATIBLE where a server is not like S3.
 */
export async function openS3Store(
  place: S3Place,
  { signal, partBytes = 8 * 1024 * 1024, idleTimeoutMs = 30_000 }: S3StoreOptions,
): Promise<ObjectStore> {
  const s3 = await openS3Client(place, { signal, idleTimeoutMs });
  /** For files that wait for their upload, for their owner alone. */
  let staging: Promise<string> | null = null;
  let staged = 0;
  const at = (name: string) => ({ Bucket: place.bucket, Key: rootOf(place) + name });

  const list: ObjectStore['list'] = (prefix, after) => listObjects(s3, place, prefix, after);
  const read = async (name: string): Promise<Buffer | null> => await readObject(s3, at(name));
  const write = async (name: string, body: Buffer, more: object = {}): Promise<void> => {
    const facts = { ContentLength: body.length, ChecksumSHA256: checksumOf(body) };
    await s3.ask('write', new s3.sdk.PutObjectCommand({ ...at(name), Body: body, ...facts, ...more }));
  };
  const json = { ContentType: 'application/json' };
  const replace = async (name: string, text: string): Promise<void> =>
    await write(name, Buffer.from(text), json);
  const writeNew = async (name: string, text: string): Promise<SyncError | null> =>
    await write(name, Buffer.from(text), { ...json, IfNoneMatch: '*' }).then(() => null, asSyncError);
  const remove = async (names: readonly string[]): Promise<void> =>
    await removeEach(names, async (name) => {
      await s3.ask('remove', new s3.sdk.DeleteObjectCommand(at(name))).catch(nullIfAbsent);
    });

  return {
    list,
    sizes: async (names) => await sizesFrom(list, names),
    read,
    stream: (name) => streamObject(s3, at(name)),
    stage: async () => {
      staging ??= mkdtemp(path.join(tmpdir(), stagingPrefix));
      staged += 1;
      return path.join(await staging, String(staged));
    },
    put: async (name, from, { bytes }) => {
      const file = await open(from, 'r');
      try {
        if (bytes <= partBytes) await write(name, await readRange(file, 0, bytes));
        else await uploadInParts(s3, { at: at(name), file, bytes, partBytes });
      } finally {
        await file.close();
      }
      await rm(from);
    },
    create: creator({ list, read, replace, remove, writeNew }, s3.signal),
    replace,
    remove,
    leftovers: async () => [
      ...(await leftStagingFolders()),
      ...(await leftUploads(s3, { Bucket: place.bucket, Prefix: rootOf(place) })),
      ...(await leftClaims({ list, remove })),
    ],
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
    if (token !== undefined && objects.length === 0) throw notInOrder(place);
    for (const { Key = '', Size = 0, LastModified } of objects) {
      // Names that only ever rise end every loop, whatever the server says.
      if (!isBehind(Key, last) || !Key.startsWith(root + prefix)) throw notInOrder(place);
      last = Key;
      yield { name: Key.slice(root.length), bytes: Size, modifiedAtMs: LastModified?.getTime() ?? 0 };
    }
  } while (token !== undefined);
}

interface Creating extends Pick<ObjectStore, 'list' | 'read' | 'replace' | 'remove'> {
  /** On condition that the name is not taken; gives why it was not written. */
  readonly writeNew: (name: string, text: string) => Promise<SyncError | null>;
}

/** What a server makes of `If-None-Match`. */
type Conditions = 'kept' | 'ignored' | 'unknown';

function creator(store: Creating, signal: AbortSignal): ObjectStore['create'] {
  let conditions: Conditions | null = null;
  const writeIfNew = async (name: string, text: string): Promise<void> => {
    const failure = await store.writeNew(name, text);
    if (failure !== null && !isRefusal(failure)) throw failure;
  };
  return async (name, text) => {
    conditions ??= await tryConditions(store);
    if (conditions === 'kept') return await createByCondition(store, name, text);
    // With the condition all the same where that is possible: for a server that keeps it at times.
    const write = conditions === 'ignored' ? writeIfNew : store.replace;
    return await createByClaim({ ...store, write }, name, text, signal);
  };
}

/**
 * Writes the same object on condition that it is not there, again if it was not: a server that ignores conditions
 * reports that it was written.
 */
async function tryConditions({ writeNew }: Creating): Promise<Conditions> {
  for (let tried = 1; tried <= 2; tried += 1) {
    const failure = await writeNew('_conditions', '{}\n');
    if (failure === null) continue;
    if (isRefusal(failure)) return 'kept';
    if (isUnknownHeader(failure)) return 'unknown';
    throw failure;
  }
  return 'ignored';
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

/** Folders in which nothing was created for long, by the clock of this machine, which gave them their times. */
async function leftStagingFolders(): Promise<readonly Leftover[]> {
  const found: Leftover[] = [];
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(stagingPrefix)) continue;
    const folder = path.join(tmpdir(), name);
    try {
      const { mtimeMs: modifiedAtMs } = await stat(folder);
      const files = await readdir(folder);
      const sizes = await Promise.all(files.map(async (each) => (await stat(path.join(folder, each))).size));
      const bytes = sizes.reduce((sum, size) => sum + size, 0);
      const remove = async (): Promise<void> => await rm(folder, { recursive: true }).catch(() => undefined);
      found.push({ files: files.length, bytes, modifiedAtMs, isLocal: true, remove });
    } catch {
      // It is another user's, whose next prune removes it; or another process removes it now.
    }
  }
  return found;
}

/** Objects that a list passes before it begins again where the next wanted one should be: as many as a page has. */
const mostPassed = 1_000;

/** Lists what lies around these names, which has many of them in one answer. */
async function sizesFrom(
  list: ObjectStore['list'],
  names: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const wanted = names.toSorted((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
  const sizes = new Map<string, number>();
  for (let at = 0; at < wanted.length;) {
    let passed = 0;
    const before = at;
    for await (const { name, bytes } of list('', wanted[at]?.slice(0, -1))) {
      while (isBehind(name, wanted[at] ?? name)) at += 1;
      passed += 1;
      if (name === wanted[at]) {
        sizes.set(name, bytes);
        at += 1;
        passed = 0;
      }
      if (at === wanted.length || passed === mostPassed) break;
    }
    // None of the rest is there.
    if (passed < mostPassed && at < wanted.length) break;
    // Names that begin with the wanted one's are before it, and it is behind all of them.
    if (at === before) at += 1;
  }
  return sizes;
}

/** S3 sorts names by their bytes in UTF-8, which is not how texts compare here. */
function isBehind(key: string, last: string): boolean {
  return Buffer.compare(Buffer.from(key), Buffer.from(last)) > 0;
}

function asSyncError(error: unknown): SyncError {
  if (error instanceof SyncError) return error;
  throw error;
}

/** The name is taken (412), or another conditional request for it is under way (409). */
function isRefusal({ context }: SyncError): boolean {
  return context['status'] === 412 || context['status'] === 409;
}

/** The server knows no conditions, and says so: 501, or an argument that it does not take. */
function isUnknownHeader({ context }: SyncError): boolean {
  return context['status'] === 501 || context['code'] === 'InvalidArgument';
}

function notS3({ bucket }: S3Place): SyncError {
  return new SyncError(
    `Expected the list of the objects in the bucket "${bucket}", got an answer as S3 gives none. Check \`endpoint\`.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop' },
  );
}

function notInOrder({ bucket }: S3Place): SyncError {
  return new SyncError(
    `The list of the objects in the bucket "${bucket}" is not in the order of their names, or has others than were asked for. Use a general purpose bucket: directory buckets (S3 Express) keep no order.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop' },
  );
}
