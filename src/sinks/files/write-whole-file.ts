import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { open, rename, unlink, type FileHandle, opendir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { explained } from '../../sql/database.ts';
import { syncDirectory, hasCode } from '../../files/private-file.ts';

interface WholeFile {
  readonly folder: string;
  /** Name in the folder. An existing file of that name is replaced, a folder is not. */
  readonly name: string;
  /** In the folder too: the file has this name until all bytes are written. No other writer uses it. */
  readonly temporary: string;
  readonly bytes: AsyncIterable<Uint8Array>;
  /**
   * Translates a failure of the file system. Errors of `bytes` are thrown unchanged, because failed connections have
   * the same codes.
   */
  readonly explain: (error: unknown) => unknown;
}

/** Length of what was written, and its hash in hex. */
export type WrittenBytes = Readonly<Awaited<ReturnType<typeof writeWholeFile>>>;

const createNew = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/**
 * Writes a file for its owner alone, whole or not at all: no chunk is asked for before the last one is written; the
 * file gets its name when all bytes are on the disk.
 */
export async function writeWholeFile(file: WholeFile) {
  const { folder, explain } = file;
  const partial = join(folder, file.temporary);
  const handle = await explained(explain, async () => await open(partial, createNew, 0o600));
  try {
    const written = await writeAll(handle, file);
    await explained(explain, async () => {
      await handle.sync();
      await handle.close();
      await rename(partial, join(folder, file.name));
      syncDirectory(folder);
    });
    return written;
  } catch (error) {
    // A second close is no failure; a file that cannot be removed is a leftover, and the first error says more.
    await handle.close().catch(() => undefined);
    await unlink(partial).catch(() => undefined);
    throw error;
  }
}

async function writeAll(handle: FileHandle, { bytes, explain }: Pick<WholeFile, 'bytes' | 'explain'>) {
  const hash = createHash('sha256');
  let length = 0;
  for await (const chunk of bytes) {
    hash.update(chunk);
    await explained(explain, async () => {
      for (let at = 0; at < chunk.byteLength;) at += (await handle.write(chunk, at)).bytesWritten;
    });
    length += chunk.byteLength;
  }
  return { bytes: length, sha256: hash.digest('hex') };
}

const pattern = /^\.[0-9a-f]{16}\.(\d{1,10})\.[0-9a-f]{8}\.part$/;
/** A process with that number may be a later one, or one of another container. No writer pauses for this long. */
const abandonedMs = 60 * 60 * 1_000;

/** Name of a file while its bytes are received. It contains the id of the writing process. */
export function temporaryName(digits: string): string {
  return `.${digits}.${process.pid}.${randomBytes(4).toString('hex')}.part`;
}

/** Removes temporary files of a folder that no process is writing. This one must not be writing any there. */
export async function removeLeftovers(folder: string, nowMs: number): Promise<number> {
  let removed = 0;
  for await (const { name } of await opendir(folder)) {
    const pid = pattern.exec(name)?.[1];
    if (pid === undefined) continue;
    const file = join(folder, name);
    if (isOtherAlive(Number(pid)) && !(await isOld(file, nowMs))) continue;
    await unlink(file).catch(ignoreMissing);
    removed += 1;
  }
  return removed;
}

function isOtherAlive(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // The process exists and belongs to another user.
    return hasCode(error, 'EPERM');
  }
}

async function isOld(file: string, nowMs: number): Promise<boolean> {
  const found = await stat(file).catch(ignoreMissing);
  return found === undefined || nowMs - found.mtimeMs > abandonedMs;
}

export function ignoreMissing(error: unknown): undefined {
  if (hasCode(error, 'ENOENT')) return;
  throw error;
}
