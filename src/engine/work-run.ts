import { SyncError, type Recovery } from '../core/errors.ts';
import type { Lease, RunPlan, StartedRun } from '../sinks/sink.ts';
import { fetchFiles } from './files/fetch-files.ts';
import { fetchedEntities } from './files/fetched-entities.ts';
import type { FileTally } from './files/file-tally.ts';
import { hasEnded, isBudgetSpent, noteEnding, toSyncError, type Ending } from './note-ending.ts';
import { evolvingTables } from './prepare/known-schema.ts';
import type { SchemaPolicies } from './prepare/schema-policy.ts';
import type { RunOptions } from './run-options.ts';
import type { RunTally } from './run-tally.ts';
import { sweepRun, tellMissing } from './sweep/sweep-run.ts';
import type { SyncOptions } from './sync-connector.ts';
import { walkRun } from './walk-run.ts';
import { watchTime } from './watch-time.ts';

/** A run that has been started, and what is noted of it. */
export interface RunUnderWay {
  readonly lease: Lease;
  readonly plan: RunPlan;
  readonly started: StartedRun;
  readonly run: RunOptions;
  /** What is done with changes of the records, by table. */
  readonly policies: SchemaPolicies;
  /** The run's start by the service's clock, in milliseconds: what changed later may not have been read. */
  readonly capMs: number;
  /** From when on the run's time counts, in milliseconds. */
  readonly beganMs: number;
  readonly tally: RunTally;
  readonly files: FileTally;
  readonly ending: Ending;
}

/**
 * Works off what is due in a run, then sweeps, gives undeclared fields their columns, fetches files, and notes in `ending` what ended it early. Resolves when everything has
 * stopped; never rejects.
 */
export async function workRun(options: SyncOptions, underWay: RunUnderWay): Promise<void> {
  const { lease, plan, started, run, policies, tally, ending } = underWay;
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const note = (error: unknown): void => noteEnding(ending, error, { signal, nowMs: options.clock.now() });
  const endNow = (error: unknown): void => {
    note(error);
    stop.abort(error);
  };
  // Calls on their way when the last one was spent are paid for: their walks store them, and end with the next call.
  const endRun = (error: unknown): void => (isBudgetSpent(error) ? note(error) : endNow(error));
  const isClosing = (): boolean => ending.isSpent;
  const isOver = (): boolean => hasEnded(ending) || signal.aborted;
  using _time = watchTime(run.budgetMs, underWay.beganMs, { clock: options.clock, onSpent: endNow });

  await walkRun(options, underWay, { signal, endRun, isClosing }).catch(endNow);
  noteMissingRecords(tally, ending);
  // A run that goes on with another may find nothing but what failed there: then the rest was read all the same.
  if (!isOver() && started.continues === null && tally.nothingRead()) ending.error = nothingReadError(tally);
  const { sink, source, definition, entities: chosen, concurrency, onEvent } = options;
  const sweeping = {
    sink,
    lease,
    run: started.run,
    source,
    definition,
    entities: chosen,
    policies,
    options: run,
    concurrency,
    tally,
    onEvent,
    signal,
  };
  // Backfills and the like bring records; what they do not meet says nothing.
  const isSync = plan.kind === 'sync';
  if (isOver()) {
    // What earlier runs withheld is withheld still.
    if (isSync) await tellMissing(sweeping).catch(note);
    return;
  }
  if (isSync) {
    await sweepRun(sweeping).catch(endNow);
    noteMissingRecords(tally, ending);
  }
  // Last of all: what is stored after it would not be prepared for the new columns.
  for (const table of evolvingTables(definition, options.entities)) {
    if (isOver()) return;
    await sink.drift.evolve(lease, started.run, table).catch(endNow);
  }
  // They store no records.
  const { files = null } = options;
  const entities = fetchedEntities(files, plan);
  if (isOver() || files === null || entities.length === 0) return;
  const context = { sink, lease, run: started.run, files, entities, concurrency, tally: underWay.files };
  await fetchFiles({ ...context, clock: options.clock, onEvent, signal }).catch(endNow);
}

function noteMissingRecords(tally: RunTally, ending: Ending): void {
  try {
    tally.check();
  } catch (error) {
    ending.error ??= toSyncError(error);
  }
}

function nothingReadError(tally: RunTally): SyncError {
  const [first] = tally.failures().reported;
  return new SyncError(`nothing could be read: ${first?.message ?? 'every listing failed'}`, {
    code: first?.code ?? 'UPSTREAM',
    recovery: first !== undefined && mayPass.has(first.recovery) ? 'retry' : 'stop',
  });
}

/** Failures of the service rather than of the configuration: the same run may go well later. */
const mayPass: ReadonlySet<Recovery> = new Set<Recovery>([
  'retry',
  'throttle',
  'smaller-page',
  'restart-walk',
]);
