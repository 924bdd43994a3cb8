import { startChild, type Child } from '../../child/start-child.ts';
import { SyncError } from '../../core/errors.ts';
import type { FileBuild } from './build-file.ts';
import type { checkFile, lostInFile, readPublications } from './read-file.ts';

/** What the process that opens DuckDB files answers: one call after the answer to the one before. */
export type DuckdbCalls = {
  readonly publications: typeof readPublications;
  readonly check: typeof checkFile;
  readonly lost: typeof lostInFile;
  /** Makes the file `to`, with all that `from` holds, and keeps it open for the next calls. Null: an empty one. */
  readonly build: (files: { readonly from: string | null; readonly to: string }) => Promise<void>;
} & FileBuild;

export type DuckdbProcess = Child<DuckdbCalls>;

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
): DuckdbProcess {
  // What threads of the library have freed stays with each arena of glibc: a tenth of the process with 30 columns.
  const env = { MALLOC_ARENA_MAX: '2' };
  return startChild<DuckdbCalls>({ module, maxHeapMiB, env, signal, died: diedError });
}

function diedError(how: string): SyncError {
  return new SyncError(
    `The process that uses DuckDB ended unexpectedly (${how}); nothing of this publication is there. Check that the machine has a gigabyte of memory free, and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { how } },
  );
}
