import { createHash, randomBytes } from 'node:crypto';
import { open, readdir, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import type { Child } from '../../child/start-child.ts';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { createNamedDirectory, hasCode } from '../../files/private-file.ts';
import { takeLock, type Lock } from '../../sql/sqlite/lock.ts';
import { synced, toFileError } from '../folder-files.ts';
import { manifestText, readManifest } from '../manifest.ts';
import type { Leftover } from '../object-store.ts';
import { sliceRecords } from '../slice-records.ts';
import { writeChanges } from '../tables/table-publications.ts';
import type { OpenPublication } from '../target.ts';
import type { DuckdbCalls } from './duckdb-process.ts';
import type { BuiltRow } from './fields.ts';

export type Build = Awaited<ReturnType<typeof openBuild>>;

interface BuildOptions {
  /** The target, no link. */
  readonly file: string;
  /** `BuiltFiles.isErasing`. */
  readonly isErasing: boolean;
  readonly duckdb: Pick<Child<DuckdbCalls>, 'ask'>;
  /** Ends the process: it lets go of what it has open. */
  readonly end: () => Promise<void>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const lockMs = 30_000;
const pauseMs = 50;

/** A file that is being built beside the one whose place it takes. Disposed before that, it is removed. */
export async function openBuild({ file, isErasing, duckdb, end, clock, signal }: BuildOptions) {
  let staging = '';
  let old: FileHandle | null = null;
  let isPlaced = false;
  const dispose = async (): Promise<void> => {
    await old?.close();
    old = null;
    if (isPlaced || staging === '') return;
    await end();
    for (const name of [staging, `${staging}.wal`, `${staging}.tmp`]) {
      await rm(name, { recursive: true, force: true });
    }
  };
  try {
    createNamedDirectory(path.dirname(file));
    old = await openOld(file);
    staging = `${file}.new-${await baseOf(old)}${randomBytes(4).toString('hex')}`;
    await checkNoLog(file);
    await duckdb.ask('build', { from: old === null ? null : file, to: staging, isErasing });
  } catch (error) {
    await dispose();
    throw toFileError(error, file);
  }
  return {
    ask: duckdb.ask,
    /**
     * Once the process has finished the file. False: the old file is another one than the one that was copied, and
     * stays.
     */
    place: async (): Promise<boolean> => {
      try {
        const lock = await lockWithin(`${file}.lock`, clock, signal);
        try {
          if (!(await isSame(file, old))) return false;
          await checkNoLog(file);
          await rename(staging, file);
          isPlaced = true;
        } finally {
          lock.release();
        }
        await synced(path.dirname(file));
        return true;
      } catch (error) {
        throw toFileError(error, file);
      }
    },
    [Symbol.asyncDispose]: dispose,
  };
}

/** Held open until the end, so that no other file gets its number. Null: there is none. */
async function openOld(file: string): Promise<FileHandle | null> {
  try {
    return await open(file, 'r');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}

/** Whether no other process has put another file there, or written to it, since it was opened. */
async function isSame(file: string, old: FileHandle | null): Promise<boolean> {
  await using now = await openOld(file);
  return (await baseOf(now)) === (await baseOf(old));
}

/** A text that is another one for each file that takes the target's place, and after each writing to it. */
async function baseOf(file: FileHandle | null): Promise<string> {
  if (file === null) return noBase;
  const { dev, ino, mtimeNs } = await file.stat({ bigint: true });
  return createHash('sha256').update(`${dev} ${ino} ${mtimeNs}`).digest('hex').slice(0, noBase.length);
}

const noBase = '0'.repeat(24);

/** Files of builds that were killed, or are under way. `isOver`: of another base than the file has now. */
export async function leftBuilds(file: string): Promise<readonly Leftover[]> {
  await using now = await openOld(file);
  const base = await baseOf(now);
  const folder = path.dirname(file);
  const begin = `${path.basename(file)}.new-`;
  const found: Leftover[] = [];
  const names = await readdir(folder).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return [];
    throw toFileError(error, folder);
  });
  for (const name of names) {
    const rest = name.startsWith(begin) ? name.slice(begin.length) : '';
    if (!/^[0-9a-f]{32}(\.wal|\.tmp)?$/.test(rest)) continue;
    const at = path.join(folder, name);
    // Null: its builder has just removed it.
    const stats = await stat(at).catch(() => null);
    if (stats === null) continue;
    const remove = async (): Promise<void> => await rm(at, { recursive: true, force: true });
    const facts = { files: 1, bytes: stats.size, modifiedAtMs: stats.mtimeMs };
    found.push({ ...facts, isOver: !rest.startsWith(base), remove });
  }
  return found;
}

/** The log of another writer would be taken for one of the new file. */
async function checkNoLog(file: string): Promise<void> {
  const log = await stat(`${file}.wal`).catch(() => null);
  if (log === null) return;
  throw new SyncError(
    `Another program writes to ${file}: there is a ${path.basename(file)}.wal beside it. Open published files with -readonly; open and close it once with DuckDB, and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'stop', context: { file } },
  );
}

/** A rename asks for no condition: who renames holds the lock meanwhile, which ends with its process. */
async function lockWithin(file: string, clock: Clock, signal: AbortSignal): Promise<Lock> {
  for (let waitedMs = 0; waitedMs < lockMs; waitedMs += pauseMs) {
    const lock = takeLock(file);
    if (lock !== null) return lock;
    await clock.sleep(pauseMs, signal);
  }
  throw new SyncError(
    `Another process holds ${file}, which publishers hold for a moment only. End that process and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { file } },
  );
}

/** What one message carries at most, beyond a single record. */
const messageChars = 1024 * 1024;

/**
 * A publication that is a new file. `keepFrom`: manifests that were not the newest one at this instant or later are
 * left out.
 */
export function filePublication(build: Build, keepFrom: string | null): OpenPublication {
  return {
    write: async (entity, rows) => {
      await build.ask('entity', entity);
      const written = await writeChanges(rows, async (records) => {
        for (const some of sliceRecords(records, messageChars)) {
          const built = some.map(({ values, extra, seq, changedAt, run, isDeleted }): BuiltRow => {
            return [...values, extra, seq, changedAt, run, isDeleted ? 1 : 0];
          });
          await build.ask('rows', built);
        }
      });
      await build.ask('merge', null);
      return written;
    },
    commit: async (manifest) => {
      const text = manifestText(manifest);
      const publication = {
        number: manifest.publication,
        manifest: text,
        sha256: readManifest(text).sha256,
        createdAt: manifest.createdAt,
        previousSha256: manifest.previous?.sha256 ?? null,
      };
      const end = await build.ask('finish', { publication, keepFrom });
      return end === 'done' && (await build.place()) ? 'published' : 'taken';
    },
    [Symbol.asyncDispose]: async () => await build[Symbol.asyncDispose](),
  };
}
