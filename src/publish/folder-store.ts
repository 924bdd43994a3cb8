import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { link, lstat, mkdir, open, rename, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createNamedDirectory, hasCode } from '../files/private-file.ts';
import { explained, incompatible, notFolder } from './folder-files.ts';
import { leftPartials, listFiles, readFile, removeFile, sizeOf, streamFile, synced } from './folder-files.ts';
import type { ObjectStore } from './object-store.ts';

const createNew = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/**
 * A folder, made for its owner alone (0700, files 0600, whatever the umask) when the first file is written. Below it,
 * links and files in place of folders are refused, and left out of lists. What `put`, `create` and `replace` wrote
 * survives a power loss, and what `remove` removed does not come back.
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

/**
 * The target's own folder may be behind a link; what is below it may not. Names that were made survive a power loss.
 */
async function makeFolders(root: string, folder: string): Promise<void> {
  if (folder === root) {
    makeRoot(root);
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

function makeRoot(root: string): void {
  try {
    createNamedDirectory(root);
  } catch (error) {
    if (!hasCode(error, 'SINK_INCOMPATIBLE')) throw error;
    throw incompatible(root, 'is a file or lies below one, expected a folder');
  }
}
