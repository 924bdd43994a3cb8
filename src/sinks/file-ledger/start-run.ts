import type { EntityName } from '../../core/names.ts';
import {
  chainReadings,
  mayResume,
  scopeOf,
  wasKeptWaiting,
  type EarlierRun,
} from '../decisions/resume-run.ts';
import type { RunPlan, StartedRun } from '../sink.ts';
import type { CurrentRun, HeldConnector, Ledger, PlannedTable } from './ledger.ts';
import type { WriteStamp } from './record-store.ts';
import { findPartition } from './partitions/find-partition.ts';
import { boundScope, type WorkScope } from './partitions/read-partitions.ts';
import { dropSeen, openSeenRows } from './store-rows.ts';
import { checkEpoch, inTransaction } from './transact.ts';

/** Makes the plan's tables, then resumes the newest run of its window where that was left unfinished, or starts afresh from the plan's roots. */
export async function startRun(ledger: Ledger, held: HeldConnector, plan: RunPlan): Promise<StartedRun> {
  held.run = null;
  const { connector } = held;
  const scope: WorkScope = { connector, window: plan.window, entities: plan.entities };
  const { current, started } = await inTransaction(ledger, plan.run, (stamp) => {
    checkEpoch(ledger, held);
    ledger.runs.interruptRunning.run(connector);
    const tables = ensureTables(ledger, held, plan, stamp);
    const earlier = unfinishedRun(ledger, held, plan, scope);
    const begun = beginRun(ledger, held, plan, earlier, tables);
    const isPutBack = wasKeptWaiting(earlier);
    if (earlier === null) {
      startFresh(ledger, plan, scope, begun, stamp);
    } else {
      const { transitions } = ledger;
      transitions.retry.run({ ...boundScope(scope), origin: begun.origin });
      if (isPutBack) transitions.putFirstBack.run(boundScope(scope));
    }
    for (const root of plan.roots) {
      const reading = begun.reading.get(root.entity);
      const finding = { connector, window: plan.window, origin: begun.origin, now: stamp.now, reading };
      findPartition(ledger, root, finding);
    }
    return {
      // What was put back stands last by its depth alone.
      current: { ...begun, isStalestFirst: plan.isBudgeted && !isPutBack },
      started: {
        run: plan.run,
        continues: earlier?.run ?? null,
        due: ledger.partitions.countReady.get(connector, plan.window) ?? 0,
        isFull: begun.isFull,
        earlier: earlier === null ? [] : ledger.counts.ofChain(connector, begun.origin),
      },
    };
  });
  held.run = current;
  return started;
}

function ensureTables(
  ledger: Ledger,
  { connector, epoch }: HeldConnector,
  plan: RunPlan,
  stamp: WriteStamp,
): ReadonlyMap<EntityName, PlannedTable> {
  const places = new Map(
    plan.tables.map((table) => {
      const change = ledger.tables.declare(connector, table);
      const place = ledger.store.ensure({ connector, epoch, table, ...change, stamp });
      return [table.entity, { table: place, width: table.columns.length }];
    }),
  );
  ledger.tables.describe(connector, plan.described ?? []);
  ledger.store.renewViews(connector);
  return places;
}

/** The newest run, where this one may resume it and work of it is left. */
function unfinishedRun(
  ledger: Ledger,
  { connector, definitionHash }: HeldConnector,
  plan: RunPlan,
  scope: WorkScope,
): EarlierRun | null {
  const newest = ledger.runs.newest(connector, plan.window);
  if (newest === undefined || !mayResume(newest, plan, definitionHash)) return null;
  const left = { ...boundScope(scope), origin: newest.origin };
  return ledger.partitions.isLeft.get(left) === 1 ? newest : null;
}

function beginRun(
  ledger: Ledger,
  held: HeldConnector,
  plan: RunPlan,
  earlier: EarlierRun | null,
  tables: CurrentRun['tables'],
): Omit<CurrentRun, 'isStalestFirst'> {
  const { connector, definitionHash } = held;
  const { run, kind, window, startedAt, backfill, keepPartitionsSince } = plan;
  const isFull = plan.isFull || earlier?.isFull === true;
  const origin = ledger.runs.start(
    { run, connector, kind, window, isFull, startedAt, scope: scopeOf(plan, definitionHash) },
    earlier,
  );
  return {
    run,
    kind,
    window,
    backfill,
    keepPartitionsSince,
    origin,
    chainStartedAt: ledger.runs.chainStartedAt.get(origin) ?? startedAt,
    isFull,
    reading: chainReadings(plan, definitionHash, isFull),
    entities: new Set(plan.entities),
    keeps: new Set(plan.keeps),
    tables,
    seen: openSeenRows(ledger.db, connector, origin),
    followed: new Map(),
  };
}

/**
 * Begins a chain of syncs: half-read trees and what is to be swept for an earlier chain are forgotten. Roots are found anew
 * by the caller; what was found below a parent stays due until its parent, or the end of the walks, makes it ready, and what
 * has not been read in full for too long becomes due. Set-aside walks of leaves that failed lately keep their positions where they are first
 * reads or incremental: what was read whole before begins again, because only a full walk from the start sees deletes.
 * Of a backfill's window nothing is kept: its partitions are as young as its chain.
 */
function startFresh(
  { db, transitions }: Ledger,
  { leaves, continueAfter: keepAfter }: RunPlan,
  scope: WorkScope,
  { reading }: Pick<CurrentRun, 'reading'>,
  { now }: WriteStamp,
): void {
  const { connector, window } = scope;
  dropSeen(db, connector, window);
  if (window !== '') {
    transitions.dropWindow.run({ connector, window });
    return;
  }
  const bound = boundScope(scope);
  transitions.dropHalfRead.run(bound);
  transitions.stopSweep.run(bound);
  transitions.startOver.run({ ...bound, leaves: JSON.stringify(leaves), keepAfter });
  transitions.park.run({ connector });
  for (const [entity, { fullBefore, believedUntil }] of reading) {
    transitions.age.run({ connector, entity, fullBefore, believedUntil, now });
  }
}
