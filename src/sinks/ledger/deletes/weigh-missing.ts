import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { DeletedRows, EntityMissing } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import type { Cascade } from './cascade.ts';
import { noMissing, type MissingRows } from './missing-rows.ts';
import type { GonePartitions } from './orphans.ts';

const rowsAtOnce = 1_000;

interface TableAccount {
  /** Live rows, by the table's account. */
  readonly live: number;
  readonly adoptedAt: string | null;
}

export type LiveCount = (connector: ConnectorName, entity: EntityName) => TableAccount;

export function prepareLiveCount(db: Database.Database): LiveCount {
  const account = db.prepare<[string, string], TableAccount>(
    'SELECT rows - deleted AS live, adopted_at AS adoptedAt FROM _sync_tables WHERE connector = ? AND entity = ?',
  );
  return (connector, entity) => account.get(connector, entity) ?? { live: 0, adoptedAt: null };
}

interface Weighing {
  readonly missing: MissingRows;
  readonly gone: GonePartitions;
  readonly cascade: Cascade;
  readonly live: LiveCount;
}

/**
 * What the deletes of the missing rows would come to, for every entity of the plan that has some and for every entity of which rows would
 * go along. What lies below records that are already deleted is neither missing nor live: it has been judged.
 */
export function weighMissing(commit: Commit, weighing: Weighing): readonly EntityMissing[] {
  const { held, current } = commit;
  const counted = weighing.missing
    .counts(held.connector)
    .filter(({ entity }) => current.entities.has(entity))
    .map((counts) => ({
      ...counts,
      along:
        counts.missing > counts.allowed + counts.vouchedFor ? along(commit, weighing, counts.entity) : [],
    }));
  const known = new Set(counted.map(({ entity }) => entity));
  const touched = new Set(counted.flatMap((one) => one.along.map(({ entity }) => entity)));
  const others = [...touched]
    .filter((entity) => !known.has(entity))
    .map((entity) => ({ ...noMissing, entity, along: [] }));
  return [...counted, ...others].map(({ firstMissed, ...counts }) => ({
    ...counts,
    ...rowsOf(commit, weighing, counts.entity),
    hasSurvivor: firstMissed === null || hasSurvivor(commit, weighing.missing, counts.entity, firstMissed),
  }));
}

/** Without what a person has let go: that goes as it is. */
function along(commit: Commit, { missing, cascade }: Weighing, entity: EntityName): readonly DeletedRows[] {
  const { connector } = commit.held;
  if (!cascade.isParent(connector, entity)) return [];
  const rowsByEntity = new Map<EntityName, number>();
  for (let after = 0; ;) {
    const batch = missing.open(connector, entity, after, rowsAtOnce);
    for (const row of batch) {
      const keyText = commit.current.tables.get(entity)?.table.row(row)?.keyText;
      if (keyText === undefined) continue;
      for (const [child, rows] of cascade.below(commit, entity, keyText)) {
        rowsByEntity.set(child, (rowsByEntity.get(child) ?? 0) + rows);
      }
    }
    const last = batch.at(-1);
    if (last === undefined) break;
    after = last;
  }
  return [...rowsByEntity].map(([child, rows]) => ({ entity: child, rows }));
}

function rowsOf(
  commit: Commit,
  weighing: Weighing,
  entity: EntityName,
): Pick<EntityMissing, 'live' | 'dayAgo' | 'deletedInDay' | 'isAdopted'> {
  const { ledger, held, stamp } = commit;
  const { connector } = held;
  const judged = rowsBelowDeleted(commit, weighing, entity) + weighing.missing.orphans(connector, entity);
  const account = weighing.live(connector, entity);
  const live = account.live - judged;
  const { added, deleted } = ledger.day.within(connector, entity, stamp.now);
  return {
    live,
    dayAgo: Math.max(0, live - added + deleted),
    deletedInDay: deleted,
    isAdopted: account.adoptedAt !== null,
  };
}

/** Whether a row is still there that was stored before the first of the missing ones was missed. */
function hasSurvivor(
  { held, current }: Commit,
  missing: MissingRows,
  entity: EntityName,
  firstMissed: Instant,
): boolean {
  const table = current.tables.get(entity)?.table;
  if (table === undefined) return true;
  for (let after = 0; ;) {
    const rows = table.liveBefore(firstMissed, after, rowsAtOnce);
    if (rows.some((row) => !missing.isCounted(held.connector, entity, row))) return true;
    const last = rows.at(-1);
    if (last === undefined || rows.length < rowsAtOnce) return false;
    after = last;
  }
}

function rowsBelowDeleted(commit: Commit, { gone, cascade }: Weighing, entity: EntityName): number {
  let count = 0;
  for (const partition of gone.all(commit.held.connector)) {
    if (partition.entity !== entity) continue;
    for (const _row of cascade.liveRows(commit, partition, partition.sweptTo)) count += 1;
  }
  return count;
}
