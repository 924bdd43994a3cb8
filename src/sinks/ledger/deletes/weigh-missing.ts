import type { Instant } from '../../../core/clock.ts';
import type { EntityName } from '../../../core/names.ts';
import { weighRows } from '../../decisions/add-up.ts';
import { countMissing } from '../../decisions/missing-rows.ts';
import type { DeletedRows, EntityMissing } from '../../deletes.ts';
import { standing } from '../../decisions/standing.ts';
import { dayChanges } from '../day-account.ts';
import type { Commit } from '../ledger.ts';
import { ask } from '../../../sql/database.ts';
import { tableAccounts } from '../stored-rows.ts';
import type { EndedPartitionRow } from './delete-orphans.ts';
import { alikeRows, countBelowDeleted, countedRows, openMissing } from './read-missing.ts';
import { entitiesLeadingOn, readRowsBelow, tableOf } from './rows-below.ts';

const rowsAtOnce = 1_000;

/**
 * What the deletes of the missing rows would come to, for every entity of the plan that has some and for every entity
 * of which rows would go along. What lies below records that are already deleted is neither missing nor live: it has
 * been judged.
 */
export async function weighMissing(commit: Commit): Promise<readonly EntityMissing[]> {
  const { held, current, tx } = commit;
  const noted = await alikeRows(tx, held.connector);
  const alike = noted.filter(({ entity }) => current.entities.has(entity));
  const known = new Set(alike.map(({ entity }) => entity));
  const counted: (ReturnType<typeof countMissing> & Pick<EntityMissing, 'entity' | 'along'>)[] = [];
  for (const entity of known) {
    const counts = countMissing(alike.filter((rows) => rows.entity === entity));
    const isOpen = counts.missing > counts.allowed + counts.vouchedFor;
    counted.push({ entity, ...counts, along: isOpen ? await rowsAlong(commit, entity) : [] });
  }
  const touched = new Set(counted.flatMap((one) => one.along.map(({ entity }) => entity)));
  for (const entity of touched) {
    if (!known.has(entity)) counted.push({ entity, ...countMissing([]), along: [] });
  }
  if (counted.length === 0) return [];
  const accounts = await accountsOf(
    commit,
    counted.map(({ entity }) => entity),
  );
  const weighed: EntityMissing[] = [];
  for (const { firstMissed, ...counts } of counted) {
    const hasSurvivor = firstMissed === null || (await isAnyLeft(commit, counts.entity, firstMissed));
    weighed.push({ ...counts, ...accounts(counts.entity), hasSurvivor });
  }
  return weighed;
}

/** Without what a person has let go: that goes as it is. */
async function rowsAlong(commit: Commit, entity: EntityName): Promise<readonly DeletedRows[]> {
  const { held, current, tx } = commit;
  const of = { connector: held.connector, entity };
  if (!(await entitiesLeadingOn(commit, [entity])).has(entity)) return [];
  const table = current.tables.get(entity)?.table;
  const counts = new Map<EntityName, number>();
  for (let after = 0; ;) {
    const batch = await openMissing(tx, of, after, rowsAtOnce);
    const stored = (await table?.rows(tx, batch)) ?? new Map<number, never>();
    const roots = [...stored.values()].map(({ row, keyText }) => ({ entity, row, keyText }));
    const below = await readRowsBelow(commit, roots);
    for (const root of roots) below.addUp(root, counts);
    const last = batch.at(-1);
    if (last === undefined || batch.length < rowsAtOnce) break;
    after = last;
  }
  // By name: the order in which a sink comes upon them is none.
  const entities = [...counts.keys()].toSorted();
  return entities.map((child) => ({ entity: child, rows: counts.get(child) ?? 0 }));
}

type Account = Pick<EntityMissing, 'live' | 'dayAgo' | 'deletedInDay' | 'isAdopted'>;

async function accountsOf(
  commit: Commit,
  entities: readonly EntityName[],
): Promise<(entity: EntityName) => Account> {
  const { held, stamp, tx } = commit;
  const { connector } = held;
  const judged = new Map(await countBelowDeleted(tx, connector));
  const ended = await allEnded(tx, { connector, entities });
  for (const entity of new Set(ended.map((one) => one.entity))) {
    const table = await tableOf(commit, entity);
    const ofEntity = ended.filter((one) => one.entity === entity);
    const homes = ofEntity.map(({ id, sweptTo }) => ({ home: id, after: sweptTo }));
    const counts = (await table?.countLive(tx, homes, Number.MAX_SAFE_INTEGER)) ?? new Map<number, number>();
    for (const rows of counts.values()) judged.set(entity, (judged.get(entity) ?? 0) + rows);
  }
  const accounts = await tableAccounts(tx, connector);
  const days = await dayChanges(tx, connector, stamp.now);
  return (entity) => {
    const { stored, adoptedAt } = accounts.get(entity) ?? { stored: 0, adoptedAt: null };
    const { added: addedInDay, deleted: deletedInDay } = days.get(entity) ?? { added: 0, deleted: 0 };
    const account = { stored, judged: judged.get(entity) ?? 0, addedInDay, deletedInDay };
    return { ...weighRows(account), isAdopted: adoptedAt !== null };
  };
}

/** Below tombstoned records: those whose rows are still to be deleted. */
const allEnded = ask<
  { connector: string; entities: readonly string[] },
  EndedPartitionRow
>(`SELECT id, entity, swept_to FROM _sync_partitions {index _sync_partitions_gone}
     WHERE connector = :connector AND gone = ${standing.ended} AND entity IN {entities text} ORDER BY id`);

/** Whether a row is still there that was stored before the first of the missing ones was missed. */
async function isAnyLeft(
  { held, current, tx }: Commit,
  entity: EntityName,
  firstMissed: Instant,
): Promise<boolean> {
  const table = current.tables.get(entity)?.table;
  if (table === undefined) return true;
  for (let after = 0; ;) {
    const rows = await table.liveBefore(tx, firstMissed, after, rowsAtOnce);
    const counted = await countedRows(tx, { connector: held.connector, entity }, rows);
    if (counted.size < rows.length) return true;
    const last = rows.at(-1);
    if (last === undefined || rows.length < rowsAtOnce) return false;
    after = last;
  }
}
