import { lstatSync, realpathSync } from 'node:fs';
import { opendir, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import {
  noSpaceText,
  saysFull,
  createNamedDirectory,
  createPrivateDirectory,
  syncDirectory,
} from '../../files/private-file.ts';
import { explained } from '../../sql/database.ts';
import { digitsOf, keyDigits, safeFileName } from './safe-file-name.ts';
import { ignoreMissing, removeLeftovers, temporaryName, writeWholeFile } from './write-whole-file.ts';

interface FileFolderOptions {
  /** May be a link to a folder; below it none is followed. */
  readonly directory: string;
  readonly connector: ConnectorName;
  readonly clock: Clock;
}

interface FileToStore {
  readonly entity: EntityName;
  readonly keyText: string;
  /** Untrusted; null: the service sent none. */
  readonly name: string | null;
  readonly bytes: AsyncIterable<Uint8Array>;
}

/** The files of one connector: `<directory>/<connector>/<entity>/<file>`. Touches nothing before a call needs it. */
export function openFileFolder({ directory, connector, clock }: FileFolderOptions) {
  const folderOf = (entity: EntityName): string => join(directory, connector, entity);

  /** The entity's folder by its real path: made where it is missing, refused where something else has its name. */
  const realFolder = (entity: EntityName): string => {
    createNamedDirectory(directory);
    let folder = realpathSync(directory);
    for (const name of [connector, entity]) {
      folder = join(folder, name);
      if (lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink() === true) throw linkError(folder);
      createPrivateDirectory(folder);
    }
    return folder;
  };

  const explain =
    (entity: EntityName) =>
    (error: unknown): unknown =>
      toFileError(error, folderOf(entity));
  const inFolder = <Result>(entity: EntityName, work: (folder: string) => Promise<Result>): Promise<Result> =>
    explained(explain(entity), async () => await work(realFolder(entity)));

  return {
    /**
     * Makes the entity's folder and removes leftovers of killed processes. Resolves with the names of files that share
     * their record with others: some may be left over. Throws SINK_INCOMPATIBLE where a link or a file is in the
     * folder's place; SINK_FULL or SINK_FAILED, as `store` and `remove` do.
     */
    prepare: (entity: EntityName): Promise<readonly string[]> =>
      inFolder(entity, async (folder) => {
        await removeLeftovers(folder, clock.now());
        return await namesOfOneRecord(folder);
      }),
    /**
     * Resolves when all bytes are durable under their final name, which follows from key and name. Rejects with the
     * error of `bytes`, and leaves the existing file.
     */
    store: async ({ entity, keyText, name, bytes }: FileToStore) => {
      const file = safeFileName(keyText, name);
      const written = await writeWholeFile({
        folder: await inFolder(entity, async (folder) => folder),
        name: file,
        temporary: temporaryName(keyDigits(keyText)),
        bytes,
        explain: explain(entity),
      });
      return { file, ...written };
    },
    /**
     * Removes a file; resolves also where it no longer exists. `current`: the file that replaced it; null: none did. A
     * file that both names lead to, as some file systems take `A` for `a`, stays.
     */
    remove: (entity: EntityName, file: string, current: string | null): Promise<void> =>
      inFolder(entity, async (folder) => {
        if (current !== null && isOneFile(join(folder, file), join(folder, current))) return;
        await unlink(join(folder, file)).catch(ignoreMissing);
      }),
    /** Resolves where `from` no longer exists, too. `to` is replaced. */
    rename: (entity: EntityName, from: string, to: string): Promise<void> =>
      inFolder(entity, async (folder) => {
        await rename(join(folder, from), join(folder, to)).catch(ignoreMissing);
        syncDirectory(folder);
      }),
  };
}

/** A record has one file, and while that is replaced two. */
async function namesOfOneRecord(folder: string): Promise<readonly string[]> {
  const first = new Map<string, string>();
  const names = new Set<string>();
  for await (const { name } of await opendir(folder)) {
    const digits = digitsOf(name);
    if (digits === null) continue;
    const other = first.get(digits);
    if (other === undefined) first.set(digits, name);
    else names.add(other).add(name);
  }
  return [...names];
}

function isOneFile(file: string, other: string): boolean {
  const [one, two] = [file, other].map((path) => lstatSync(path, { bigint: true, throwIfNoEntry: false }));
  return one !== undefined && two !== undefined && one.dev === two.dev && one.ino === two.ino;
}

function linkError(folder: string): SyncError {
  return new SyncError(
    `${folder} was expected to be a folder of this program's own, not a link. Remove the link, or name another directory for downloads.`,
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { folder } },
  );
}

/** Translates a failure of the file system for the files kept below `folder`. Returns any other error unchanged. */
function toFileError(error: unknown, folder: string): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return error;
  const code = String(error.code);
  if (saysFull(code)) {
    return new SyncError(
      `${noSpaceText(folder, code)}; what was being written is removed. Free space and sync again.`,
      { code: 'SINK_FULL', recovery: 'retry', context: { folder, cause: code }, cause: error },
    );
  }
  return new SyncError(
    `The files in ${folder} could not be read or written (${code} in ${String(error.syscall)}). Check the folder, its owner and the disk.`,
    { code: 'SINK_FAILED', recovery: 'stop', context: { folder, cause: code }, cause: error },
  );
}
