import type { EntityName } from '../../../core/names.ts';
import type { TombstoneChoice } from '../../deletes.ts';
import { noteInDay } from '../day-account.ts';
import { noteInDays } from '../days.ts';
import { endFiles } from '../downloads/note-files.ts';
import type { Commit } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import type { KeyedRow } from '../record-table.ts';
import { addDeleted } from '../stored-rows.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { endMissing } from './noted-rows.ts';
import { leaveAllPlaces } from './places.ts';
import { readyRows } from './noted-rows.ts';
import { readRowsBelow } from './rows-below.ts';

/**
 * Who decided that a row is deleted. `judged`: the guards were asked about it together with what goes along. `allowed`:
 * a person allowed it. `along`: it lies below a record that has passed, and was judged or allowed with it.
 */
export type Permission = 'judged' | 'allowed' | 'along';

export interface GoingRow extends Pick<KeyedRow, 'row' | 'keyText'> {
  readonly permission: Permission;
}

/**
 * The only way to a tombstone: marks live rows of an entity as deleted, in the order given, and ends what they have led
 * to, whose rows follow in batches (`deleteOrphans`), in later runs too; gives the partitions that it ended. What the
 * guards have let pass is noted for the day with all that goes along, in the same transaction: a run that is killed
 * before it has deleted the rest leaves a delete that was judged as a whole.
 */
export async function deleteRows(
  commit: Commit,
  entity: EntityName,
  going: readonly GoingRow[],
): Promise<readonly number[]> {
  if (going.length === 0) return [];
  const { held, current, stamp, tx } = commit;
  const { connector } = held;
  const of = { connector, entity };
  const rows = going.map(({ row }) => row);
  const keyTexts = going.map(({ keyText }) => keyText);
  if (going.some(({ permission }) => permission === 'judged')) await noteJudged(commit, entity, going);
  const table = current.tables.get(entity);
  await table?.tombstone(tx, rows, stamp);
  addDeleted(tx, of, rows.length);
  noteInDays(tx, connector, [{ entity, deleted: rows.length }], stamp.now);
  await leaveAllPlaces(tx, of, rows);
  endMissing(tx, of, rows);
  await endFiles(tx, of, keyTexts);
  const ended = await transitions.end(tx, { ...of, keyHashes: keyTexts.map(textHash) });
  const ids = ended.map(({ id }) => id);
  if (ids.length > 0) transitions.dropInner(tx, { trees: ids });
  return ids;
}

async function noteJudged(commit: Commit, entity: EntityName, going: readonly GoingRow[]): Promise<void> {
  const { held, stamp, tx } = commit;
  const below = await readRowsBelow(
    commit,
    going.map(({ row, keyText }) => ({ entity, row, keyText })),
  );
  const counts = new Map<EntityName, number>();
  for (const { row, keyText, permission } of going) {
    const root = { entity, row, keyText };
    if (permission === 'judged') {
      counts.set(entity, (counts.get(entity) ?? 0) + 1);
      below.addUp(root, counts);
    }
    below.goes(root);
  }
  const deleted = [...counts].map(([one, rows]) => ({ entity: one, rows }));
  noteInDay(tx, held.connector, 'deleted', deleted, stamp.now);
}

/**
 * Deletes up to `limit` missing rows that were judged or allowed and need nothing more; gives how many (0: none is
 * left).
 */
export async function deleteMissing(
  commit: Commit,
  entity: EntityName,
  which: TombstoneChoice,
  limit: number,
): Promise<number> {
  const { held, current, tx } = commit;
  const of = { connector: held.connector, entity };
  const table = current.tables.get(entity);
  let deleted = 0;
  // Each round takes every row that it checks off the list.
  for (;;) {
    const ready = await readyRows(tx, { ...of, run: current.run, limit: limit - deleted }, which);
    const numbers = ready.map(({ row }) => row);
    const stored = (await table?.rows(tx, numbers)) ?? new Map<number, never>();
    await current.seen.load(tx, entity, numbers);
    const going = ready.flatMap(({ row, isAllowed }): readonly GoingRow[] => {
      const one = stored.get(row);
      // A row that this chain has seen exists: it stays, and no longer counts as missing.
      if (one === undefined || one.deletedAt !== null || current.seen.has(entity, row)) return [];
      return [{ row, keyText: one.keyText, permission: isAllowed ? 'allowed' : 'judged' }];
    });
    await deleteRows(commit, entity, going);
    const gone = new Set(going.map(({ row }) => row));
    endMissing(
      tx,
      of,
      numbers.filter((row) => !gone.has(row)),
    );
    deleted += going.length;
    if (ready.length === 0 || deleted >= limit) return deleted;
  }
}
