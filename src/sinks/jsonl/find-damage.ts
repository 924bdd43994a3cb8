import { createHash, hash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import type { DamagedFile } from '../closed-files.ts';
import { type ListedFile, closedName, growingName } from './file-list.ts';

const chunkBytes = 1024 * 1024;

/**
 * A file has its final name, or the one it grew under where that could not be renamed. Another process may rename it
 * between the attempts.
 */
export function findFile(directory: string, file: ListedFile) {
  for (const name of [closedName(file), growingName(file), closedName(file)]) {
    const path = join(directory, name);
    const size = statSync(path, { throwIfNoEntry: false })?.size;
    if (size !== undefined) return { path, size };
  }
  return { path: join(directory, closedName(file)), size: null };
}

/** By its length alone; null where it is the right one. `directory`: of the file's entity. */
export function findWrongLength(directory: string, file: ListedFile): DamagedFile | null {
  const { path, size } = findFile(directory, file);
  return size === file.length ? null : { entity: file.entity, path, length: file.length, found: size };
}

/** By its hash where one is recorded, piece by piece. Rejects with the signal's reason. */
export async function findOtherContent(
  directory: string,
  file: ListedFile,
  how: { readonly signal?: AbortSignal | undefined; readonly onRead?: (bytes: number) => void } = {},
): Promise<DamagedFile | null> {
  const wrong = findWrongLength(directory, file);
  if (wrong !== null || file.hash === null) return wrong;
  const { path } = findFile(directory, file);
  const hash = createHash('sha256');
  const buffer = Buffer.allocUnsafe(Math.min(chunkBytes, file.length));
  await using handle = await open(path, 'r');
  let bytes = 0;
  do {
    how.signal?.throwIfAborted();
    ({ bytesRead: bytes } = await handle.read(buffer, 0, buffer.length, null));
    hash.update(buffer.subarray(0, bytes));
    how.onRead?.(bytes);
  } while (bytes > 0);
  return hash.digest('hex') === file.hash
    ? null
    : { entity: file.entity, path, length: file.length, found: file.length };
}

export interface KeptLines extends Pick<ListedFile, 'length' | 'lastSeq' | 'hash'> {
  readonly isToKeepAside: boolean;
}

const nothing: KeptLines = { length: 0, lastSeq: 0, hash: null, isToKeepAside: false };

/**
 * Null when the committed bytes are there. Else the whole lines before what is missing: blocks that did not reach the
 * disk are beyond the end or full of zeros, which no line holds. Where neither explains the difference no line can be
 * relied on.
 */
export function readKept(path: string, file: ListedFile): KeptLines | null {
  const bytes = existsSync(path) ? readFileSync(path).subarray(0, file.length) : Buffer.alloc(0);
  const hole = bytes.indexOf(0);
  const isWhole = bytes.length === file.length && hole < 0;
  if (isWhole && (file.hash === null || file.hash === hash('sha256', bytes, 'hex'))) return null;
  if (isWhole) return { ...nothing, isToKeepAside: true };
  const good = hole < 0 ? bytes : bytes.subarray(0, hole);
  const length = good.lastIndexOf(10) + 1;
  if (length === 0) return nothing;
  const lastStart = length < 2 ? 0 : good.lastIndexOf(10, length - 2) + 1;
  const lastSeq = readSeq(good.toString('utf8', lastStart, length));
  const isOurs = lastSeq !== null && lastSeq >= file.firstSeq && lastSeq <= file.lastSeq;
  return isOurs
    ? { length, lastSeq, hash: hash('sha256', good.subarray(0, length), 'hex'), isToKeepAside: false }
    : { ...nothing, isToKeepAside: true };
}

const sequenced = z.object({ _seq: z.number().int() });

function readSeq(line: string): number | null {
  try {
    return sequenced.parse(JSON.parse(line))._seq;
  } catch {
    // Not a line of this program (zeros after a power loss, for example): nothing in the file can be trusted.
    return null;
  }
}
