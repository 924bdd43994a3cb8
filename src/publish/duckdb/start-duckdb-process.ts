import { SyncError } from '../../core/errors.ts';
import { builtModule } from '../../core/program-files.ts';
import { forkModule } from '../../search/process/fork-module.ts';
import type { DuckdbAnswer, DuckdbRequest } from './messages.ts';

/** A process with DuckDB in it. Disposed, it is gone; it also ends when this process does. */
export interface DuckdbProcess extends AsyncDisposable {
  /** One at a time. Rejects with `SyncError`: what the process said, or TARGET_FAILED where it died. */
  ask(request: DuckdbRequest): Promise<Exclude<DuckdbAnswer, { readonly kind: 'failed' }>>;
}

/** Rows wait in DuckDB's memory, whose limit is its own. */
const maxHeapMiB = 256;

/**
 * It gets no secret of this program: of the environment only where temporary files go, and the time zone. A process of
 * its own because DuckDB is native code: what crashes it or takes too much memory ends no worker, and its locks on
 * files are those of a process. Once the signal is aborted it is killed, and requests reject with its reason.
 */
export function startDuckdbProcess(
  signal: AbortSignal,
  entry: URL = builtModule('publish/duckdb/duckdb-process'),
): DuckdbProcess {
  // What threads of the library have freed stays with each arena of glibc: a tenth of the process with 30 columns.
  const child = forkModule<DuckdbRequest, DuckdbAnswer>(entry, maxHeapMiB, {
    env: { MALLOC_ARENA_MAX: '2' },
  });
  let ended: string | null = null;
  let waiting: {
    readonly resolve: (answer: DuckdbAnswer) => void;
    readonly reject: (error: Error) => void;
  } | null = null;
  signal.addEventListener('abort', child.kill, { once: true });
  const gone = child.gone.then((how) => {
    ended = how;
    signal.removeEventListener('abort', child.kill);
    waiting?.reject(signal.aborted ? (signal.reason as Error) : diedError(how));
    waiting = null;
  });
  child.listen((answer) => {
    waiting?.resolve(answer);
    waiting = null;
  });
  return {
    ask: async (request) => {
      signal.throwIfAborted();
      const answer = await new Promise<DuckdbAnswer>((resolve, reject) => {
        if (ended !== null) {
          reject(diedError(ended));
          return;
        }
        waiting = { resolve, reject };
        child.send(request);
      });
      if (answer.kind !== 'failed') return answer;
      const { message, ...options } = answer.error;
      throw new SyncError(message, options);
    },
    [Symbol.asyncDispose]: async () => {
      child.kill();
      await gone;
    },
  };
}

function diedError(how: string): SyncError {
  return new SyncError(
    `The process that uses DuckDB ended unexpectedly (${how}); nothing of this publication is there. Check that the machine has a gigabyte of memory free, and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { how } },
  );
}
