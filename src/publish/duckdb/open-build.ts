import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { takeLock, type Lock } from '../../sql/sqlite/lock.ts';
import { toFileError } from '../file-error.ts';
import { syncedFile } from './synced-file.ts';
import type { DuckdbProcess } from './start-duckdb-process.ts';

/** A file that is being built beside the one whose place it takes. Disposed before that, it is removed. */
export interface Build extends AsyncDisposable {
  readonly ask: DuckdbProcess['ask'];
  /**
   * Once the process has finished the file. False: the old file is another one than the one that was copied, and stays.
   */
  place(): Promise<boolean>;
}

export interface BuildOptions {
  /** The target, no link. */
  readonly file: string;
  readonly duckdb: DuckdbProcess;
  /** Ends the process: it lets go of what it has open. */
  readonly end: () => Promise<void>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const lockMs = 30_000;
const pauseMs = 50;

export async function openBuild({ file, duckdb, end, clock, signal }: BuildOptions): Promise<Build> {
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
    await duckdb.ask({ kind: 'build', from: old === null ? null : file, to: staging });
  } catch (error) {
    await dispose();
    throw toFileError(error, file);
  }
  return {
    ask: (request) => duckdb.ask(request),
    place: async () => {
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
        await syncedFile(path.dirname(file));
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
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}

/** Whether nobody has put another file there, or written to it, since it was opened. */
async function isSame(file: string, old: FileHandle | null): Promise<boolean> {
  const now = await openOld(file);
  if (now === null || old === null) {
    await now?.close();
    return now === old;
  }
  try {
    const [one, other] = [await now.stat({ bigint: true }), await old.stat({ bigint: true })];
    return one.dev === other.dev && one.ino === other.ino && one.mtimeNs === other.mtimeNs;
  } finally {
    await now.close();
  }
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
