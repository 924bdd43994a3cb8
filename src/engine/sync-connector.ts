import { instant } from '../core/clock.ts';
import { SyncError, type ErrorCode, type Recovery } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';
import { completenessOf, type Completeness } from '../sinks/completeness.ts';
import { withoutKey, type EntityReport, type RunOutcome, type RunReport } from '../sinks/run-report.ts';
import type { ChosenEntities } from './chosen-entities.ts';
import { fetchedEntities, fetchFiles } from './files/fetch-files.ts';
import { evolvingTables } from './prepare/schema-policy.ts';
import { newRunId } from './plan-run.ts';
import { toSyncError, watchTime, openRun, type Run, type SyncOptions } from './run.ts';
import { reportedFailures } from './run-tally.ts';
import { getsWithoutLimits, sweepPhase } from './sweep/sweep-run.ts';
import { walkPhase } from './walk-phase.ts';

/**
 * One run of one connector: takes it, works off what is due, reports, whatever the outcome; `partial` where the service
 * asks for a long pause (`resumeAt`) or the budget is spent. Throws only where no run could be begun (busy, another
 * identity, no connection) or its end could not be stored.
 */
export async function syncConnector(options: SyncOptions): Promise<RunReport> {
  const beganMs = options.clock.now();
  await options.source.connect(options.signal);
  await using lease = await options.sink.acquire(options.identity);
  const run = await openRun(options, lease, beganMs);
  await runPhases(run);
  return await report(run);
}

/**
 * Each phase leaves what ended the run early in `run.ending`. Those after it then do no work: the sweep only says what
 * is missing. Never rejects.
 */
async function runPhases(run: Run): Promise<void> {
  const { asked, beganMs, clock, ending } = run;
  using _time = watchTime(asked.budgetMs, beganMs, { clock, onSpent: ending.endNow });
  await walkPhase(run).catch(ending.end);
  checkAccount(run);
  noteNothingRead(run);
  await sweepPhase(run);
  checkAccount(run);
  // After all that stores records: later ones would not be prepared for the new columns.
  await evolveColumns(run);
  if (!ending.isOver) await fetchFiles(run).catch(ending.end);
}

function checkAccount({ tally, ending }: Run): void {
  try {
    tally.check();
  } catch (error) {
    ending.fail(error);
  }
}

/** A resumed run may find nothing but what failed before: then the rest was read all the same. */
function noteNothingRead({ ending, continues, tally }: Run): void {
  if (ending.isOver || continues !== null || !tally.nothingRead()) return;
  const [first] = tally.failures().reported;
  const hasRecords = tally.entities().some(({ counts }) => counts.fetched > 0);
  const what = hasRecords ? 'no listing could be read to its end' : 'nothing could be read';
  ending.fail(
    new SyncError(`${what}: ${first?.message ?? 'every listing failed'}`, {
      code: first?.code ?? 'UPSTREAM',
      recovery: first !== undefined && mayPass.has(first.recovery) ? 'retry' : 'stop',
    }),
  );
}

/** Failures of the service rather than of the configuration: the same run may succeed later. */
const mayPass = new Set<Recovery>(['retry', 'throttle', 'smaller-page', 'restart-walk']);

/** What a table refuses is the trouble of its entity alone: its values stay in `_extra`. */
async function evolveColumns({ ending, sink, lease, id, definition, entities, tally }: Run): Promise<void> {
  for (const table of evolvingTables(definition, entities)) {
    if (ending.isOver) return;
    await sink.drift.evolve(lease, id, table).catch((reason: unknown) => {
      const error = toSyncError(reason);
      if (!ofTables.has(error.code) || error.recovery !== 'stop') return ending.end(reason);
      tally.columnsRefused(table, error);
    });
  }
}

const ofTables = new Set<ErrorCode>(['SINK_FAILED', 'SINK_INCOMPATIBLE']);

