import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { SyncError, type ErrorCode } from '../core/errors.ts';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';

const createNew = fs.constants.O_CREAT | fs.constants.O_EXCL | fs.constants.O_RDWR | fs.constants.O_NOFOLLOW;

/**
 * Creates `file` as a regular file that only its owner can read, whatever the umask. Refuses a link. Does not open an
 * existing file: closing any descriptor of a file drops this process's POSIX locks on it, which SQLite relies on.
 */
export function createPrivateFile(file: string): void {
  createPrivateDirectory(dirname(file));
  try {
    fs.closeSync(openPrivateFile(file));
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
    const stats = fs.lstatSync(file);
    checkRegular(file, stats);
    if (stats.size === 0) fs.chmodSync(file, 0o600);
  }
}

/** Creates `file`, which must not exist, for reading and writing by its owner alone; gives its descriptor. */
export function openPrivateFile(file: string): number {
  return fs.openSync(file, createNew, 0o600);
}

/**
 * Throws SINK_INCOMPATIBLE for no regular file, and the system's error where it cannot be known: a folder that may not
 * be entered is not an empty one.
 */
export function isPrivateFileThere(file: string): boolean {
  try {
    checkRegular(file, fs.lstatSync(file));
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    if (hasCode(error, 'ENOTDIR')) throw noFolder(dirname(file), error);
    throw error;
  }
}

/**
 * Makes sure that `directory` exists; missing folders are made for their owner alone, by several processes at once if
 * need be. Step by step: Node's recursive form never ends where a folder answers ENOENT to whatever is made in it
 * (/proc). Throws SINK_INCOMPATIBLE for a file of that name.
 */
export function createPrivateDirectory(directory: string): void {
  try {
    makeDirectory(directory);
  } catch (error) {
    const parent = dirname(directory);
    if (hasCode(error, 'ENOTDIR')) throw noFolder(parent, error);
    if (!hasCode(error, 'ENOENT') || parent === directory) throw error;
    // Where the parent is there by now, another process was faster: once more in any case, and only once.
    if (!fs.existsSync(parent)) createPrivateDirectory(parent);
    makeDirectory(directory);
  }
}

/**
 * The same for a place that a config names: only the last folder is made. A path that leads nowhere is a slip, or a
 * disk that is not mounted, and must not begin an empty store. Throws CONFIG_INVALID.
 */
export function createNamedDirectory(directory: string): void {
  try {
    makeDirectory(directory);
  } catch (error) {
    const parent = dirname(directory);
    if (!hasCode(error, 'ENOENT') || fs.existsSync(parent)) return createPrivateDirectory(directory);
    throw new SyncError(
      `The folder ${directory} cannot be made: expected the folder ${parent}, found none. Correct the path, mount its disk, or make the folder above it: mkdir -p '${parent}'`,
      { code: 'CONFIG_INVALID', recovery: 'stop', context: { directory }, cause: error },
    );
  }
}

/** Makes one level. A folder that already exists, also because another process was faster, is no error. */
function makeDirectory(directory: string): void {
  try {
    fs.mkdirSync(directory, { mode: 0o700 });
    syncDirectory(dirname(directory));
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
    if (!fs.statSync(directory).isDirectory()) throw noFolder(directory, error);
  }
}

function checkRegular(file: string, stats: fs.Stats): void {
  if (stats.isFile()) return;
  throw new SyncError(
    `${file} was expected to be a regular file, not a link, folder or device. Name another path.`,
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { file } },
  );
}

/** Names the file in the way, which may lie above `directory`. */
function noFolder(directory: string, cause: unknown): SyncError {
  if (dirname(directory) !== directory && !fs.existsSync(directory)) {
    return noFolder(dirname(directory), cause);
  }
  return new SyncError(`${directory} is a file, expected a folder. Name another path.`, {
    code: 'SINK_INCOMPATIBLE',
    recovery: 'stop',
    context: { directory },
    cause,
  });
}

export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

/**
 * Makes writes to an existing file survive a power loss. Not for a database: closing it drops this process's locks on
 * it.
 */
export function syncFile(file: string): void {
  syncOpened(fs.openSync(file, fs.constants.O_RDWR));
}

/** Makes names created in or renamed within `directory` survive a power loss. */
export function syncDirectory(directory: string): void {
  syncOpened(fs.openSync(directory, fs.constants.O_RDONLY));
}

function syncOpened(descriptor: number): void {
  try {
    fs.fsyncSync(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
}

const fullCodes: ReadonlySet<string> = new Set(['SQLITE_FULL', 'ENOSPC', 'EDQUOT']);

/** Whether a code of SQLite or of a system call reports a full disk or quota. */
export function saysFull(code: string): boolean {
  return fullCodes.has(code);
}

/** `No space is left for /data/sync.db (ENOSPC)`. */
export function noSpaceText(path: string, code: string): string {
  return `No space is left for ${path} (${code})`;
}

/** Makes a folder for temporary files that only this user can look into. Throws as `checkTemporaryFolder`. */
export async function makeTemporaryFolder(prefix: string, code?: ErrorCode): Promise<string> {
  checkTemporaryFolder([tmpdir()], code);
  return await mkdtemp(join(tmpdir(), prefix));
}

/** Throws `SyncError` where none of the folders can be written to. */
export function checkTemporaryFolder(folders: readonly string[], code: ErrorCode = 'SINK_FAILED'): void {
  const isUsable = (folder: string): boolean => {
    try {
      fs.accessSync(folder, fs.constants.W_OK | fs.constants.X_OK);
      return fs.statSync(folder).isDirectory();
    } catch {
      return false; // The next one may be usable.
    }
  };
  if (folders.some(isUsable)) return;
  throw new SyncError(
    `Expected a temporary folder that this user can write to, found none (${folders.join(', ')}). Mount one at /tmp (docker run --tmpfs /tmp), or name one in TMPDIR.`,
    { code, recovery: 'stop', context: { folders: folders.join(', ') } },
  );
}
