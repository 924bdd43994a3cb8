import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import type { Child } from '../../child/start-child.ts';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { hasCode } from '../../files/private-file.ts';
import { takeLock, type Lock } from '../../sql/sqlite/lock.ts';
import { synced, toFileError } from '../folder-files.ts';
import { manifestText, readManifest } from '../manifest.ts';
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
  const staging = `${file}.new-${randomBytes(4).toString('hex')}`;
  let old: FileHandle | null = null;
  let isPlaced = false;
  const dispose = async (): Promise<void> => {
    await old?.close();
    old = null;
    if (isPlaced) return;
    await end();
    for (const name of [staging, `${staging}.wal`, `${staging}.tmp`]) {
      await rm(name, { recursive: true, force: true });
    }
  };
  try {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    old = await openOld(file);
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
  if (now === null || old === null) return now === old;
  const [one, other] = [await now.stat({ bigint: true }), await old.stat({ bigint: true })];
  return one.dev === other.dev && one.ino === other.ino && one.mtimeNs === other.mtimeNs;
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
