import { createHash, randomBytes } from 'node:crypto';
import { access, constants, open, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { type Child, startChild } from '../../child/start-child.ts';
import { type Clock, instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { createNamedDirectory, hasCode } from '../../files/private-file.ts';
import { synced, toFileError } from '../folder-store.ts';
import { manifestText, readManifest } from '../manifest.ts';
import { type Leftover, removeOld } from '../object-store.ts';
import { sliceRecords } from '../row-files.ts';
import { type PublicationText, tablePublications, writeChanges } from '../tables/target-tables.ts';
import { nothingChecked, type OpenPublication, type Target } from '../target.ts';
import { type Lock, takeLock } from '../../sql/sqlite/lock.ts';
import type { DuckdbCalls } from './duckdb-process.ts';
import { type BuiltEntity, type BuiltRow, incompatible } from './open-duckdb.ts';

export type Build = Awaited<ReturnType<typeof openBuild>>;

interface BuildOptions {
  /** The target file, not a link to it. */
  readonly file: string;
  /** `BuiltFiles.isErasing`. */
  readonly isErasing: boolean;
  readonly duckdb: Pick<Child<DuckdbCalls>, 'ask'>;
  /** Ends the process, which closes its open files. */
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
     * Puts the file that the process has finished in the target's place. False: the old file is no longer the one that
     * was copied, and stays.
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

/** True if no other process has replaced or written to the file since it was opened. */
async function isSame(file: string, old: FileHandle | null): Promise<boolean> {
  await using now = await openOld(file);
  return (await baseOf(now)) === (await baseOf(old));
}

/** A text that differs for each file that takes the target's place, and after each write to it. */
async function baseOf(file: FileHandle | null): Promise<string> {
  if (file === null) return noBase;
  const { dev, ino, mtimeNs } = await file.stat({ bigint: true });
  return createHash('sha256').update(`${dev} ${ino} ${mtimeNs}`).digest('hex').slice(0, noBase.length);
}

const noBase = '0'.repeat(24);

/** Files of builds that were killed or are in progress. `isOver`: built on another base than the file has now. */
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

/** The log of another writer would be taken for a log of the new file. */
async function checkNoLog(file: string): Promise<void> {
  const log = await stat(`${file}.wal`).catch(() => null);
  if (log === null) return;
  throw new SyncError(
    `Another program writes to ${file}: there is a ${path.basename(file)}.wal beside it. Open published files with -readonly; open and close it once with DuckDB, and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'stop', context: { file } },
  );
}

/** A rename has no condition, so the process that renames holds a lock meanwhile, which ends with that process. */
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

/** Most characters of one message, except for a single longer record. */
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

interface DuckdbTargetOptions {
  readonly path: string;
  /** Time that a manifest is kept after a newer one is there; null: forever. */
  readonly keepMs: number | null;
  readonly clock: Clock;
  /** Ends the work in progress, which rejects with the signal's reason. */
  readonly signal: AbortSignal;
}

/**
 * A DuckDB file with the current rows of every entity. Each publication builds another file beside it, which takes its
 * place: readers keep theirs.
 */
export function openDuckdbTarget({ path: given, keepMs, clock, signal }: DuckdbTargetOptions): Target {
  let running: Child<DuckdbCalls> | null = null;
  const duckdb = (): Child<DuckdbCalls> => (running ??= startDuckdbProcess(signal));
  const end = async (): Promise<void> => {
    const ending = running;
    running = null;
    await ending?.[Symbol.asyncDispose]();
  };
  const build = async (at: string, isErasing = false): Promise<Build> =>
    await openBuild({ file: at, isErasing, duckdb: duckdb(), end, clock, signal });
  const file = async (): Promise<string> => await realpath(given).catch(() => given);
  const publications = async (first: number | null, limit: number): Promise<readonly PublicationText[]> => {
    const at = await file();
    if (!(await isThere(at))) return [];
    try {
      return await duckdb().ask('publications', { path: at, first, limit });
    } catch (error) {
      await end();
      throw error;
    }
  };
  const ofTables = tablePublications(publications, (found, advice) => incompatible(given, found, advice));
  return {
    ...ofTables,
    lost: async (_newest, entities) => await duckdb().ask('lost', { path: await file(), entities }),
    begin: async () => {
      const built = await build(await file());
      return filePublication(built, keepMs === null ? null : instant(clock.now() - keepMs));
    },
    probe: async () => {
      const at = await file();
      if (await isThere(at)) {
        await ofTables.newest();
        await access(at, constants.R_OK).catch((error: unknown) => {
          throw toFileError(error, at);
        });
      }
      const folder = await existingFolder(path.dirname(at));
      // A file that is removed: DuckDB is there, takes rows in batches of any length, and can write here.
      await using probe = await build(path.join(folder, `${path.basename(at)}.probe`));
      await probe.ask('entity', probeEntity);
      await probe.ask('rows', [probeRow(1), probeRow(2)]);
      await probe.ask('rows', [probeRow(3)]);
      await probe.ask('merge', null);
      await probe.ask('finish', { publication: null, keepFrom: null });
    },
    check: async (until) => {
      const at = await file();
      if (!(await isThere(at))) return nothingChecked;
      // A separate process, because the signal ends it.
      await using checking = startDuckdbProcess(AbortSignal.any([signal, until]));
      return await checking.ask('check', { path: at });
    },
    prune: async (keepFromMs, isDryRun, isErasing = false) => {
      const at = await file();
      let publications = 0;
      if (keepFromMs !== null) {
        const keepFrom = instant(keepFromMs);
        // Up to the newest one that was there at that instant; a file has thousands of manifests.
        let seen = 0;
        for await (const { manifest } of ofTables.manifests(0)) {
          if (manifest.createdAt >= keepFrom) break;
          seen += 1;
        }
        publications = Math.max(0, seen - 1);
        const isNeeded = publications > 0 || (isErasing && (await isThere(at)));
        if (isNeeded && !isDryRun) {
          await using built = await build(at, isErasing);
          await built.ask('finish', { publication: null, keepFrom });
          if (!(await built.place())) {
            if (isErasing) throw changedMeanwhile(at);
            publications = 0;
          }
        }
      }
      // Last: copies of the file that was replaced just now are over, too.
      const { removed, waiting } = await removeOld(await leftBuilds(at), clock.now(), isDryRun);
      return { publications, ...removed, waiting };
    },
    [Symbol.asyncDispose]: end,
  };
}

/** Rows wait in DuckDB's memory, which has a separate limit. */
const maxHeapMiB = 256;

/**
 * Runs DuckDB in a separate process because it is native code: if it crashes or takes too much memory, no worker ends,
 * and its locks on files are those of a process. It is killed once the signal is aborted. Calls reject with the
 * signal's reason, and with TARGET_FAILED if the process ended unexpectedly.
 */
export function startDuckdbProcess(
  signal: AbortSignal,
  module: string | URL = 'publish/duckdb/duckdb-process',
): Child<DuckdbCalls> {
  // Memory freed by the library's threads stays in the arenas of glibc: a tenth of the process with 30 columns.
  const env = { MALLOC_ARENA_MAX: '2' };
  return startChild<DuckdbCalls>({ module, maxHeapMiB, env, signal, died: diedError });
}

function changedMeanwhile(file: string): SyncError {
  return new SyncError(`${file} was published again meanwhile.`, {
    code: 'TARGET_FAILED',
    recovery: 'retry',
  });
}

function diedError(how: string): SyncError {
  return new SyncError(
    `The process that uses DuckDB ended unexpectedly (${how}); nothing of this publication is there. Check that the machine has a gigabyte of memory free, and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { how } },
  );
}

const probeEntity: BuiltEntity = {
  connector: 'probe' as ConnectorName,
  entity: 'probe' as EntityName,
  generation: 1,
  key: ['id'],
  columns: [{ name: 'id', field: 'id', type: 'integer' }],
  isNewGeneration: true,
};

function probeRow(id: number): BuiltRow {
  return [id, null, id, '2026-01-01T00:00:00.000Z', 'probe', 0];
}

async function isThere(file: string): Promise<boolean> {
  try {
    await stat(file);
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw toFileError(error, file);
  }
}

/** The nearest existing folder on the path. */
async function existingFolder(folder: string): Promise<string> {
  const parent = path.dirname(folder);
  return parent === folder || (await isThere(folder)) ? folder : await existingFolder(parent);
}
