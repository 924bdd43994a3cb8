import type { ConnectorName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import type { UnfinishedRemoval } from '../../repair.ts';

/**
 * Connectors that are being removed with their data: `entities` are those that had a table, `rows` how many rows those
 * had. While a connector is here, it has no row in `_sync_connectors` and `_sync_tables`, what other tables have of it
 * counts for nothing, and no process may use it.
 */
export const removalsSql = `
CREATE TABLE _sync_removals (
  connector TEXT PRIMARY KEY,
  since TEXT NOT NULL,
  entities TEXT NOT NULL,
  rows BIGINT NOT NULL
);
`;

/** A removal of the connector that is not complete; null where there is none. */
export async function readRemoval(tx: Tx, connector: ConnectorName): Promise<UnfinishedRemoval | null> {
  const sql = `SELECT connector, since, rows FROM _sync_removals WHERE connector = :connector`;
  return (await tx.first<UnfinishedRemoval>(sql, { connector })) ?? null;
}
