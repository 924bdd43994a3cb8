import type { EntityName } from '../../../core/names.ts';
import {
  chainReadings,
  mayResume,
  scopeOf,
  wasKeptWaiting,
  type EarlierRun,
  type NewRun,
} from '../../decisions/resume-run.ts';
import { openCollisions } from '../../decisions/meet-record.ts';
import type { RunPlan, StartedRun } from '../../sink.ts';
import { noteAction } from '../actions.ts';
import type { Commit, CurrentRun, HeldConnector, Ledger } from '../ledger.ts';
import { findPartitions, meetFound } from '../partitions/find-partitions.ts';
import { countReady, isLeft, partitionsOfChain, type Scope } from '../partitions/read-partitions.ts';
import { transitions } from '../partitions/transitions.ts';
import { checkKeys } from '../masking.ts';
import { noteMasks } from '../masks.ts';
import { storedRawKey } from '../connectors.ts';
import { countsOfChain, runsThatWrote } from '../counts.ts';
import { plannedTable, type PlannedTable } from '../planned-table.ts';
import { readWithholding } from '../purges/withhold.ts';
import { openRawRows } from '../raw-rows.ts';
import { dropSeen, openSeenRows } from '../seen-rows.ts';
import { declareTables, describeTables } from '../tables.ts';
import { switchVersions } from '../versions/versions.ts';
import { chainStartedAt, insertRun, interruptRunning, newestRun } from './runs.ts';

/**
 * Creates missing tables and columns, then begins the run: resumes the newest run of its window where that was left
 * unfinished and the plan allows it, or starts afresh with the plan's roots.
 */
export async function startRun(ledger: Ledger, held: HeldConnector, plan: RunPlan): Promise<StartedRun> {
  return await held.inTurn(async () => {
    held.run = null;
    const { current, started } = await held.transact(
      plan.run,
      async (tx, stamp) => await begin({ ledger, held, plan, tx, stamp }),
      { isLong: true },
    );
    held.run = current;
    return started;
  });
}

interface Starting extends Omit<Commit, 'current'> {
  readonly plan: RunPlan;
}

async function begin(starting: Starting): Promise<{ current: CurrentRun; started: StartedRun }> {
  const { ledger, held, plan, tx, stamp } = starting;
  const { connector } = held;
  const scope: Scope = { connector, window: plan.window, entities: plan.entities };
  await interruptRunning(tx, connector);
  const otherMasks = await noteMasks(tx, connector, plan, stamp.now);
  await checkKeys(tx, ledger, connector, plan, otherMasks);
  const tables = await ensureTables(starting);
  await describeTables(tx, connector, plan.described ?? []);
  await ledger.records.renewViews(tx, connector);
  const earlier = await unfinishedRun(starting, scope);
  const begun = await beginRun(starting, earlier, tables);
  const { origin, reading, isFull } = begun;
  const isPutBack = wasKeptWaiting(earlier);
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
      continues: earlier?.run ?? null,
      due: await countReady(tx, { connector, window: plan.window }),
      isFull,
      earlier: earlier === null ? [] : await countsOfChain(tx, connector, origin),
      wrote: (await runsThatWrote(tx, { connector, origin })).map(({ run }) => run),
      found: earlier === null ? [] : await partitionsOfChain(tx, { ...scope, origin }),
      rawKey: await storedRawKey(tx, connector),
    },
  };
}

/**
 * Makes the tables of a plan's entities, or adds the columns that they lack and moves into those what `_extra` holds
 * for them. Throws `SyncError` SINK_INCOMPATIBLE for another key, a column of another type, or more columns than a
 * table has room for.
 */
