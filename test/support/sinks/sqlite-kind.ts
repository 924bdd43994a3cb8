import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { EntityTable } from '../../../src/core/records.ts';
import { fileSinkKind, type FileSinkParts } from '../../contracts/file-sink/file-sink-kind.ts';
import { byKey, columnValue } from './stored-record.ts';

export const ledgerFile = (folder: string): string => join(folder, 'warehouse.db');

function readTable(file: string, connector: string, table: EntityTable, where: string) {
  const db = new Database(file, { readonly: true }).defaultSafeIntegers();
  try {
    const name = `${connector.replaceAll('-', '_')}__${table.entity}`;
    const rows = db.prepare<[], Record<string, unknown>>(`SELECT * FROM "${name}" WHERE ${where}`).all();
    return rows.map((row) => ({
      ...Object.fromEntries(table.columns.map(({ name, type }) => [name, columnValue(type, row[name])])),
      _extra: columnValue('object', row['_extra']),
      _seq: columnValue('integer', row['_seq']),
      _changed_at: columnValue('string', row['_changed_at']),
      _run_id: columnValue('string', row['_run_id']),
      deletedAt: columnValue('string', row['_deleted_at']),
    }));
  } finally {
    db.close();
  }
}

/** Rows as tables of a ledger have them. */
export function tableReaders(
  fileIn: (folder: string) => string,
): Pick<FileSinkParts, 'readRows' | 'readChanges'> {
  return {
    readRows: (folder, connector, table) => {
      const rows = readTable(fileIn(folder), connector, table, '_deleted_at IS NULL');
      return byKey(
        rows.map(({ deletedAt: _deletedAt, ...row }) => row),
        table.key,
      );
    },
    readChanges: (folder, connector, table) =>
      readTable(fileIn(folder), connector, table, '1 ORDER BY _seq').map(({ deletedAt, ...row }) => ({
        ...row,
        _op: deletedAt === null ? 'upsert' : 'delete',
      })),
  };
}

/** SQLite as the contract looks at it. */
export const sqliteKind = fileSinkKind({
  options: (folder) => ({ type: 'sqlite', name: 'warehouse', path: ledgerFile(folder), durability: 'full' }),
  ledgerFile,
  ...tableReaders(ledgerFile),
});
