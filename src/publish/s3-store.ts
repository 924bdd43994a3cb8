import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { checkTemporaryFolder, makeTemporaryFolder } from '../files/temporary-folder.ts';
import type { ListObjectsV2CommandOutput } from '@aws-sdk/client-s3';
import { SyncError } from '../core/errors.ts';
import { listFiles, removeFile } from './folder-files.ts';
import { removeEach, type Leftover, type ObjectStore } from './object-store.ts';
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
 * TARGET_INCOMPATIBLE where a server is not like S3, or ignores conditions.
 */
export async function openS3Store(
  place: S3Place,
  { signal, partBytes = 8 * 1024 * 1024, idleTimeoutMs = 30_000 }: S3StoreOptions,
): Promise<ObjectStore> {
  const s3 = await openS3Client(place, { signal, idleTimeoutMs });
  /** For files that wait for their upload, for their owner alone. */
  let staging: Promise<string> | null = null;
  // Processes of one machine may publish to several places.
  const placeHash = createHash('sha256').update(JSON.stringify([place.endpoint, place.bucket, place.prefix]));
  const ownPrefix = stagingPrefix + placeHash.digest('hex').slice(0, 8);
  const at = (name: string) => ({ Bucket: place.bucket, Key: rootOf(place) + name });

  const list: ObjectStore['list'] = (prefix, after) => listObjects(s3, place, prefix, after);
  const read = async (name: string): Promise<Buffer | null> => await readObject(s3, at(name));
  const write = async (name: string, body: Buffer, more: object = {}): Promise<void> => {
    const facts = { ContentLength: body.length, ChecksumSHA256: checksumOf(body) };
    await s3.ask('write', new s3.sdk.PutObjectCommand({ ...at(name), Body: body, ...facts, ...more }));
  };
  const json = { ContentType: 'application/json' };
  const writeNew = async (name: string, text: string): Promise<SyncError | null> =>
    await write(name, Buffer.from(text), { ...json, IfNoneMatch: '*' }).then(() => null, asSyncError);
  let keepsConditions = false;
  /** Before anything is written: two publishers could overwrite each other's manifests. */
  const checkConditions = async (): Promise<void> => {
    if (keepsConditions) return;
    await requireConditions(place, writeNew);
    keepsConditions = true;
  };

  return {
    list,
    sizes: async (names) => await sizesFrom(list, names),
    read,
    stream: (name) => streamObject(s3, at(name)),
    stage: async (name) => {
      staging ??= makeTemporaryFolder(`${ownPrefix}-`, 'TARGET_FAILED');
      const staged = path.join(await staging, ...name.split('/'));
      await mkdir(path.dirname(staged), { recursive: true, mode: 0o700 });
      return staged;
    },
    put: async (name, from, { bytes }) => {
      await checkConditions();
      const file = await open(from, 'r');
      try {
        if (bytes <= partBytes) await write(name, await readRange(file, 0, bytes));
        else await uploadInParts(s3, { at: at(name), file, bytes, partBytes });
      } finally {
        await file.close();
      }
      await rm(from);
    },
    create: async (name, text) => {
      await checkConditions();
      return await createByCondition({ read, writeNew }, name, text);
    },
    replace: async (name, text) => await write(name, Buffer.from(text), json),
    remove: async (names) =>
      await removeEach(names, async (name) => {
        await s3.ask('remove', new s3.sdk.DeleteObjectCommand(at(name))).catch(nullIfAbsent);
      }),
    leftovers: async () => [
      ...(await leftStaged(ownPrefix)),
      ...(await leftUploads(s3, { Bucket: place.bucket, Prefix: rootOf(place) })),
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

interface Creating extends Pick<ObjectStore, 'read'> {
  /** On condition that the name is not taken; gives why it was not written. */
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
    if (isUnknownHeader(failure)) break;
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
        found.push({ ...of, files: 1, ...facts, isLocal: true, remove });
      }
      if (found.length > own) continue;
      const { mtimeMs: modifiedAtMs } = await stat(folder);
      const remove = async (): Promise<void> => await rm(folder, { recursive: true }).catch(() => undefined);
      found.push({ files: 0, bytes: 0, modifiedAtMs, isLocal: true, remove });
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
