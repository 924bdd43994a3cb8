import type { Clock } from '../core/clock.ts';
import { instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { Definition } from '../definitions/definition.ts';
import type { ConnectorIdentity, RunOutcome, RunReport, Sink, StartedRun } from '../sinks/sink.ts';
import type { Source } from '../source/source.ts';
import type { ChosenEntities } from './chosen-entities.ts';
import { planRun } from './plan-run.ts';
import { runTally, type RunTally } from './run-tally.ts';
import { workRun, type Ending } from './work-run.ts';

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
    outcome: outcomeOf(options.signal, started, tally, ending),
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

function outcomeOf(signal: AbortSignal, started: StartedRun, tally: RunTally, ending: Ending): RunOutcome {
  // A run that goes on with another may find nothing but what failed there: then the rest was read all the same.
  if (ending.error === null && started.continues === null && tally.nothingRead() && !signal.aborted) {
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
