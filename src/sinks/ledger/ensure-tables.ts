import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { EntityTable } from '../../core/records.ts';
import type { Tx } from '../../sql/database.ts';
import type { RecordTables } from './driver.ts';
import type { PlannedTable } from './ledger.ts';
import type { RecordTable } from './record-table.ts';
import type { Stamp } from './stamp.ts';
import { declareTables, knownTables } from './tables.ts';

/**
 * Makes the tables of a plan's entities, or adds the columns that they lack and moves into those what `_extra` holds for them. Throws
 * `SyncError` SINK_INCOMPATIBLE for another key, a column of another type, or more columns than a table has room for.
 */
export async function ensureTables(
  tx: Tx,
  records: RecordTables,
  connector: ConnectorName,
  tables: readonly EntityTable[],
  stamp: Stamp,
): Promise<ReadonlyMap<EntityName, PlannedTable>> {
  const changes = await declareTables(tx, records, connector, tables);
  const planned = new Map<EntityName, PlannedTable>();
  for (const [index, table] of tables.entries()) {
    const { stored = [], filled = [] } = changes[index] ?? {};
    const place = { connector, table, stored };
    await records.ensure(tx, place);
    await records.fill(tx, place, filled, stamp);
    planned.set(table.entity, { table: records.open(place), width: table.columns.length });
  }
  return planned;
}

/** The table of an entity that a run's plan does not have; undefined where nothing of it was ever stored. For its rows, not to write them. */
export async function openStoredTable(
  tx: Tx,
  records: RecordTables,
  connector: ConnectorName,
  entity: EntityName,
): Promise<RecordTable | undefined> {
  const known = (await knownTables(tx, connector, [entity])).get(entity);
  if (known === undefined) return undefined;
  const { key, stored } = known;
  return records.open({ connector, table: { entity, key, columns: stored }, stored });
}