async function ensureTables({
  ledger: { records },
  held: { connector },
  plan: { tables, versions },
  tx,
  stamp,
}: Starting): Promise<ReadonlyMap<EntityName, PlannedTable>> {
  const changes = await declareTables(tx, records, connector, tables);
  const entities = tables.map(({ entity }) => entity);
  const wished = records.keepsVersions ? versions : undefined;
  const kept = await switchVersions(tx, { connector, entities }, wished, stamp.now);
  const planned = new Map<EntityName, PlannedTable>();
  for (const [index, table] of tables.entries()) {
    const { stored = [], filled = [], retyped = [] } = changes[index] ?? {};
    const ofRows = kept.get(table.entity);
    const place = { connector, table, stored, ...(ofRows === undefined ? {} : { versions: ofRows }) };
    await records.ensure(tx, place);
    if (retyped.length > 0) await records.retype(tx, place, retyped, 'string');
    await records.fill(tx, place, filled, stamp);
    planned.set(table.entity, plannedTable(records.open(place), table.columns.length));
  }
  return planned;
}

/** The newest run, where this one may resume it and work of it is left. */
async function unfinishedRun(
  { held: { connector, definitionHash }, plan, tx }: Starting,
  scope: Scope,
): Promise<EarlierRun | null> {
  const newest = await newestRun(tx, connector, plan.window);
  if (newest === undefined || !mayResume(newest, plan, definitionHash)) return null;
  return (await isLeft(tx, { ...scope, origin: newest.origin })) ? newest : null;
}

async function beginRun(
  { ledger, held, plan, tx }: Starting,
  earlier: EarlierRun | null,
  tables: CurrentRun['tables'],
): Promise<Omit<CurrentRun, 'isStalestFirst'>> {
  const { connector, definitionHash } = held;
  const { run, kind, window, startedAt, backfill, keepPartitionsSince } = plan;
  const isFull = plan.isFull || earlier?.isFull === true;
  const scope = scopeOf(plan, definitionHash);
  const begun: NewRun = { run, connector, kind, window, isFull, startedAt, scope };
  const origin = await insertRun(tx, begun, earlier);
  if (plan.act !== undefined) noteAction(tx, ledger, { ...plan.act, connector, run });
  const startedAtFirst = (await chainStartedAt(tx, origin)) ?? startedAt;
  return {
    run,
    kind,
    window,
    backfill,
    keepPartitionsSince,
    origin,
    chainStartedAt: startedAtFirst,
    isFull,
    reading: chainReadings(plan, definitionHash, isFull),
    entities: new Set(plan.entities),
    keeps: new Set(plan.keeps),
    tables,
    seen: openSeenRows(connector, origin),
    raw: openRawRows(connector, startedAtFirst),
    collisions: openCollisions(),
    purged: await readWithholding(tx, connector, plan.tables),
    followed: new Map(),
  };
}

/**
 * Begins a chain of syncs: half-read trees and what is to be swept for an earlier chain are forgotten. The caller finds
 * the roots again; what was found below a parent stays due until its parent, or the end of the walks, makes it ready,
 * and what has not been read in full for too long becomes due. Set-aside walks of leaves that failed lately keep their
 * positions where they are first reads or incremental: what was read whole before begins again, because only a full
 * walk from the start sees deletes. Of a backfill's window nothing is kept: its partitions are as young as its chain.
 */
async function startFresh(
  { held: { connector }, plan, tx, stamp: { now } }: Starting,
  scope: Scope,
  { reading }: Pick<CurrentRun, 'reading'>,
): Promise<void> {
  const { window } = scope;
  dropSeen(tx, connector, window);
  if (window !== '') {
    await transitions.dropWindow(tx, { connector, window });
    return;
  }
  await Promise.all([
    transitions.dropHalfRead(tx, scope),
    transitions.stopSweep(tx, scope),
    transitions.startOver(tx, { ...scope, leaves: plan.leaves, keepAfter: plan.continueAfter }),
    transitions.park(tx, { connector }),
    ...[...reading].map(
      async ([entity, { fullBefore, believedUntil: until }]) =>
        await transitions.age(tx, { connector, entity, fullBefore, believedUntil: until, now }),
    ),
  ]);
}
