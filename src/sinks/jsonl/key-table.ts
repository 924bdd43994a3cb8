import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import {
  tableName,
  type HomedRow,
  type KeyedRow,
  type RecordTable,
  type StoredRow,
  type TablePlace,
} from '../ledger/record-store.ts';
import type { ChangeFile } from './change-file.ts';
import type { LineWriters } from './line.ts';

type Written = [hash: string, volatileHash: string | null, changedAt: Instant, run: RunId, seq: number];

/** The name is lower case letters, digits and `_`: it needs no quoting. */
export function keyTableName(connector: ConnectorName, entity: EntityName): string {
  return `_sync_keys_${tableName(connector, entity)}`;
}

/** Every key of an entity with its row number and hash, in the ledger; the records themselves go to `changes` as lines. */
export function openKeyTable(
  db: Database.Database,
  { connector, table: { entity } }: TablePlace,
  changes: ChangeFile,
  lines: LineWriters,
): RecordTable {
  const name = keyTableName(connector, entity);
  ensureKeyTable(db, name);
  return { ...writeRecords(db, name, changes, lines), ...markRows(db, name, changes, lines) };
}

function ensureKeyTable(db: Database.Database, name: string): void {
  db.exec(
    `CREATE TABLE IF NOT EXISTS ${name} (
       row INTEGER PRIMARY KEY,
       key TEXT NOT NULL UNIQUE,
       hash TEXT NOT NULL,
       volatile_hash TEXT,
       changed_at TEXT NOT NULL,
       seq INTEGER NOT NULL,
       deleted_at TEXT,
       partition INTEGER,
       first_seen_at TEXT,
       run TEXT
     ) STRICT;
     CREATE INDEX IF NOT EXISTS ${name}__partition ON ${name} (partition, row);`,
  );
}

function writeRecords(
  db: Database.Database,
  name: string,
  changes: ChangeFile,
  { upsert }: LineWriters,
): Pick<RecordTable, 'find' | 'insert' | 'update'> {
  const find = db.prepare<[string], StoredRow>(
    `SELECT row, hash, volatile_hash AS volatileHash, changed_at AS changedAt, deleted_at AS deletedAt, partition AS home
     FROM ${name} WHERE key = ?`,
  );
  const insert = db.prepare<[...Written, string, number | null, Instant]>(
    `INSERT INTO ${name} (hash, volatile_hash, changed_at, run, seq, key, partition, first_seen_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare<[...Written, number]>(
    `UPDATE ${name} SET hash = ?, volatile_hash = ?, changed_at = ?, run = ?, seq = ?, deleted_at = NULL WHERE row = ?`,
  );
  return {
    find: ({ keyText }) => find.get(keyText),
    insert: (record, home, stamp) => {
      const seq = stamp.nextSeq();
      changes.append(upsert(record, seq, stamp), seq);
      const { hash, volatileHash, keyText } = record;
      const { now, run } = stamp;
      return Number(insert.run(hash, volatileHash, now, run, seq, keyText, home, now).lastInsertRowid);
    },
    update: (row, record, stamp) => {
      const seq = stamp.nextSeq();
      changes.append(upsert(record, seq, stamp), seq);
      update.run(record.hash, record.volatileHash, stamp.now, stamp.run, seq, row);
    },
  };
}

function markRows(
  db: Database.Database,
  name: string,
  changes: ChangeFile,
  { deletion }: LineWriters,
): Omit<RecordTable, 'find' | 'insert' | 'update'> {
  const keyed = `SELECT row, key AS keyText, changed_at AS changedAt, deleted_at AS deletedAt, partition AS home FROM ${name}`;
  const setHome = db.prepare<[number, number]>(`UPDATE ${name} SET partition = ? WHERE row = ?`);
  const liveRows = db.prepare<[number, number, number], HomedRow>(
    `SELECT row, changed_at AS changedAt FROM ${name} INDEXED BY ${name}__partition
     WHERE partition = ? AND row > ? AND deleted_at IS NULL ORDER BY row LIMIT ?`,
  );
  const row = db.prepare<[number], KeyedRow>(`${keyed} WHERE row = ?`);
  const rowOf = db.prepare<[string], KeyedRow>(`${keyed} WHERE key = ?`);
  const tombstone = db.prepare<[Instant, Instant, RunId, number, number]>(
    `UPDATE ${name} SET deleted_at = ?, changed_at = ?, run = ?, seq = ? WHERE row = ?`,
  );
  const keyOf = db.prepare<[number], string>(`SELECT key FROM ${name} WHERE row = ?`).pluck();
  const tombstonedBy = db
    .prepare<[RunId, number], number>(
      `SELECT row FROM ${name} WHERE deleted_at IS NOT NULL AND run = ? ORDER BY row LIMIT ?`,
    )
    .pluck();
  return {
    setHome: (number, home) => void setHome.run(home, number),
    liveRows: (home, after, limit) => liveRows.all(home, after, limit),
    row: (number) => row.get(number),
    rowOf: (keyText) => rowOf.get(keyText),
    tombstone: (number, stamp) => {
      const keyText = keyOf.get(number);
      if (keyText === undefined) return;
      const seq = stamp.nextSeq();
      changes.append(deletion(keyText, seq, stamp), seq);
      tombstone.run(stamp.now, stamp.now, stamp.run, seq, number);
    },
    revive: () => {
      throw new SyncError(
        'A JSONL sink keeps the keys of deleted records, not their fields, so a deletion cannot be taken back. ' +
          'Fetch the record again, or sync with --full.',
        { code: 'USAGE', recovery: 'stop' },
      );
    },
    tombstonedBy: (run, limit) => tombstonedBy.all(run, limit),
  };
}
