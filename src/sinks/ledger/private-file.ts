import { chmodSync, closeSync, constants, fsyncSync, lstatSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { SyncError } from '../../core/errors.ts';

const createNew = constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | constants.O_NOFOLLOW;

/**
 * Makes sure that `file` exists as a regular file that only its owner can read, whatever the umask, and is no link.
 * An existing file is never opened here: closing any descriptor of a file drops this process's POSIX locks on it, and
 * those locks are what SQLite (another connection in this process) relies on.
 */
export function createPrivateFile(file: string): void {
  createPrivateDirectory(dirname(file));
  try {
    closeSync(openPrivateFile(file));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) {
      throw error;
    }
    const stats = lstatSync(file);
    if (!stats.isFile()) {
      throw new SyncError(
        `${file} was expected to be a regular file, not a link, folder or device. Name another path.`,
        { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { file }, cause: error },
      );
    }
    if (stats.size === 0) {
      chmodSync(file, 0o600);
    }
  }
}

/** Creates `file`, which must not exist, for reading and writing by its owner alone; gives its descriptor. */
export function openPrivateFile(file: string): number {
  return openSync(file, createNew, 0o600);
}

export function createPrivateDirectory(directory: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
}

/** Makes names created in or renamed within `directory` survive a power loss. */
export function syncDirectory(directory: string): void {
  const descriptor = openSync(directory, constants.O_RDONLY);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
