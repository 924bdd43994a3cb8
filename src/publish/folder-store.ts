import { randomBytes } from 'node:crypto';
import { constants, type Dirent, type Stats } from 'node:fs';
import { type FileHandle, link, lstat, mkdir, open, readdir, rename, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SyncError } from '../core/errors.ts';
import { saysFull, createNamedDirectory, hasCode } from '../files/private-file.ts';
import { type Advices, failedError, type Leftover, type ListedObject, type ObjectStore } from './target.ts';

/** A file that is being written: no glob over the files of a kind finds it. */
const partialName = /^\..+\.partial$/;

/** The name of a staged file, derived from its later name. */
const stagedName = /\.([^/]+)\.staged\.partial$/;

/** Ten times the size of a manifest of ten thousand entities. */
const maxTextBytes = 64 * 1024 * 1024;

const readOnly = constants.O_RDONLY | constants.O_NOFOLLOW;

export async function readFile(root: string, path: string): Promise<Buffer | null> {
  await using handle = await openExisting(root, path);
  if (handle === null) return null;
  const { size } = await handle.stat();
  if (size > maxTextBytes) {
    throw incompatible(path, `has ${size} bytes, expected a manifest of at most 64 MiB`);
  }
  return await handle.readFile();
}

/** Yields nothing if the file does not exist. */
export async function* streamFile(root: string, path: string): AsyncGenerator<Uint8Array> {
  await using handle = await explained(path, async () => await openExisting(root, path));
  if (handle === null) return;
  const buffer = Buffer.allocUnsafe(1024 * 1024);
  for (;;) {
    const { bytesRead } = await explained(path, async () => await handle.read(buffer));
    if (bytesRead === 0) return;
    yield Uint8Array.from(buffer.subarray(0, bytesRead));
  }
}

/** Bytes of a file below the root; null if there is none. */
export async function sizeOf(root: string, path: string): Promise<number | null> {
  const stats = await nullWithout(checkFolders(root, dirname(path)).then(async () => await lstat(path)));
  return stats?.isFile() === true ? stats.size : null;
}

/** Null if it does not exist. Refuses links on the way below the root, and anything that is not a file. */
async function openExisting(root: string, path: string): Promise<FileHandle | null> {
  return await nullWithout(
    checkFolders(root, dirname(path)).then(async () => {
      if (!(await lstat(path)).isFile()) throw incompatible(path, 'is a link or a folder, expected a file');
      return await open(path, readOnly);
    }),
  );
}

/** Refuses links, whose targets are neither read nor removed. Rejects with ENOENT if a folder does not exist. */
async function checkFolders(root: string, last: string): Promise<void> {
  for (let folder = last; folder.length > root.length; folder = dirname(folder)) {
    if (!(await lstat(folder)).isDirectory()) throw notFolder(folder);
  }
}

/** False: it does not exist. */
export async function removeFile(root: string, path: string): Promise<boolean> {
  const removed = await nullWithout(
    checkFolders(root, dirname(path)).then(async () => {
      await unlink(path);
      return true;
    }),
  );
  return removed === true;
}

/** Lists files in the order of their names, as a bucket does. Leaves out links, devices and unfinished files. */
export async function* listFiles(root: string, prefix: string, after: string): AsyncGenerator<ListedObject> {
  const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  const place = join(root, prefix.slice(0, Math.max(0, folder.length - 1)));
  await explained(place, async () => await nullWithout(checkFolders(root, place)));
  for await (const { name, stats } of walk(root, folder, prefix)) {
    if (partialName.test(basename(name)) || name <= after) continue;
    yield { name, bytes: stats.size, modifiedAtMs: stats.mtimeMs };
  }
}

/**
 * Every file below `folder`, which is empty or ends with `/`, whose name begins with `prefix`. A file that is missing
 * when its facts are read was removed meanwhile.
 */
async function* walk(
  root: string,
  folder: string,
  prefix: string,
): AsyncGenerator<{ readonly name: string; readonly stats: Stats }> {
  const entries = await explained(join(root, folder), async () => await entriesOf(join(root, folder)));
  const all = entries.map((entry) => ({
    entry,
    name: `${folder}${entry.name}${entry.isDirectory() ? '/' : ''}`,
  }));
  const names = all.filter(({ name }) => name.startsWith(prefix));
  for (const { entry, name } of names.toSorted((left, right) => (left.name < right.name ? -1 : 1))) {
    if (entry.isDirectory()) yield* walk(root, name, prefix);
    if (!entry.isFile()) continue;
    const stats = await explained(join(root, name), async () => await nullWithout(lstat(join(root, name))));
    if (stats !== null) yield { name, stats };
  }
}

async function entriesOf(path: string): Promise<readonly Dirent[]> {
  try {
    return await readdir(path, { withFileTypes: true });
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return [];
    throw hasCode(error, 'ENOTDIR') ? notFolder(path) : error;
  }
}

/** Null where there is no such file. */
export async function nullWithout<Result>(asked: Promise<Result>): Promise<Result | null> {
  try {
    return await asked;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}

export async function leftPartials(root: string): Promise<readonly Leftover[]> {
  const partials: Leftover[] = [];
  for await (const { name, stats } of walk(root, '', '')) {
    if (!partialName.test(basename(name))) continue;
    const path = join(root, name);
    const remove = async (): Promise<void> => void (await explained(path, () => removeFile(root, path)));
    const facts = { files: 1, bytes: stats.size, modifiedAtMs: stats.mtimeMs };
    partials.push({ name: name.replace(stagedName, '$1'), ...facts, remove });
  }
  return partials;
}

/** The file, or the names in a folder, survive a power loss. */
export async function synced(path: string): Promise<void> {
  await using handle = await open(path, constants.O_RDONLY);
  await handle.sync();
}

export async function explained<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw hasCode(error, 'ENOTDIR') ? notFolder(dirname(path)) : toFileError(error, path);
  }
}

