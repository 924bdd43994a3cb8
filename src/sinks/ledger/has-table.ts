import { cellOf, type Tx } from '../../sql/database.ts';

/** False in a sink of an older version that is read as it is: it gets the table when it is opened for writing. */
export async function hasTable(tx: Tx, table: string): Promise<boolean> {
  const sql =
    tx.dialect.name === 'sqlite'
      ? `SELECT 1 FROM sqlite_schema WHERE name = :table`
      : `SELECT 1 WHERE to_regclass(CAST(:table AS text)) IS NOT NULL`;
  return (await cellOf(tx, sql, { table })) !== undefined;
}
