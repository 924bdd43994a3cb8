import type { Tx } from '../../sql/database.ts';

/** Tables whose rows get numbers that are never given twice; SQLite keeps the highest of each. */
type Numbered = 'runs' | 'partitions';

/** No row of the table has, or ever had, a higher number. */
export async function highestNumber(tx: Tx, of: Numbered): Promise<number> {
  const found = await tx.first<{ seq: number }>('SELECT seq FROM sqlite_sequence WHERE name = :table', {
    table: `_sync_${of}`,
  });
  return found?.seq ?? 0;
}

/** As `LedgerDriver.reserveNumbers`: the transaction has the write lock, so nobody takes one in between. */
export async function reserveNumbers(tx: Tx, of: Numbered, count: number): Promise<number> {
  const last = await highestNumber(tx, of);
  if (count === 0) return last;
  const table = `_sync_${of}`;
  // SQLite makes the row with the table's first row.
  await tx.run('DELETE FROM sqlite_sequence WHERE name = :table', { table });
  await tx.run('INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :seq)', { table, seq: last + count });
  return last;
}