export function incompatible(path: string, what: string): SyncError {
  return new SyncError(`${path} ${what}. Remove it, or publish to another folder.`, {
    code: 'TARGET_INCOMPATIBLE',
    recovery: 'stop',
    context: { file: path },
  });
}

export function notFolder(path: string): SyncError {
  return incompatible(path, 'is a link or a file, expected a folder');
}

/**
 * Converts a failure of the file system for a published file to `SyncError` TARGET_FAILED. Other errors are returned
 * unchanged.
 */
export function toFileError(error: unknown, file: string): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return error;
  const code = String(error.code);
  const said = `${file} could not be read or written (${code} in ${String(error.syscall)})`;
  return failedError(said, saysFull(code) ? 'full' : code, advices, {
    context: { file, cause: code },
    cause: error,
  });
}

const advices: Advices = [
  [/^full$/, 'No space is left: free some, and publish again.', 'retry'],
  [/^/, 'Check the folder, its owner and the disk, and publish again.'],
];

const createNew = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/**
 * A folder, created for its owner alone (0700, files 0600, whatever the umask) when the first file is written. Below
 * it, links and files in place of folders are refused, and left out of lists. Files written by `put`, `create` and
 * `replace` survive a power loss, and files removed by `remove` do not come back.
 */
export function openFolderStore(directory: string): ObjectStore {
  const pathOf = (name: string): string => join(directory, ...name.split('/'));
  /** Failures name the path of the name. */
  const at = async <Result>(name: string, work: (path: string) => Promise<Result>): Promise<Result> => {
    const path = pathOf(name);
    return await explained(path, async () => await work(path));
  };

  /** Writes a text beside the name's path, then has `settle` give it its name. */
  const writeText = async <Result>(
    name: string,
    text: string,
    settle: (partial: string, path: string) => Promise<Result>,
  ): Promise<Result> =>
    await at(name, async (path) => {
      const partial = partialOf(path, randomBytes(4).toString('hex'));
      await makeFolders(directory, dirname(path));
      try {
        await writeNew(partial, text);
        const result = await settle(partial, path);
        await synced(dirname(path));
        return result;
      } finally {
        // Renamed, it no longer exists.
        await unlink(partial).catch(() => undefined);
      }
    });

  return {
    maxFileBytes: 256 * 1024 * 1024,
    list: (prefix, after = '') => listFiles(directory, prefix, after),
    sizes: async (names) => {
      const sizes = new Map<string, number>();
      for (const name of names) {
        const bytes = await at(name, async (path) => await sizeOf(directory, path));
        if (bytes !== null) sizes.set(name, bytes);
      }
      return sizes;
    },
    read: async (name) => await at(name, async (path) => await readFile(directory, path)),
    stream: (name) => streamFile(directory, pathOf(name)),
    stage: async (name) =>
      await at(name, async (path) => {
        await makeFolders(directory, dirname(path));
        return partialOf(path, 'staged');
      }),
    put: async (name, staged, { bytes }) =>
      await at(name, async (path) => {
        await makeFolders(directory, dirname(path));
        await settleFile(staged, bytes);
        await rename(staged, path);
        await synced(dirname(path));
      }),
    create: async (name, text) =>
      await writeText(name, text, async (partial, path) => {
        try {
          await link(partial, path);
          return 'created';
        } catch (error) {
          if (hasCode(error, 'EEXIST')) return 'exists';
          if (!hasCode(error, 'EPERM', 'ENOTSUP', 'ENOSYS', 'EOPNOTSUPP')) throw error;
          throw incompatible(directory, 'is on a file system without hard links, which a publication needs');
        }
      }),
    replace: async (name, text) => await writeText(name, text, rename),
    remove: async (names) => {
      const folders = new Set<string>();
      for (const name of names) {
        const isRemoved = await at(name, async (path) => await removeFile(directory, path));
        if (isRemoved) folders.add(dirname(pathOf(name)));
      }
      // A manifest that came back after a power loss would name files that were removed.
      for (const folder of folders) await explained(folder, async () => await synced(folder));
    },
    leftovers: async () => await leftPartials(directory),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** Behind a dot, so that no glob takes it for a file of the target. */
function partialOf(path: string, what: string): string {
  return join(dirname(path), `.${path.slice(dirname(path).length + 1)}.${what}.partial`);
}

async function writeNew(path: string, text: string): Promise<void> {
  await using handle = await open(path, createNew, 0o600);
  await handle.chmod(0o600);
  await handle.writeFile(text);
  await handle.sync();
}

/** Whole, on the disk, and its owner's alone. */
async function settleFile(path: string, bytes: number): Promise<void> {
  await using handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  const { size } = await handle.stat();
  if (size !== bytes) throw new Error(`${path} has ${size} bytes, expected ${bytes}`);
  await handle.chmod(0o600);
  await handle.sync();
}

/** The target's own folder may be behind a link; folders below it may not. Created names survive a power loss. */
async function makeFolders(root: string, folder: string): Promise<void> {
  if (folder === root) {
    createNamedDirectory(root);
    return;
  }
  await makeFolders(root, dirname(folder));
  try {
    await mkdir(folder, { mode: 0o700 });
    await synced(dirname(folder));
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
    if (!(await lstat(folder)).isDirectory()) throw notFolder(folder);
  }
}
