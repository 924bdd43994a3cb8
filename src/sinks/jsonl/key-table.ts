import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { tableName, type RecordTable, type StoredRow, type TablePlace } from '../ledger/record-store.ts';
import type { ChangeFile } from './change-file.ts';
import type { LineWriter } from './line.ts';

type Written = [hash: string, volatileHash: string | null, changedAt: Instant, seq: number];

/** The name is lower case letters, digits and `_`: it needs no quoting. */
export function keyTableName(connector: ConnectorName, entity: EntityName): string {
  return `_sync_keys_${tableName(connector, entity)}`;
}

/** Every key of an entity with its row number and hash, in the ledger; the records themselves go to `changes` as lines. */
export function openKeyTable(
  db: Database.Database,
  { connector, table: { entity } }: TablePlace,
  changes: ChangeFile,
  line: LineWriter,
): RecordTable {
  const name = keyTableName(connector, entity);
  db.exec(
    `CREATE TABLE IF NOT EXISTS ${name} (
       row INTEGER PRIMARY KEY,
       key TEXT NOT NULL UNIQUE,
       hash TEXT NOT NULL,
       volatile_hash TEXT,
       changed_at TEXT NOT NULL,
       seq INTEGER NOT NULL,
       deleted_at TEXT
     ) STRICT`,
  );
  const find = db.prepare<[string], StoredRow>(
    `SELECT row, hash, volatile_hash AS volatileHash, changed_at AS changedAt, deleted_at AS deletedAt
     FROM ${name} WHERE key = ?`,
  );
  const insert = db.prepare<[...Written, string]>(
    `INSERT INTO ${name} (hash, volatile_hash, changed_at, seq, key) VALUES (?, ?, ?, ?, ?)`,
  );
  const update = db.prepare<[...Written, number]>(
    `UPDATE ${name} SET hash = ?, volatile_hash = ?, changed_at = ?, seq = ?, deleted_at = NULL WHERE row = ?`,
  );
  return {
    find: ({ keyText }) => find.get(keyText),
    insert: (record, stamp) => {
      const seq = stamp.nextSeq();
      changes.append(line(record, seq, stamp), seq);
      const { hash, volatileHash, keyText } = record;
      return Number(insert.run(hash, volatileHash, stamp.now, seq, keyText).lastInsertRowid);
    },
    update: (row, record, stamp) => {
      const seq = stamp.nextSeq();
      changes.append(line(record, seq, stamp), seq);
      update.run(record.hash, record.volatileHash, stamp.now, seq, row);
    },
  };
}