/** Stores the report, and with it the run's end. */
async function report(run: Run): Promise<RunReport> {
  const { identity, sink, lease, id, plan, tally, fileTally, ending, clock, onEvent, startedMs } = run;
  const outcome = outcomeOf(run);
  const isRead = outcome === 'ok' || outcome === 'degraded';
  const partMissing = await sink.partMissing(lease);
  for (const { params: _params, ...found } of partMissing.map(withoutKey)) {
    onEvent({ kind: 'part-missing', ...found });
  }
  const unconfirmed = await sink.unconfirmed(lease);
  const left = await sink.left(lease);
  const entities = wholeEntities(
    run.definition,
    run.entities,
    tally.entities().map((entity) => (isRead ? entity : { ...entity, isWhole: false })),
    { partMissing: namesOf(partMissing), unconfirmed: namesOf(unconfirmed), left: namesOf(left) },
    // A backfill reads a window, which is never the whole; one that ended early may have finished an entity.
    (entity) =>
      isRead ? plan.kind === 'sync' && !entity.isWhole : outcome === 'failed' && !hasSealed(entity),
  );
  const { error } = ending;
  const { serverTime: _serverTime, ...costs } = run.source.stats();
  const ofWalks = tally.failures();
  const ofFiles = fileTally.failures(reportedFailures - ofWalks.reported.length);
  const report: RunReport = {
    run: id,
    kind: plan.kind,
    connector: identity.connector,
    outcome,
    startedAt: plan.startedAt,
    finishedAt: instant(clock.now()),
    continues: run.continues,
    entities,
    ...costs,
    failures: [...ofWalks.reported, ...ofFiles.reported],
    failuresOmitted: ofWalks.omitted + ofFiles.omitted,
    error: error === null ? null : { code: error.code, recovery: error.recovery, message: error.message },
    resumeAt: outcome === 'partial' ? ending.resumeAt : null,
    ...(outcome === 'partial' && ending.resumeBecause !== null
      ? { resumeBecause: ending.resumeBecause }
      : {}),
    left,
    ...(entities.some(({ toConfirm }) => toConfirm > 0)
      ? {
          confirmation: {
            callsPerRun: getsWithoutLimits(run.requestsPerSecond),
            requestsPerSecond: run.requestsPerSecond,
          },
        }
      : {}),
    partMissing,
    unconfirmed,
    files: fileTally.entities(await sink.files.left(lease, id, fetchedEntities(run))),
  };
  await sink.finish(lease, id, report);
  const ms = clock.now() - startedMs;
  const { waitedMs } = costs;
  onEvent({ kind: 'run-finished', connector: identity.connector, run: id, outcome, ms, waitedMs });
  return report;
}

/** The report of a run that could not begin. */
export function failedStart(
  of: Pick<RunReport, 'connector' | 'kind' | 'startedAt' | 'finishedAt'>,
  reason: unknown,
): RunReport {
  const { code, recovery, message } = toSyncError(reason);
  return {
    ...of,
    run: newRunId(Date.parse(of.startedAt)),
    outcome: 'failed',
    continues: null,
    entities: [],
    calls: 0,
    retries: 0,
    waitedMs: 0,
    bytes: 0,
    failures: [],
    failuresOmitted: 0,
    error: { code, recovery, message },
    resumeAt: null,
    left: [],
    partMissing: [],
    unconfirmed: [],
    files: [],
  };
}

function outcomeOf({ ending, signal, tally, fileTally }: Run): RunOutcome {
  if (ending.error !== null) return 'failed';
  if (ending.resumeAt !== null || ending.isSpent) return 'partial';
  if (signal.aborted) return 'interrupted';
  return tally.isDegraded() || fileTally.isDegraded() ? 'degraded' : 'ok';
}

/**
 * The reports (parents first), with an entity as whole, and with its word, only where all that leads to it is: nothing
 * else would show what an unread parent leads to.
 */
export function wholeEntities(
  definition: Definition,
  chosen: ChosenEntities,
  reports: readonly EntityReport[],
  found: Readonly<Record<'partMissing' | 'unconfirmed' | 'left', ReadonlySet<EntityName>>>,
  isUnread: (report: EntityReport) => boolean = () => false,
): readonly EntityReport[] {
  const originOf = new Map(
    [...definition.entities.values()].flatMap(({ name, explodedTable }) =>
      explodedTable === null ? [] : [[explodedTable.entity, name] as const],
    ),
  );
  const whole = new Set<EntityName>();
  const words = new Map<EntityName, Completeness>();
  return reports.map((report) => {
    const origin = originOf.get(report.entity);
    const leading = chosen.get(report.entity)?.parents ?? (origin === undefined ? [] : [origin]);
    const isWhole = report.isWhole && leading.every((name) => whole.has(name));
    if (isWhole) whole.add(report.entity);
    const completeness = completenessOf(
      {
        isUnread: report.setAside > 0 || found.left.has(report.entity) || isUnread({ ...report, isWhole }),
        isDoubted: found.partMissing.has(report.entity),
        isUnordered: found.unconfirmed.has(report.entity),
      },
      leading.map((name) => words.get(name) ?? 'complete'),
    );
    words.set(report.entity, completeness);
    const isProven = completeness === 'complete' || completeness === 'unconfirmed';
    return { ...report, isWhole, isProven, completeness };
  });
}

function namesOf(found: readonly { readonly entity: EntityName }[]): ReadonlySet<EntityName> {
  return new Set(found.map(({ entity }) => entity));
}

function hasSealed({ proofs }: EntityReport): boolean {
  return Object.values(proofs).some((walks) => walks > 0);
}
