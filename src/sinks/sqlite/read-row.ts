import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { type ColumnValue, keyTextOf } from '../../core/records.ts';
import { keyPartsOf } from '../../core/json-text.ts';
import type { HomedRow, ReadRow, RowReader } from '../ledger/record-store.ts';
import { tableName } from '../decisions/stored-table.ts';
import { quoted } from './quoted.ts';
import { liveRowsSql } from './sqlite-table.ts';

/** Rows as their tables say, for a connection that may only read. */
export function openSqliteRows(db: Database.Database): RowReader {
  return {
    keyOf: (connector, { entity, key }, row) => {
      const keyColumns = key.map(quoted).join(', ');
      const parts = db
        .prepare<[number], ColumnValue[]>(
          `SELECT ${keyColumns} FROM ${nameOf(connector, entity)} WHERE _row = ?`,
        )
        .raw()
        .safeIntegers()
        .get(row);
      return parts === undefined ? undefined : keyTextOf(parts);
    },
    row: (connector, { entity, key }, keyText) => {
      const parts = keyPartsOf(keyText, key.length);
      const condition = key.map((column) => `${quoted(column)} = ?`).join(' AND ');
      return parts === null
        ? undefined
        : db
            .prepare<ColumnValue[], ReadRow>(
              `SELECT _row AS row, _first_seen_at AS firstSeenAt, _changed_at AS changedAt, _run_id AS run,
                 _deleted_at AS deletedAt, _seq AS seq, _partition AS home
               FROM ${nameOf(connector, entity)} WHERE ${condition}`,
            )
            .get(...parts);
    },
    liveRows: (connector, entity, home, after, limit) =>
      db
        .prepare<[number, number, number], HomedRow>(liveRowsSql(tableName(connector, entity)))
        .all(home, after, limit),
  };
}

function nameOf(connector: ConnectorName, entity: EntityName): string {
  return quoted(tableName(connector, entity));
}
