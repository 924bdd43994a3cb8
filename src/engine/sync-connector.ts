import type { Clock } from '../core/clock.ts';
import { instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { EntityName } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';
import type {
  ConnectorIdentity,
  Lease,
  RunOutcome,
  RunReport,
  Sink,
  StartedRun,
  WalkFailure,
} from '../sinks/sink.ts';
import type { Source } from '../source/source.ts';
import type { ChosenEntities } from './chosen-entities.ts';
import { groupCommits } from './group-commits.ts';
import { planRun } from './plan-run.ts';
import { runTally, type RunTally } from './run-tally.ts';
import { walkContexts } from './walk-contexts.ts';
import { walkPartition } from './walk-partition.ts';
import { newWake, workPartitions } from './work-partitions.ts';

export interface SyncOptions {
  readonly identity: ConnectorIdentity;
  readonly definition: Definition;
  /** Closed over ancestors: a child without its parent in it would never be found. */
  readonly entities: ChosenEntities;
  readonly source: Source;
  readonly sink: Sink;
  /** Partitions walked at a time. */
  readonly concurrency: number;
  readonly clock: Clock;
  readonly onEvent: OnRunEvent;
  /** Aborted: pages in hand are stored, calls under way are dropped, the run ends as `interrupted`. */
  readonly signal: AbortSignal;
}

/** Walks in a row that came to nothing because nobody answered: then asking for the others would be no use either. */
const deafWalks = 20;

/** What ended a run before its work was done. */
interface Ending {
  error: SyncError | null;
}

/**
 * One run of one connector: takes it, works off what is due, reports. Resolves with the report whatever the outcome;
 * throws only where no run could be begun (busy, another identity, no connection) or its end could not be stored.
 */
export async function syncConnector(options: SyncOptions): Promise<RunReport> {
  const { sink, source, definition, clock, onEvent, identity } = options;
  await source.connect(options.signal);
  await using lease = await sink.acquire(identity);
  const plan = planRun(definition, options.entities, clock.now());
  const startedMs = clock.now();
  const started = await sink.startRun(lease, plan);
  onEvent({
    kind: 'run-started',
    connector: identity.connector,
    run: started.run,
    continues: started.continues,
    due: started.due,
  });

  const tally = runTally(plan.tables.map(({ entity }) => entity));
  const ending: Ending = { error: null };
  await workRun(options, lease, started, tally, ending);

  const report: RunReport = {
    run: started.run,
    connector: identity.connector,
    outcome: outcomeOf(options.signal, tally, ending),
    startedAt: plan.startedAt,
    finishedAt: instant(clock.now()),
    continues: started.continues,
    entities: tally.entities(),
    ...callsOf(source),
    failures: tally.failures().reported,
    failuresOmitted: tally.failures().omitted,
    error: ending.error === null ? null : { code: ending.error.code, message: ending.error.message },
  };
  await sink.finish(lease, started.run, report);
  onEvent({
    kind: 'run-finished',
    connector: identity.connector,
    run: started.run,
    outcome: report.outcome,
    ms: clock.now() - startedMs,
  });
  return report;
}

async function workRun(
  options: SyncOptions,
  lease: Lease,
  started: StartedRun,
  tally: RunTally,
  ending: Ending,
): Promise<void> {
  const { sink, clock, onEvent } = options;
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const commits = groupCommits(sink, lease, { clock, onEvent });
  const wake = newWake();
  const contextOf = walkContexts(options, { started, tally, commits, signal, wake });
  /** Entities that the service denies as a whole: their other partitions would only be denied one by one. */
  const denied = new Map<EntityName, WalkFailure>();
  let unanswered = 0;

  await workPartitions(
    {
      sink,
      lease,
      concurrency: options.concurrency,
      signal,
      walk: async (partition) => {
        const failure = denied.get(partition.entity);
        if (failure !== undefined) return { kind: 'set-aside', failure };
        commits.walkOpened();
        try {
          const end = await walkPartition(contextOf(partition.entity), partition);
          if (end.kind === 'sealed') {
            unanswered = 0;
            tally.sealed(partition, end.proof);
            onEvent({
              kind: 'walk-sealed',
              entity: partition.entity,
              params: partition.params,
              proof: end.proof.kind,
            });
          }
          if (end.kind === 'set-aside' && end.failure.recovery === 'skip-entity')
            denied.set(partition.entity, end.failure);
          return end;
        } finally {
          commits.walkClosed();
        }
      },
      setAside: async (partition, failure) => {
        unanswered = failure.recovery === 'retry' ? unanswered + 1 : 0;
        await sink.setAside(lease, { partition: partition.id, run: started.run }, failure);
        tally.setAside(partition, failure);
        onEvent({
          kind: 'walk-set-aside',
          entity: partition.entity,
          params: partition.params,
          code: failure.code,
          message: failure.message,
        });
        if (unanswered >= deafWalks) {
          throw new SyncError(`${deafWalks} walks in a row failed, the last one with: ${failure.message}`, {
            code: failure.code,
            recovery: 'stop',
          });
        }
      },
      onFatal: (error) => {
        if (!options.signal.aborted || !isAbort(error, options.signal)) ending.error ??= toSyncError(error);
        stop.abort(error);
      },
    },
    wake,
  ).catch((error: unknown) => {
    ending.error ??= toSyncError(error);
    stop.abort(error);
  });
  try {
    tally.check();
  } catch (error) {
    ending.error ??= toSyncError(error);
  }
}

function outcomeOf(signal: AbortSignal, tally: RunTally, ending: Ending): RunOutcome {
  if (ending.error === null && tally.nothingRead() && !signal.aborted) {
    const first = tally.failures().reported[0];
    ending.error = new SyncError(`nothing could be read: ${first?.message ?? 'every walk failed'}`, {
      code: first?.code ?? 'UPSTREAM',
      recovery: 'stop',
    });
  }
  if (ending.error !== null) return 'failed';
  if (signal.aborted) return 'interrupted';
  return tally.isDegraded() ? 'degraded' : 'ok';
}

function callsOf(source: Source): Pick<RunReport, 'calls' | 'retries' | 'waitedMs' | 'bytes'> {
  const { calls, retries, waitedMs, bytes } = source.stats();
  return { calls, retries, waitedMs, bytes };
}

function isAbort(error: unknown, signal: AbortSignal): boolean {
  return error === signal.reason || (error instanceof Error && error.name === 'AbortError');
}

function toSyncError(error: unknown): SyncError {
  if (error instanceof SyncError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new SyncError(message, { code: 'INTERNAL', recovery: 'stop', cause: error });
}
