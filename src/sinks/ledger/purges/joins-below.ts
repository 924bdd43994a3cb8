import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import { parseColumns, parseDescribed, parseNames } from '../../stored-json.ts';

/** Rows of `entity` belong to the row of `parent` whose key they carry in `columns`, in the order of that key. */
export interface JoinBelow {
  readonly entity: EntityName;
  readonly parent: EntityName;
  readonly columns: readonly string[];
}

interface TableRow {
  readonly entity: EntityName;
  readonly key: string;
  readonly stored: string;
  readonly described: string;
}

/** What belongs to what by the definition: elements to their record, records to the one that leads to them. */
export async function readJoinsBelow(tx: Tx, connector: ConnectorName): Promise<readonly JoinBelow[]> {
  const rows = await tx.rows<TableRow>(
    `SELECT entity, key, stored, described FROM _sync_tables WHERE connector = :connector ORDER BY entity`,
    { connector },
  );
  const tables = new Map(
    rows.map(({ entity, key, stored }) => [
      entity,
      {
        key: parseNames(key),
        types: new Map(parseColumns(stored).map(({ name, type }) => [name, type])),
      },
    ]),
  );
  return rows.flatMap(({ entity, described }) =>
    parseDescribed(described).joins.flatMap(({ columns, parent, parentColumns }): readonly JoinBelow[] => {
      const above = tables.get(parent);
      const own = tables.get(entity);
      if (above === undefined || own === undefined || parentColumns.length !== above.key.length) return [];
      const carried = above.key.map((name) => columns[parentColumns.indexOf(name)] ?? '');
      // Only what names one parent by its key, in columns that hold the same values.
      const isWhole = carried.every((name, index) => {
        const type = own.types.get(name);
        return type !== undefined && type === above.types.get(above.key[index] ?? '');
      });
      return isWhole ? [{ entity, parent: parent, columns: carried }] : [];
    }),
  );
}
