import type { EntityName, RunId } from '../../../core/names.ts';
import { noCounts, type PageCounts, type PreparedRecord } from '../../../core/records.ts';
import { checkCounts } from '../../decisions/add-up.ts';
import type { Repair, UndeletedRows } from '../../repair.ts';
import { addCounts } from '../counts.ts';
import { deleteRows } from '../deletes/delete-rows.ts';
import { beginFiles } from '../downloads/note-files.ts';
import { adopt } from '../acquire.ts';
import { long, type Commit, type InLease, type Ledger } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import { readStored, storeRows } from '../store-rows.ts';
import { noteStored, tableNumbers } from '../stored-rows.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { reset } from './reset.ts';

/** `Repair` of a sink. */
export function ledgerRepair(ledger: Ledger, inLease: InLease): Repair {
  return {
    reset: (connector, what) => reset(ledger, connector, what),
    adopt: (identity, now) => adopt(ledger, identity, now),
    undelete: inLease(undelete, long),
    storeRecord: inLease(storeOne),
    tombstoneRecord: inLease(tombstoneOne),
  };
}

/** `Repair.undelete`: table after table, until `limit` rows are back. */
async function undelete(commit: Commit, of: RunId, limit: number): Promise<UndeletedRows> {
  const { held, current, stamp, tx } = commit;
  const { connector } = held;
  const rows: { readonly entity: EntityName; readonly rows: number }[] = [];
  let left = limit;
  for (const [entity, table] of current.tables) {
    const tombstoned = left > 0 ? await table.tombstonedBy(tx, of, left) : [];
    if (tombstoned.length === 0) continue;
    await table.revive(tx, tombstoned, stamp);
    const stored = await table.rows(tx, tombstoned);
    const keyTexts = [...stored.values()].map(({ keyText }) => keyText);
    await giveBackBelow(commit, entity, keyTexts);
    await beginFiles(tx, { connector, entity }, keyTexts);
    rows.push({ entity, rows: tombstoned.length });
    left -= tombstoned.length;
  }
  const revived = rows.map(({ entity, rows: count }) => ({ entity, inserted: 0, revived: count }));
  const numbers = await tableNumbers(
    tx,
    connector,
    revived.map(({ entity }) => entity),
  );
  noteStored(tx, connector, revived, { origin: current.origin, now: stamp.now, numbers });
  return { rows, isDone: left > 0 };
}

async function giveBackBelow(
  { held: { connector }, current, stamp, tx }: Commit,
  entity: EntityName,
  keyTexts: readonly string[],
): Promise<void> {
  const below = { connector, entity, keyHashes: keyTexts.map(textHash) };
  await transitions.giveBack(tx, { ...below, origin: current.origin, now: stamp.now });
}

/** `Repair.storeRecord`. */
async function storeOne(
  commit: Commit,
  entity: EntityName,
  record: PreparedRecord,
  isEdited = false,
): Promise<PageCounts> {
  const { current, tx } = commit;
  const { keyText } = record;
  const before = (await current.tables.get(entity)?.find(tx, [record]))?.get(keyText);
  const shown = [{ entity, records: [record], isInsertOnly: false, isEdited, home: null }];
  const [stored] = await storeRows(commit, shown, await readStored(commit, shown));
  const counts = { ...noCounts, fetched: 1, ...stored };
  checkCounts(entity, counts);
  addCounts(tx, current.run, [{ entity, counts }]);
  current.seen.save(tx);
  if (before !== undefined && before.deletedAt !== null) await giveBackBelow(commit, entity, [keyText]);
  return counts;
}

/**
 * `Repair.tombstoneRecord`. A person asked for it by its key, with `--allow-deletes`: what lies below goes along, as it
 * does in a sync that is allowed to delete.
 */
async function tombstoneOne(commit: Commit, entity: EntityName, keyText: string): Promise<boolean> {
  const table = commit.current.tables.get(entity);
  const stored = (await table?.rowsOf(commit.tx, [keyText]))?.get(keyText);
  if (stored === undefined || stored.deletedAt !== null) return false;
  await deleteRows(commit, entity, [{ row: stored.row, keyText: stored.keyText, permission: 'allowed' }]);
  return true;
}
