import { instant } from '../core/clock.ts';
import { SyncError, type Recovery } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';
import type { EntityReport, FailureReport, RunOutcome, RunReport } from '../sinks/run-report.ts';
import type { ChosenEntities } from './chosen-entities.ts';
import { fetchedEntities, fetchFiles } from './files/fetch-files.ts';
import { evolvingTables } from './prepare/schema-policy.ts';
import { watchTime } from './run-ending.ts';
import { reportedFailures } from './run-tally.ts';
import { openRun, type Run, type SyncOptions } from './run.ts';
import { getsWithoutLimits } from './sweep/confirm-missing.ts';
import { sweepPhase } from './sweep/sweep-run.ts';
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
  ending.fail(
    new SyncError(`nothing could be read: ${first?.message ?? 'every listing failed'}`, {
      code: first?.code ?? 'UPSTREAM',
      recovery: first !== undefined && mayPass.has(first.recovery) ? 'retry' : 'stop',
    }),
  );
}

/** Failures of the service rather than of the configuration: the same run may succeed later. */
const mayPass = new Set<Recovery>(['retry', 'throttle', 'smaller-page', 'restart-walk']);

async function evolveColumns({ ending, sink, lease, id, definition, entities }: Run): Promise<void> {
  for (const table of evolvingTables(definition, entities)) {
    if (ending.isOver) return;
    await sink.drift.evolve(lease, id, table).catch(ending.end);
  }
}

/** Stores the report, and with it the run's end. */
async function report(run: Run): Promise<RunReport> {
  const { identity, sink, lease, id, plan, tally, fileTally, ending, clock, onEvent, startedMs } = run;
  const ended = outcomeOf(run);
  const isRead = ended === 'ok' || ended === 'degraded';
  const unproven = await sink.unproven(lease);
  for (const { params: _params, ...found } of unproven) onEvent({ kind: 'listings-unproven', ...found });
  const entities = wholeEntities(
    run.definition,
    run.entities,
    tally.entities().map((entity) => (isRead ? entity : { ...entity, isWhole: false })),
    new Set(unproven.map(({ entity }) => entity)),
  );
  const lost = plan.kind === 'sync' ? await lostForGood(run, entities) : [];
  const outcome = isRead && lost.length > 0 ? 'degraded' : ended;
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
    failures: [...lost, ...ofWalks.reported, ...ofFiles.reported],
    failuresOmitted: ofWalks.omitted + ofFiles.omitted,
    error: error === null ? null : { code: error.code, recovery: error.recovery, message: error.message },
    resumeAt: outcome === 'partial' ? ending.resumeAt : null,
    ...(outcome === 'partial' && ending.resumeBecause !== null
      ? { resumeBecause: ending.resumeBecause }
      : {}),
    left: await sink.left(lease),
    ...(entities.some(({ toConfirm }) => toConfirm > 0)
      ? {
          confirmation: {
            callsPerRun: getsWithoutLimits(run.requestsPerSecond),
            requestsPerSecond: run.requestsPerSecond,
          },
        }
      : {}),
    unproven,
    files: fileTally.entities(await sink.files.left(lease, id, fetchedEntities(run))),
  };
  await sink.finish(lease, id, report);
  const ms = clock.now() - startedMs;
  const { waitedMs } = costs;
  onEvent({ kind: 'run-finished', connector: identity.connector, run: id, outcome, ms, waitedMs });
  return report;
}

function outcomeOf({ ending, signal, tally, fileTally }: Run): RunOutcome {
  if (ending.error !== null) return 'failed';
  if (ending.resumeAt !== null || ending.isSpent) return 'partial';
  if (signal.aborted) return 'interrupted';
  return tally.isDegraded() || fileTally.isDegraded() ? 'degraded' : 'ok';
}

/**
 * The reports (parents first), with an entity as whole, and as proven, only where all that leads to it is: nothing else
 * would show what an unread parent leads to.
 */
export function wholeEntities(
  definition: Definition,
  chosen: ChosenEntities,
  reports: readonly EntityReport[],
  unproven: ReadonlySet<EntityName>,
): readonly EntityReport[] {
  const originOf = new Map(
    [...definition.entities.values()].flatMap(({ name, explodedTable }) =>
      explodedTable === null ? [] : [[explodedTable.entity, name] as const],
    ),
  );
  const whole = new Set<EntityName>();
  const proven = new Set<EntityName>();
  return reports.map((report) => {
    const origin = originOf.get(report.entity);
    const leading = chosen.get(report.entity)?.parents ?? (origin === undefined ? [] : [origin]);
    const isWhole = report.isWhole && leading.every((name) => whole.has(name));
    if (isWhole) whole.add(report.entity);
    const isProven = !unproven.has(report.entity) && leading.every((name) => proven.has(name));
    if (isProven) proven.add(report.entity);
    return { ...report, isWhole, isProven };
  });
}

/** Every listing of these entities was read since their rows were lost, and none showed them. */
async function lostForGood(
  { sink, lease }: Run,
  entities: readonly EntityReport[],
): Promise<readonly FailureReport[]> {
  const lost = await sink.lostRows(lease);
  return lost
    .filter(({ entity }) => entities.some((one) => one.entity === entity && one.isWhole && one.isProven))
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
