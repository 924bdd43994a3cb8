import { instant, type Instant } from '../../../core/clock.ts';
import { grouped } from '../../../core/grouped.ts';
import { writeJson } from '../../../core/json.ts';
import type { EntityName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import { accountingError, countsOfChain, countsOfRun, runsThatWrote, pruneHours } from '../counts.ts';
import { openCollisions } from '../../decisions/meet-record.ts';
import * as chains from './run-chains.ts';
import { standing } from '../../decisions/becoming-due.ts';
import { withoutKey, type EntityReport, type RunReport } from '../../run-report.ts';
import type { RunPlan } from '../../sink.ts';
import { noteAction, pruneActions } from '../noted-actions.ts';
import { storedRawKey } from '../held-connectors.ts';
import { dropShared } from '../deletes/noted-rows.ts';
import { long, type Commit, type CurrentRun, type HeldConnector, type Ledger } from '../ledger.ts';
import { checkKeys, noteKeys, noteMasks } from '../masking.ts';
import { findPartitions, meetFound, countReady, isLeft } from '../partitions/due-partitions.ts';
import { type Scope, transitions } from '../partitions/transitions.ts';
import { plannedTable, type PlannedTable, type Stamp } from '../driver.ts';
import { readWithholding } from '../purges/purge-notes.ts';
import { dropSeen, openSeenRows } from '../row-blocks.ts';
import {
  noteAgreed,
  wasRead,
  declareTables,
  describeTables,
  switchVersions,
  tableNumbers,
} from '../tables.ts';

/**
 * Creates missing tables and columns, then begins the run: resumes the newest run of its window where that was left
 * unfinished and the plan allows it, or starts afresh with the plan's roots.
 */
export async function startRun(ledger: Ledger, held: HeldConnector, plan: RunPlan) {
  return await held.inTurn(async () => {
    held.run = null;
    const { connector, definitionHash } = held;
    const work = (tx: Tx, stamp: Stamp) => begin({ ledger, connector, definitionHash, plan, tx, stamp });
    const { current, started } = await held.transact(plan.run, work, long);
    held.run = current;
    return started;
  });
}

interface Starting extends Omit<Commit, 'current'> {
  readonly definitionHash: string;
  readonly plan: RunPlan;
}

async function begin(starting: Starting) {
  const { ledger, connector, plan, tx, stamp } = starting;
  const scope: Scope = { connector, window: plan.window, entities: plan.entities };
  await chains.interruptRunning(tx, { connector });
  const otherMasks = await noteMasks(tx, connector, plan, stamp.now);
  if (otherMasks.size > 0 || (plan.maskings ?? []).length > 0) await checkKeys(tx, connector, plan);
  const tables = await ensureTables(starting);
  noteKeys(tx, connector, plan);
  await describeTables(tx, connector, plan.described ?? []);
  await ledger.records.renewViews(tx, connector);
  const earlier = await unfinishedRun(starting, scope);
  const begun = await beginRun(starting, earlier, tables);
  const { origin, reading, isFull } = begun;
  const isPutBack = chains.wasKeptWaiting(earlier);
  if (earlier === null) {
    await startFresh(starting, scope, begun);
  } else {
    await transitions.retry(tx, { ...scope, origin });
    if (isPutBack) await transitions.putFirstBack(tx, { connector, window: plan.window });
  }
  const finding = { connector, window: plan.window, origin, now: stamp.now, reading };
  await findPartitions(tx, await meetFound(tx, plan.roots, finding), finding);
  return {
    // Only the order by depth keeps a walk that was put back at the end.
    current: { ...begun, isStalestFirst: plan.isBudgeted && !isPutBack },
    started: {
      run: plan.run,
      /** The run that this one resumes; its seen rows count as seen. Null: a fresh start. */
      continues: earlier?.run ?? null,
      due: await countReady(tx, { connector, window: plan.window }),
      /** Whether a full read was asked for by this run or by the one that it resumes. */
      isFull,
      /** Counts of the earlier runs in its chain. This run does not read the parts of an entity that they left out. */
      earlier: earlier === null ? [] : await countsOfChain(tx, { connector, origin }),
      /** Earlier runs that have stored or changed records, oldest first. */
      wrote: (await runsThatWrote(tx, { connector, origin })).map(({ run }) => run),
      /**
       * Secret of this connector in this sink, for the hashes of `PreparedRecord.raw`. The hashes also cover everything
       * else that decides how a record is stored, so that the same bytes stored in another way have another hash.
       */
      rawKey: (await storedRawKey(tx, connector)) ?? '',
    },
  };
}

/**
 * Creates the tables of a plan's entities, or adds missing columns and moves their values from `_extra` into them.
 * Throws `SyncError` SINK_INCOMPATIBLE for another key or a column of another type.
 */
async function ensureTables({ ledger: { records }, connector, plan, tx, stamp }: Starting) {
  const { tables, versions } = plan;
  const changes = await declareTables(tx, records, connector, tables);
  const entities = tables.map(({ entity }) => entity);
  const wished = records.keepsVersions ? versions : undefined;
  const kept = await switchVersions(tx, { connector, entities }, wished, stamp.now);
  const planned = new Map<EntityName, PlannedTable>();
  const numbers = await tableNumbers(tx, { connector, entities });
  for (const [index, table] of tables.entries()) {
    const { stored = [], filled = [], retyped = [] } = changes[index] ?? {};
    const place = { connector, table, stored, versions: kept.get(table.entity) };
    await records.ensure(tx, place);
    if (retyped.length > 0) await records.retype(tx, place, retyped, 'string');
    await records.fill(tx, place, filled, stamp);
    const isEmpty = numbers.get(table.entity)?.lastRow === 0;
    planned.set(table.entity, plannedTable(records.open(place), { columns: table.columns, isEmpty }));
  }
  return planned;
}

/** The newest run, where this one may resume it and work of it is left. */
async function unfinishedRun({ connector, definitionHash, plan, tx }: Starting, scope: Scope) {
  const newest = await chains.newestRun(tx, connector, plan.window);
  if (newest === undefined || !chains.mayResume(newest, plan, definitionHash)) return null;
  return (await isLeft(tx, { ...scope, origin: newest.origin })) ? newest : null;
}

async function beginRun(
  { ledger, connector, definitionHash, plan, tx }: Starting,
  earlier: chains.EarlierRun | null,
  tables: CurrentRun['tables'],
): Promise<Omit<CurrentRun, 'isStalestFirst'>> {
  const { run, kind, window, startedAt, backfill, keepPartitionsSince } = plan;
  const isFull = plan.isFull || earlier?.isFull === true;
  const scope = chains.scopeOf(plan, definitionHash);
  const begun: chains.NewRun = { run, connector, kind, window, isFull, startedAt, scope };
  const origin = await chains.insertRun(tx, begun, earlier);
  chains.pruneJournals(tx, { connector });
  if (plan.act !== undefined) noteAction(tx, ledger, { ...plan.act, connector, run });
  const startedAtFirst = (await chains.chainStartedAt(tx, origin)) ?? startedAt;
  return {
    run,
    kind,
    window,
    backfill,
    keepPartitionsSince,
    origin,
    chainStartedAt: startedAtFirst,
    isFull,
    reading: chains.chainReadings(plan, definitionHash, isFull),
    entities: new Set(plan.entities),
    keeps: new Set(plan.keeps),
    tables,
    seen: openSeenRows(connector, origin),
    collisions: openCollisions(),
    drift: new Map(),
    purged: await readWithholding(tx, connector, plan.tables),
    followed: new Map(),
  };
}

/**
 * Begins a chain of syncs and forgets half-read trees and unfinished sweeps of earlier chains. The caller finds the
 * roots again. Partitions below a parent stay due until their parent, or the end of the walks, makes them ready;
 * partitions not read in full for too long become due. Set-aside walks of leaves that failed lately keep their
 * positions if they are first reads or incremental. Listings that were read completely before begin again, because only
 * a full walk from the start sees deletes. A backfill's window keeps nothing: its partitions are as young as its chain.
 */
async function startFresh(
  { connector, plan, tx, stamp: { now } }: Starting,
  scope: Scope,
  { reading }: Pick<CurrentRun, 'reading'>,
): Promise<void> {
  const { window } = scope;
  dropSeen(tx, { connector, window });
  if (window !== '') {
    await transitions.dropWindow(tx, { connector, window });
    return;
  }
  await Promise.all([
    transitions.dropHalfRead(tx, scope),
    transitions.stopSweep(tx, scope),
    transitions.startOver(tx, { ...scope, leaves: plan.leaves, keepAfter: plan.continueAfter }),
    transitions.park(tx, { connector }),
    ...[...reading].map(([entity, { fullBefore, believedUntil: until }]) =>
      transitions.age(tx, { connector, entity, fullBefore, believedUntil: until, now }),
    ),
  ]);
}

/**
 * Ends the run: stores the report, and prunes data past its retention. If the report's counts differ from those of the
 * ledger, the run is stored as `failed` with that error, which is returned.
 */
export async function finishRun(commit: Commit, report: RunReport, journal?: string) {
  const { connector, current, tx, stamp } = commit;
  const wrong = accountingError(current.run, await countsOfRun(tx, current.run), report.entities);
  const stored = wrong === null ? report : { ...report, outcome: 'failed' as const, error: wrong };
  const { outcome: state, finishedAt, resumeAt } = stored;
  await noteDepthLimited(commit, stored);
  // A purge, or a mask, would have to look for keys in all reports.
  const kept = { ...stored, partMissing: stored.partMissing.map(withoutKey) };
  chains.endRun(tx, { run: current.run, state, finishedAt, resumeAt, report: writeJson(kept) });
  if (isChainOver(stored)) {
    dropSeen(tx, { connector, window: current.window });
    if (current.kind === 'sync') {
      await noteWhole(commit, stored);
      await forgetPartitions(commit);
    } else {
      await endWindow(commit, stored);
    }
  }
  if (isDoubted(stored)) await chains.forbidContinuing(tx, connector);
  if (journal !== undefined) noteJournal(commit, journal);
  forgetRuns(commit);
  pruneHours(tx, connector, stamp.now);
  pruneActions(tx, connector, stamp.now);
  return wrong;
}

/** Stores the journal of the run as it is now. */
export function noteJournal({ connector, current: { run }, tx, stamp }: Commit, journal: string) {
  chains.putJournal(tx, { connector, run, at: stamp.now, journal });
}

/** Stores `depth_limited` for the runs that resume this one; the other counts are in `_sync_counts` already. */
async function noteDepthLimited({ current, tx }: Commit, { entities }: RunReport): Promise<void> {
  const reported = entities.filter(({ depthLimited }) => depthLimited > 0);
  if (reported.length === 0) return;
  await tx.run(
    `UPDATE _sync_counts AS counted SET depth_limited = reported.depth_limited
     FROM {reported: entity text, depth_limited bigint}
     WHERE counted.run = :run AND counted.entity = reported.entity`,
    { run: current.run, reported },
  );
}

async function endWindow(
  { connector, current: { run, window, backfill }, tx }: Commit,
  { outcome, finishedAt }: RunReport,
): Promise<void> {
  await transitions.dropWindow(tx, { connector, window });
  if (backfill === '' || outcome !== 'ok') return;
  await tx.run(
    `INSERT INTO _sync_windows (connector, backfill, "window", run, finished_at)
     VALUES (:connector, :backfill, :window, :run, :finishedAt)
     ON CONFLICT (connector, backfill, "window") DO UPDATE SET run = excluded.run, finished_at = excluded.finished_at`,
    { connector, backfill, window, run, finishedAt },
  );
}

async function noteWhole({ connector, current, tx, stamp }: Commit, report: RunReport) {
  const { run, isFull, tables, entities } = current;
  const agreeing = report.entities.filter((one) => agreesWithStored(one, isFull));
  const agreed = agreeing.map(({ entity }) => entity);
  noteAgreed(tx, { connector, entities: agreed });
  const whole = readWhole(report, tables.keys(), entities);
  wasRead(tx, connector, run, whole);
  tx.put(
    `UPDATE _sync_masks SET read_at = :now
     WHERE connector = :connector AND read_at IS NULL AND entity IN {entities text}`,
    { connector, entities: whole.map(({ entity }) => entity), now: stamp.now },
  );
}

const newestSync = `WITH newest_sync AS MATERIALIZED (
  SELECT number, origin FROM _sync_runs WHERE connector = :connector AND kind = 'sync' AND ${chains.hasBegun} ORDER BY number DESC LIMIT 1)`;
const oldestKept = `SELECT number FROM _sync_runs WHERE connector = :connector ORDER BY number DESC LIMIT 1 OFFSET :kept`;
const isForgotten = `connector = :connector AND (number < coalesce((${oldestKept}), 0) OR started_at < :before)
  AND number <> (SELECT max(number) FROM _sync_runs WHERE connector = :connector)
  AND number NOT IN (SELECT number FROM newest_sync UNION ALL SELECT origin FROM newest_sync)`;

/**
 * Runs and quarantined records past their retention. The newest run always stays, and the newest sync with the run that
 * began its chain.
 */
function forgetRuns({ ledger: { clock }, connector, tx }: Commit): void {
  const before = instant(clock.now() - keptDays * dayMs);
  const runs = { connector, kept: mostKept.runs - 1, before };
  tx.put(
    `${newestSync} DELETE FROM _sync_counts WHERE run IN (SELECT run FROM _sync_runs WHERE ${isForgotten})`,
    runs,
  );
  tx.put(`${newestSync} DELETE FROM _sync_runs WHERE ${isForgotten}`, runs);
  const unseen = `DELETE FROM _sync_quarantine WHERE connector = :connector AND last_seen_at < :before`;
  tx.put(unseen, { connector, before });
  tx.put(
    `DELETE FROM _sync_quarantine WHERE connector = :connector AND (last_seen_at, id) <= (
       SELECT last_seen_at, id FROM _sync_quarantine WHERE connector = :connector
       ORDER BY last_seen_at DESC, id DESC LIMIT 1 OFFSET :kept)`,
    { connector, kept: mostKept.quarantined },
  );
}

interface StalePartition {
  readonly id: number;
  readonly entity: EntityName;
  readonly foundAt: Instant;
  /** A record led to the partition. */
  readonly isBelow: boolean;
}

/**
 * Forgets partitions that nothing has led to or was read in for long, and windows of backfills that were not resumed.
 * Due partitions stay, and so do owners of rows below a record until their deletion is done: when the record is
 * deleted, the rows are found by them.
 */
async function forgetPartitions({ connector, current, tx }: Commit): Promise<void> {
  const since = current.keepPartitionsSince;
  await transitions.abandon(tx, { connector, since });
  for (
    let last: Pick<StalePartition, 'id' | 'foundAt'> | undefined = { foundAt: '', id: 0 };
    last !== undefined;
  ) {
    const batch: readonly StalePartition[] = await tx.rows<StalePartition>(
      `SELECT id, entity, parent_key IS NOT NULL AS is_below, found_at
       FROM _sync_partitions {index _sync_partitions_found}
       WHERE connector = :connector AND found_at < :since AND (found_at, id) > (:foundAt, :id)
         AND due_since IS NULL AND gone <> ${standing.ended}
         AND (sealed_at IS NULL OR sealed_at < :since)
         AND id NOT IN (SELECT base FROM _sync_partitions
           WHERE connector = :connector AND backfill <> '' AND base IS NOT NULL)
       ORDER BY found_at, id LIMIT 1000`,
      { connector, since, foundAt: last.foundAt, id: last.id },
    );
    const owners = await ownersAmong(tx, current, batch);
    const ids = batch.map(({ id }) => id).filter((id) => !owners.has(id));
    if (ids.length > 0) {
      await dropShared(tx, { ids });
      await transitions.forget(tx, { ids });
    }
    last = batch.at(-1);
  }
}

/**
 * Rows of an entity that keeps them whatever happens need no owner; those of one that this run does not read are left
 * to another.
 */
async function ownersAmong(tx: Tx, { tables, keeps }: CurrentRun, batch: readonly StalePartition[]) {
  const owners = new Set<number>();
  const below = batch.filter(({ isBelow }) => isBelow);
  for (const [entity, ofEntity] of grouped(below, (one) => one.entity)) {
    const ids = ofEntity.map(({ id }) => id);
    const planned = tables.get(entity);
    if (planned === undefined) for (const id of ids) owners.add(id);
    if (planned === undefined || keeps.has(entity)) continue;
    const from = ids.map((owner) => ({ owner, after: 0 }));
    for (const owner of (await planned.countLive(tx, from, 1)).keys()) owners.add(owner);
  }
  return owners;
}

const dayMs = 24 * 60 * 60 * 1_000;
/** Older runs and quarantined records are pruned at the end of a run. */
const keptDays = 90;

/**
 * Limits per connector; the newest are kept. A source that sends a broken record every minute would add 130,000 to the
 * quarantine in 90 days.
 */
const mostKept = { runs: chains.keptRuns, quarantined: 10_000 } as const;

/** Whether nothing of the run is to be resumed: the rows that its chain has met are no longer needed. */
export function isChainOver({ outcome }: Pick<RunReport, 'outcome'>): boolean {
  return outcome === 'ok' || outcome === 'degraded';
}

/**
 * The run seems to have read another account: a later one that resumed it would take its listings for those of the
 * right one.
 */
export function isDoubted({ error }: Pick<RunReport, 'error'>): boolean {
  return error?.code === 'IDENTITY_CHANGED';
}

/** A full run has met every row of the entity, so that adopted ones are those of the new address. */
export function agreesWithStored(
  report: Pick<EntityReport, 'isWhole' | 'isProven' | 'withheld' | 'pending'>,
  isFull: boolean,
): boolean {
  return isFull && report.isWhole && report.isProven && report.withheld + report.pending === 0;
}

/**
 * The entities that were read whole without a doubt, and whose walks they come from: an exploded table comes after its
 * entity in `tables`, the plan's order.
 */
export function readWhole(
  { entities }: Pick<RunReport, 'entities'>,
  tables: Iterable<EntityName>,
  walkedEntities: ReadonlySet<EntityName>,
): readonly { readonly entity: EntityName; readonly walked: EntityName }[] {
  const whole = new Set(
    entities.filter(({ isWhole, isProven }) => isWhole && isProven).map(({ entity }) => entity),
  );
  let walked: EntityName | null = null;
  return [...tables].flatMap((entity) => {
    walked = walkedEntities.has(entity) || walked === null ? entity : walked;
    return whole.has(entity) ? [{ entity, walked }] : [];
  });
}
