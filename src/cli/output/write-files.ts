import { lstatSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { SyncError, usage } from '../../core/errors.ts';
import { createPrivateDirectory } from '../../files/private-file.ts';
import { keyDigits } from '../../sinks/files/safe-file-name.ts';
import { temporaryName, writeWholeFile } from '../../sinks/files/write-whole-file.ts';

/**
 * Writes a file that only its owner can read, with the folders it needs. Throws USAGE, with an explanation, where the
 * place does not allow it; with `isNew` also where the file exists.
 */
export async function writePrivateFile(file: string, text: string, isNew: boolean): Promise<void> {
  try {
    createPrivateDirectory(dirname(file));
    await writeFile(file, text, { flag: isNew ? 'wx' : 'w', mode: 0o600 });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') {
      throw usage(
        `${file} already exists; not overwritten. Remove it first, or name another file with --config.`,
      );
    }
    throw unwritable(file, error, 'Name another place, or start in a folder that you can write to.');
  }
}

/**
 * Writes a file from a stream, whole or not at all; an existing file is replaced. Throws USAGE with the advice where
 * the place does not allow it.
 */
export async function writeStreamed(file: string, bytes: AsyncIterable<Uint8Array>, advice: string) {
  const place = { folder: dirname(file), name: basename(file), temporary: temporaryName(keyDigits(file)) };
  return await writeWholeFile({ ...place, bytes, explain: (error) => unwritable(file, error, advice) });
}

/** Whether the file exists. Throws USAGE for a device, pipe, link or folder: a file must not replace it. */
export function isReplaceable(file: string): boolean {
  const stats = lstatSync(file, { throwIfNoEntry: false });
  if (stats === undefined || stats.isFile()) return stats !== undefined;
  throw usage(`${file} was expected to be a file, not a link, folder or device. Name another one.`);
}

/** Converts an error of the file system to USAGE with an explanation; returns every other error unchanged. */
export function unwritable(file: string, error: unknown, advice: string): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return error;
  const reason = reasons[String(error.code)] ?? error.message;
  return new SyncError(`${file} cannot be written: ${reason}. ${advice}`, {
    code: 'USAGE',
    recovery: 'stop',
    context: { file },
    cause: error,
  });
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: 'no permission (EACCES)',
  EPERM: 'no permission (EPERM)',
  EROFS: 'the file system is read-only (EROFS)',
  ENOSPC: 'no space is left on its disk (ENOSPC)',
  EISDIR: 'it is a folder, expected a file (EISDIR)',
  ENOENT: 'its folder cannot be found or created (ENOENT)',
};
