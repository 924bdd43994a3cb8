import type { Clock } from '../core/clock.ts';
import { instant } from '../core/clock.ts';
import { SyncError, type Recovery } from '../core/errors.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { Definition } from '../definitions/definition.ts';
import type { ConnectorIdentity, RunOutcome, RunReport, Sink, StartedRun } from '../sinks/sink.ts';
import type { Source } from '../source/source.ts';
import type { ChosenEntities } from './chosen-entities.ts';
import type { Ending } from './note-ending.ts';
import { planRun } from './plan-run.ts';
import { runTally, type RunTally } from './run-tally.ts';
import { wholeEntities } from './whole-entities.ts';
import { workRun } from './work-run.ts';

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
 * One run of one connector: takes it, works off what is due, reports. Resolves with the report whatever the outcome: also
 * when the service asks for a long pause, which ends the run as `partial` with `resumeAt`;
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

  const tally = runTally(
    plan.tables.map(({ entity }) => entity),
    started.earlier,
  );
  const ending: Ending = { error: null, resumeAt: null };
  await workRun(options, lease, started, tally, ending);

  const outcome = outcomeOf(options.signal, started, tally, ending);
  const entities = tally.entities();
  const report: RunReport = {
    run: started.run,
    connector: identity.connector,
    outcome,
    startedAt: plan.startedAt,
    finishedAt: instant(clock.now()),
    continues: started.continues,
    entities:
      outcome === 'ok' || outcome === 'degraded'
        ? wholeEntities(definition, options.entities, entities)
        : entities.map((entity) => ({ ...entity, isWhole: false })),
    ...callsOf(source),
    failures: tally.failures().reported,
    failuresOmitted: tally.failures().omitted,
    error: errorOf(ending),
    resumeAt: outcome === 'partial' ? ending.resumeAt : null,
  };
  await sink.finish(lease, started.run, report);
  onEvent({
    kind: 'run-finished',
    connector: identity.connector,
    run: started.run,
    outcome: report.outcome,
    ms: clock.now() - startedMs,
    waitedMs: report.waitedMs,
  });
  return report;
}

function outcomeOf(signal: AbortSignal, started: StartedRun, tally: RunTally, ending: Ending): RunOutcome {
  // A run that goes on with another may find nothing but what failed there: then the rest was read all the same.
  const isEnded = ending.error !== null || ending.resumeAt !== null || signal.aborted;
  if (!isEnded && started.continues === null && tally.nothingRead()) {
    const first = tally.failures().reported[0];
    ending.error = new SyncError(`nothing could be read: ${first?.message ?? 'every walk failed'}`, {
      code: first?.code ?? 'UPSTREAM',
      recovery: first !== undefined && mayPass.has(first.recovery) ? 'retry' : 'stop',
    });
  }
  if (ending.error !== null) return 'failed';
  if (ending.resumeAt !== null) return 'partial';
  if (signal.aborted) return 'interrupted';
  return tally.isDegraded() ? 'degraded' : 'ok';
}

/** Failures of the service rather than of the configuration: the same run may go well later. */
const mayPass: ReadonlySet<Recovery> = new Set<Recovery>([
  'retry',
  'throttle',
  'smaller-page',
  'restart-walk',
]);

function errorOf({ error }: Ending): RunReport['error'] {
  return error === null ? null : { code: error.code, recovery: error.recovery, message: error.message };
}

function callsOf(source: Source): Pick<RunReport, 'calls' | 'retries' | 'waitedMs' | 'bytes'> {
  const { calls, retries, waitedMs, bytes } = source.stats();
  return { calls, retries, waitedMs, bytes };
}
