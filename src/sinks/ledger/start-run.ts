import type { EntityName } from '../../core/names.ts';
import type { RunPlan, StartedRun } from '../sink.ts';
import { writeJson } from './json-text.ts';
import type { CurrentRun, HeldConnector, Ledger, PlannedTable } from './ledger.ts';
import type { WriteStamp } from './record-store.ts';
import type { EarlierRun } from './runs.ts';
import { openSeenRows } from './seen-rows.ts';
import { checkEpoch, inTransaction } from './transact.ts';

/**
 * Makes the plan's tables and begins the run: goes on with the connector's newest run where that was left unfinished,
 * or starts afresh with the plan's roots.
 */
export function startRun(ledger: Ledger, held: HeldConnector, plan: RunPlan): StartedRun {
  held.run = null;
  const { current, started } = inTransaction(ledger, plan.run, (stamp) => {
    checkEpoch(ledger, held);
    ledger.runs.interruptRunning(held.connector);
    const tables = ensureTables(ledger, held, plan, stamp);
    const earlier = unfinishedRun(ledger, held, plan);
    const origin = beginRun(ledger, held, plan, earlier);
    if (earlier === null) {
      ledger.dueWork.clear(held.connector, plan.entities, { leaves: plan.leaves, after: plan.continueAfter });
    } else {
      ledger.dueWork.tryAgain(held.connector, origin, plan.entities);
      if (earlier.resumeAt !== null && earlier.hasStored === 0) ledger.dueWork.putFirstBack(held.connector);
    }
    findRoots(ledger, held, plan, { origin, now: stamp.now });
    return {
      current: startedRun(ledger, held, plan, origin, tables),
      started: {
        run: plan.run,
        continues: earlier?.run ?? null,
        due: ledger.dueWork.count(held.connector),
        earlier: earlier === null ? [] : ledger.counts.ofChain(held.connector, origin),
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
  return new Map(
    plan.tables.map((table) => {
      const change = ledger.tables.declare(connector, table);
      const place = ledger.store.ensure({ connector, epoch, table, ...change, stamp });
      return [table.entity, { table: place, width: table.columns.length }];
    }),
  );
}

/** The newest run, when it was cut short, read the same things as this plan, got on lately and has work left. */
function unfinishedRun(ledger: Ledger, held: HeldConnector, plan: RunPlan): EarlierRun | null {
  const newest = ledger.runs.newest(held.connector);
  if (newest === undefined || newest.canContinue === 0) {
    return null;
  }
  const wasCutShort =
    newest.state === 'interrupted' || newest.state === 'failed' || newest.state === 'partial';
  // As long as it gets on, a chain may last: a service that allows an hour of calls a day is read to its end all the same.
  const isYoung = newest.progressAt > plan.continueAfter;
  const fits = wasCutShort && isYoung && newest.scope === scopeOf(held, plan);
  return fits && ledger.dueWork.isLeft(held.connector, newest.origin, plan.entities) ? newest : null;
}

function beginRun(ledger: Ledger, held: HeldConnector, plan: RunPlan, earlier: EarlierRun | null): number {
  const { run, startedAt } = plan;
  return ledger.runs.start(
    { run, connector: held.connector, startedAt, scope: scopeOf(held, plan) },
    earlier,
  );
}

function findRoots(
  ledger: Ledger,
  { connector }: HeldConnector,
  plan: RunPlan,
  found: { readonly origin: number; readonly now: string },
): void {
  const entities = new Set(plan.entities);
  for (const root of plan.roots) {
    ledger.partitions.find(root, { ...found, connector, isRead: entities.has(root.entity) });
  }
}

function startedRun(
  ledger: Ledger,
  { connector }: HeldConnector,
  plan: RunPlan,
  origin: number,
  tables: ReadonlyMap<EntityName, PlannedTable>,
): CurrentRun {
  const seen = openSeenRows(ledger.db, connector, origin);
  return { run: plan.run, origin, entities: new Set(plan.entities), tables, seen };
}

/** A changed definition is another scope: what it stored as positions may mean something else now. */
function scopeOf(held: HeldConnector, plan: RunPlan): string {
  return writeJson({
    definition: held.definitionHash,
    choices: plan.choices,
    entities: [...plan.entities].sort(),
    roots: plan.roots.map(({ entity, params }) => writeJson([entity, params])).sort(),
  });
}
