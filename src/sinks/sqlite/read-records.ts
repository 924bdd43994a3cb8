import type Database from 'better-sqlite3';
import type { ConnectorName, RunId } from '../../core/names.ts';
import { keyTextOf, type ColumnValue, type EntityTable } from '../../core/records.ts';
import { keyPartsOf } from '../../core/json-text.ts';
import {
  inBatches,
  openReadTransaction,
  openStoredKeys,
  recordLength,
} from '../file-ledger/read-transaction.ts';
import { tableName } from '../decisions/stored-table.ts';
import type { KeyAndHash, KeyReader, RecordReader, StoredRecord } from '../record-reader.ts';
import { quoted } from '../../sql/quoted.ts';
import { keyCondition } from '../sqlite-next/records/table-sql.ts';

/** Records as rows of their tables. Integers come with all their digits. */
export function openSqliteRecords(file: string): RecordReader {
  const { db, ...transaction } = openReadTransaction({ file, kind: 'sqlite' });
  return {
    ...transaction,
    changes: (connector, table, after) =>
      inBatches(readChanges(db, connector, table, after), recordLength, file),
    record: async (connector, table, keyText) => {
      const key = keyPartsOf(keyText, table.key.length);
      if (key === null) return null;
      const row = select(db, connector, table, `WHERE ${keyCondition(table)}`).get(...key);
      return row === undefined ? null : storedRecord(table, row);
    },
  };
}

/** Through the index on `_seq`: rows come in its order, one at a time. */
function* readChanges(
  db: Database.Database,
  connector: ConnectorName,
  table: EntityTable,
  after: number,
): Generator<StoredRecord> {
  const rows = select(db, connector, table, 'WHERE _seq > ? ORDER BY _seq').iterate(after);
  for (const row of rows) yield storedRecord(table, row);
}

function select(
  db: Database.Database,
  connector: ConnectorName,
  table: EntityTable,
  where: string,
): Database.Statement<unknown[], readonly ColumnValue[]> {
  const columns = table.columns.map(({ name }) => quoted(name));
  const name = quoted(tableName(connector, table.entity));
  return db
    .prepare<unknown[], readonly ColumnValue[]>(
      `SELECT ${columns.join(', ')}, _extra, _deleted_at, _seq, _changed_at, _run_id FROM ${name} ${where}`,
    )
    .raw(true)
    .safeIntegers(true);
}

function storedRecord({ columns }: EntityTable, row: readonly ColumnValue[]): StoredRecord {
  const [extra = null, deletedAt = null, seq = 0, changedAt = '', run = ''] = row.slice(columns.length);
  return {
    isDeleted: deletedAt !== null,
    seq: Number(seq),
    changedAt: String(changedAt),
    run: String(run) as RunId,
    values: row.slice(0, columns.length),
    extra: extra === null ? null : String(extra),
  };
}

export function openSqliteKeys(file: string): KeyReader {
  return openStoredKeys({ file, kind: 'sqlite' }, function* (db, connector, { entity, key }) {
    const columns = key.map(quoted).join(', ');
    const rows = db
      .prepare<[], readonly ColumnValue[]>(
        `SELECT _hash, ${columns} FROM ${quoted(tableName(connector, entity))} WHERE _deleted_at IS NULL`,
      )
      .raw(true)
      .safeIntegers(true);
    for (const [hash = '', ...parts] of rows.iterate()) {
      yield { keyText: keyTextOf(parts), hash: String(hash) } satisfies KeyAndHash;
    }
  });
}
