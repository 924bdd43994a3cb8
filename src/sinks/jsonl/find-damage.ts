import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { DamagedFile } from '../closed-files.ts';
import { type ListedFile, closedName, growingName } from './file-list.ts';

const chunkBytes = 1024 * 1024;

/**
 * A file has its final name, or the one it grew under where that could not be renamed. Another process may rename it
 * between the looks.
 */
export function findFile(
  directory: string,
  file: ListedFile,
): { readonly path: string; readonly size: number | null } {
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
