import { access, constants, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { startChild, type Child } from '../../child/start-child.ts';
import { instant, type Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { hasCode } from '../../files/private-file.ts';
import { toFileError } from '../folder-files.ts';
import { removeOld } from '../object-store.ts';
import { tablePublications, type PublicationText } from '../tables/table-publications.ts';
import { nothingChecked, type Target } from '../target.ts';
import type { DuckdbCalls } from './duckdb-process.ts';
import type { BuiltEntity, BuiltRow } from './fields.ts';
import { filePublication, leftBuilds, openBuild, type Build } from './open-build.ts';
import { incompatible } from './open-duckdb.ts';

interface DuckdbTargetOptions {
  readonly path: string;
  /** For how long a manifest is kept after a newer one is there; null: for good. */
  readonly keepMs: number | null;
  readonly clock: Clock;
  /** Ends what is under way: it rejects with the signal's reason. */
  readonly signal: AbortSignal;
}

const dayMs = 24 * 3_600_000;

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
      const ages = { ageMs: dayMs, now: () => Promise.resolve(clock.now()), isDryRun };
      const { removed, waiting } = await removeOld(await leftBuilds(at), ages);
      return { publications, ...removed, waiting };
    },
    [Symbol.asyncDispose]: end,
  };
}

/** Rows wait in DuckDB's memory, whose limit is its own. */
const maxHeapMiB = 256;

/**
 * A separate process because DuckDB is native code: what crashes it or takes too much memory ends no worker, and its
 * locks on files are those of a process. Once the signal is aborted it is killed. Calls reject with the signal's
 * reason, and with TARGET_FAILED where the process ended unexpectedly.
 */
export function startDuckdbProcess(
  signal: AbortSignal,
  module: string | URL = 'publish/duckdb/duckdb-process',
): Child<DuckdbCalls> {
  // What threads of the library have freed stays with each arena of glibc: a tenth of the process with 30 columns.
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

/** Up to the first folder that is there. */
async function existingFolder(folder: string): Promise<string> {
  const parent = path.dirname(folder);
  return parent === folder || (await isThere(folder)) ? folder : await existingFolder(parent);
}
