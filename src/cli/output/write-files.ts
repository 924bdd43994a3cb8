import { writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SyncError } from '../../core/errors.ts';
import { createPrivateDirectory } from '../../files/private-file.ts';

/**
 * Writes a file that only its owner can read, with the folders it needs. Throws USAGE, in words, where the place does
 * not allow it; with `isNew` also where the file exists.
 */
export async function writePrivateFile(file: string, text: string, isNew: boolean): Promise<void> {
  try {
    createPrivateDirectory(dirname(file));
    await writeFile(file, text, { flag: isNew ? 'wx' : 'w', mode: 0o600 });
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error && 'code' in error)) throw error;
    const why =
      error.code === 'EEXIST'
        ? `${file} already exists; not overwritten. Remove it first, or name another file with --config.`
        : `${file} cannot be written: ${reasons[String(error.code)] ?? error.message}. Name another place, or start in a folder that you can write to.`;
    throw new SyncError(why, { code: 'USAGE', recovery: 'stop', context: { file }, cause: error });
  }
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: 'no permission (EACCES)',
  EPERM: 'no permission (EPERM)',
  EROFS: 'the file system is read-only (EROFS)',
  ENOSPC: 'no space is left on its disk (ENOSPC)',
  EISDIR: 'it is a folder, expected a file (EISDIR)',
  ENOENT: 'its folder cannot be created (ENOENT)',
};
