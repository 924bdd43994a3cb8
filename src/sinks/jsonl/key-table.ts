import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import { usage } from '../../core/usage-error.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type {
  HomedRow,
  KeyedRow,
  ReadRow,
  RecordTable,
  RowReader,
  TablePlace,
  WriteStamp,
} from '../file-ledger/record-store.ts';
import { givenUpHash, lostHash, type StoredRow } from '../decisions/meet-record.ts';
import { tableName } from '../decisions/stored-table.ts';
import type { ChangeFile } from './change-file.ts';
import type { LineWriters } from './line.ts';

type Written = [hash: string, volatileHash: string | null, changedAt: Instant, run: RunId, seq: number];

/** The name is lower case letters, digits and `_`: it needs no quoting. */
export function keyTableName(connector: ConnectorName, entity: EntityName): string {
  return `_sync_keys_${tableName(connector, entity)}`;
}

/** Of a deleted row whose line was lost before: it is written again when it comes back. */
const deletedHash = 'deleted';
/** To the letter the condition of an index, or that would not serve. */
const isLost = `hash IN ('${lostHash}', '${givenUpHash}')`;
export const hasLine = `NOT ${isLost}`;

/** Every key of an entity with its row number and hash, in the ledger; the records themselves go to `changes` as lines. */
export function openKeyTable(
  db: Database.Database,
  { connector, table: { entity }, stamp }: TablePlace,
  changes: ChangeFile,
  lines: LineWriters,
): RecordTable {
  const name = keyTableName(connector, entity);
  ensureKeyTable(db, name);
  rewriteDeletions(db, name, { changes, lines, stamp });
  return { ...writeRecords(db, name, changes, lines), ...markRows(db, name, changes, lines) };
}

function liveKeysSql(keyTable: string): string {
  return `SELECT row, changed_at AS changedAt FROM ${keyTable} INDEXED BY ${keyTable}__partition
          WHERE partition = ? AND row > ? AND deleted_at IS NULL ORDER BY row LIMIT ?`;
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
     CREATE INDEX IF NOT EXISTS ${name}__partition ON ${name} (partition, row);
     CREATE INDEX IF NOT EXISTS ${name}__lost ON ${name} (row) WHERE ${isLost};`,
  );
}

/** Deletions whose lines are lost: everything that such a line says is here, so nothing has to be asked for again. */
function rewriteDeletions(
  db: Database.Database,
  name: string,
  { changes, lines, stamp }: { changes: ChangeFile; lines: LineWriters; stamp: WriteStamp },
): void {
  const lost = db.prepare<[], { readonly row: number; readonly keyText: string }>(
    `SELECT row, key AS keyText FROM ${name} WHERE ${isLost} AND deleted_at IS NOT NULL`,
  );
  const rewritten = db.prepare<[Instant, RunId, number, number]>(
    `UPDATE ${name} SET hash = '${deletedHash}', changed_at = ?, run = ?, seq = ? WHERE row = ?`,
  );
  for (const { row, keyText } of lost.all()) {
    const seq = stamp.nextSeq();
    changes.append(lines.deletion(keyText, seq, stamp), seq);
    rewritten.run(stamp.now, stamp.run, seq, row);
  }
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
  const liveRows = db.prepare<[number, number, number], HomedRow>(liveKeysSql(name));
  // Rows of before their beginning was noted are old.
  const liveBefore = db
    .prepare<[Instant, number, number], number>(
      `SELECT row FROM ${name} WHERE coalesce(first_seen_at, '') < ? AND row > ? AND deleted_at IS NULL ORDER BY row LIMIT ?`,
    )
    .pluck();
  const row = db.prepare<[number], KeyedRow>(`${keyed} WHERE row = ?`);
  const rowOf = db.prepare<[string], KeyedRow>(`${keyed} WHERE key = ?`);
  const tombstone = db.prepare<[Instant, Instant, RunId, number, number]>(
    `UPDATE ${name} SET deleted_at = ?, changed_at = ?, run = ?, seq = ?, hash = iif(${isLost}, '${deletedHash}', hash)
     WHERE row = ?`,
  );
  const keyOf = db.prepare<[number], string>(`SELECT key FROM ${name} WHERE row = ?`).pluck();
  const tombstonedBy = db
    .prepare<[RunId, number], number>(
      `SELECT row FROM ${name} WHERE deleted_at IS NOT NULL AND run = ? ORDER BY row LIMIT ?`,
    )
    .pluck();
  const isToCome = `${isLost} AND hash = '${lostHash}' AND deleted_at IS NULL`;
  const lost = db.prepare<[], number>(`SELECT count(*) FROM ${name} WHERE ${isToCome}`).pluck();
  const giveUp = db.prepare<[]>(`UPDATE ${name} SET hash = '${givenUpHash}' WHERE ${isToCome}`);
  return {
    setHome: (number, home) => void setHome.run(home, number),
    liveRows: (home, after, limit) => liveRows.all(home, after, limit),
    liveBefore: (at, after, limit) => liveBefore.all(at, after, limit),
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
      throw usage(
        'A JSONL sink keeps the keys of deleted records, not their fields, so a deletion cannot be taken back. ' +
          'Fetch the record again, or sync with --full.',
      );
    },
    tombstonedBy: (run, limit) => tombstonedBy.all(run, limit),
    lost: () => lost.get() ?? 0,
    giveUpLost: () => void giveUp.run(),
  };
}

/** Rows as the key tables say, for a connection that may only read. */
export function openJsonlRows(db: Database.Database): RowReader {
  return {
    keyOf: (connector, { entity }, row) =>
      db
        .prepare<[number], string>(`SELECT key FROM ${keyTableName(connector, entity)} WHERE row = ?`)
        .pluck()
        .get(row),
    row: (connector, { entity }, keyText) =>
      db
        .prepare<[string], ReadRow>(
          `SELECT row, first_seen_at AS firstSeenAt, changed_at AS changedAt, run, deleted_at AS deletedAt, seq,
             partition AS home
           FROM ${keyTableName(connector, entity)} WHERE key = ?`,
        )
        .get(keyText),
    liveRows: (connector, entity, ...range) =>
      db
        .prepare<[number, number, number], HomedRow>(liveKeysSql(keyTableName(connector, entity)))
        .all(...range),
  };
}
