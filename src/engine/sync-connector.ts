import type { Clock } from '../core/clock.ts';
import { instant } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { Definition } from '../definitions/definition.ts';
import type { EntityReport, FailureReport, RunOutcome, RunReport } from '../sinks/run-report.ts';
import type { ConnectorIdentity, Lease, Sink } from '../sinks/sink.ts';
import type { Source } from '../source/source.ts';
import type { ChosenEntities } from './chosen-entities.ts';
import { fileTally, type FileTally } from './files/file-tally.ts';
import type { FileOptions } from './files/fetch-files.ts';
import { fetchedEntities } from './files/fetched-entities.ts';
import { noEnding, type Ending } from './note-ending.ts';
import { planRun } from './plan-run.ts';
import { knownSchema } from './prepare/known-schema.ts';
import { ordinaryRun, type RunOptions } from './run-options.ts';
import { reportedFailures, runTally, type RunTally } from './run-tally.ts';
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
  /** Where it is no ordinary run: what is asked of this one. */
  readonly run?: Partial<RunOptions>;
  /** The files that an ordinary run fetches after its walks. Absent or null: none; which ones are wanted is noted all the same. */
  readonly files?: FileOptions | null;
  /** Aborted: pages in hand are stored, calls under way are dropped, the run ends as `interrupted`. */
  readonly signal: AbortSignal;
}

/**
 * One run of one connector: takes it, works off what is due, reports. Resolves with the report whatever the outcome: also
 * when the service asks for a long pause, which ends the run as `partial` with `resumeAt`, and when its budget is spent (`partial`);
 * throws only where no run could be begun (busy, another identity, no connection) or its end could not be stored.
 */
export async function syncConnector(options: SyncOptions): Promise<RunReport> {
  const { sink, source, clock, onEvent, identity } = options;
  const run: RunOptions = { ...ordinaryRun, ...options.run };
  const beganMs = clock.now();
  await source.connect(options.signal);
  await using lease = await sink.acquire(identity);
  const { definition, policies } = knownSchema(options.definition, options.entities, (table) =>
    sink.drift.known(identity.connector, table),
  );
  const plan = planRun(definition, options.entities, clock.now(), run);
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
  const files = fileTally();
  const ending = noEnding();
  const { serverTime } = source.stats();
  const capMs = serverTime === null ? startedMs : Date.parse(serverTime);
  const underWay = { lease, plan, started, run, policies, capMs, beganMs, tally, files, ending };
  await workRun({ ...options, definition }, underWay);

  const ended = outcomeOf(options.signal, tally.isDegraded() || files.isDegraded(), ending);
  const isRead = ended === 'ok' || ended === 'degraded';
  const entities = isRead
    ? wholeEntities(definition, options.entities, tally.entities())
    : tally.entities().map((entity) => ({ ...entity, isWhole: false }));
  const lost = plan.kind === 'sync' ? await lostForGood(options, lease, entities) : [];
  const outcome = isRead && lost.length > 0 ? 'degraded' : ended;
  const report: RunReport = {
    run: started.run,
    kind: plan.kind,
    connector: identity.connector,
    outcome,
    startedAt: plan.startedAt,
    finishedAt: instant(clock.now()),
    continues: started.continues,
    entities,
    ...callsOf(source),
    ...failuresOf(lost, tally, files),
    error: errorOf(ending),
    resumeAt: outcome === 'partial' ? ending.resumeAt : null,
    left: await sink.left(lease),
    files: files.entities(
      await sink.files.left(lease, started.run, fetchedEntities(options.files ?? null, plan)),
    ),
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

/** Every listing of these entities was read since their rows were lost, and none showed them. */
async function lostForGood(
  { sink }: SyncOptions,
  lease: Lease,
  entities: readonly EntityReport[],
): Promise<readonly FailureReport[]> {
  const lost = await sink.lostRows(lease);
  return lost
    .filter(({ entity }) => entities.some((one) => one.entity === entity && one.isWhole))
    .map(({ entity, rows }) => ({
      entity,
      params: {},
      code: 'SINK_DAMAGED',
      recovery: 'skip-entity',
      message:
        `expected the API to return the ${rows} records whose lines were lost (a power loss or a damaged file), but it did not. ` +
        'They are missing in the sink; a backup of its files still has them. This is reported once.',
    }));
}

function failuresOf(
  lost: readonly FailureReport[],
  tally: RunTally,
  files: FileTally,
): Pick<RunReport, 'failures' | 'failuresOmitted'> {
  const ofWalks = tally.failures();
  const ofFiles = files.failures(reportedFailures - ofWalks.reported.length);
  return {
    failures: [...lost, ...ofWalks.reported, ...ofFiles.reported],
    failuresOmitted: ofWalks.omitted + ofFiles.omitted,
  };
}

function outcomeOf(signal: AbortSignal, isDegraded: boolean, ending: Ending): RunOutcome {
  if (ending.error !== null) return 'failed';
  if (ending.resumeAt !== null || ending.isSpent) return 'partial';
  if (signal.aborted) return 'interrupted';
  return isDegraded ? 'degraded' : 'ok';
}

function errorOf({ error }: Ending): RunReport['error'] {
  return error === null ? null : { code: error.code, recovery: error.recovery, message: error.message };
}

function callsOf(source: Source): Pick<RunReport, 'calls' | 'retries' | 'waitedMs' | 'bytes'> {
  const { calls, retries, waitedMs, bytes } = source.stats();
  return { calls, retries, waitedMs, bytes };
}
