import { setImmediate } from 'node:timers/promises';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { instant, systemClock } from '../../core/clock.ts';
import { toSinkError } from '../../sinks/sqlite/sink-error.ts';
import { openIndexedSink } from '../../sinks/sqlite/readers.ts';
import { quoted } from '../../sql/quoted.ts';
import type { SearchTarget } from '../search-target.ts';
import {
  cells,
  columnIndexName,
  columnIndexPrefix,
  indexTables,
  isTableThere,
  readIndexedSeq,
  spellingTable,
  startIndex,
  writeIndexedSeq,
} from './index-state.ts';
import {
  type IndexedField,
  indexedFields,
  indexFormat,
  prepareRowWords,
  type RowWords,
  textBytesSql,
} from './indexed-fields.ts';
import { isSpelled, trigramsOf } from '../words.ts';

interface UpdateOptions {
  /** Ends the update after the transaction that it is in. */
  readonly signal: AbortSignal;
  /** Rows so far, after each transaction. */
  readonly onProgress?: (rows: number) => void;
}

/**
 * Brings the search index of one table of a SQLite sink up to its newest change; the first time it makes it. In
 * transactions of some thousand rows: a kill at any point leaves an index that says how far it has come, and the next
 * update resumes from there. Any number may run at once, beside searches and a sync; each takes what is next. Gives how
 * many rows it took, 0 too where there is no such table yet. Rejects with the signal's reason, and with `SyncError`
 * SINK_FAILED, SINK_FULL or SINK_INCOMPATIBLE.
 */
export async function updateSearchIndex(
  file: string,
  target: SearchTarget,
  { signal, onProgress }: UpdateOptions,
): Promise<{ readonly rows: number }> {
  signal.throwIfAborted();
  const db = openIndexedSink(file, instant(systemClock.now()));
  try {
    if (!isTableThere(db, target.table)) return { rows: 0 };
    const fields = indexedFields(target);
    const nextBatch = db.transaction((mayBegin: boolean) => indexBatch(db, target.table, fields, mayBegin));
    let rows = 0;
    // Two updates for different fields would restart each other forever: only the last one started continues.
    for (let batch = nextBatch.immediate(true); batch > 0; batch = nextBatch.immediate(false)) {
      rows += batch;
      onProgress?.(rows);
      await setImmediate();
      signal.throwIfAborted();
    }
    const statements = columnIndexStatements(db, target);
    for (const statement of statements) {
      db.transaction(() => db.exec(statement)).immediate();
      await setImmediate();
      signal.throwIfAborted();
    }
    if (statements.length > 0 || rows >= manyRows) {
      db.pragma('analysis_limit = 1000');
      db.exec(`ANALYZE ${quoted(target.table)}`);
    }
    return { rows };
  } catch (error) {
    throw toSinkError(error, file);
  } finally {
    db.close();
  }
}

/** So many changes may have altered which of two indexes leads to fewer rows; a sample of each is analyzed again. */
const manyRows = 1_000;

/**
 * Statements, one for each index to make or drop and to be run in a separate transaction, so that a writer of the sink
 * waits for one alone: what it takes until each column that is searched by its value has an index: texts and numbers.
 * SQLite ends every index with the row number, which is how equal values are sorted. Indexes of columns that are no
 * longer searched are dropped.
 */
function columnIndexStatements(db: Connection, target: SearchTarget): readonly string[] {
  const wanted = new Map(
    indexedColumns(target).map((column) => [columnIndexName(target.table, column), column]),
  );
  const prefix = columnIndexPrefix(target.table);
  const indexes = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?";
  const there = cells<string>(db, indexes)
    .all(target.table)
    .filter((name) => name.startsWith(prefix));
  return [
    ...there.filter((name) => !wanted.has(name)).map((name) => `DROP INDEX IF EXISTS ${quoted(name)}`),
    ...[...wanted]
      .filter(([name]) => !there.includes(name))
      .map(
        ([name, column]) =>
          `CREATE INDEX IF NOT EXISTS ${quoted(name)} ON ${quoted(target.table)} (${quoted(column)})`,
      ),
  ];
}

function indexedColumns({ fields }: SearchTarget): readonly string[] {
  const columns = [...fields.values()].flatMap(({ sources }) =>
    sources.flatMap((source) =>
      source.kind === 'column' && ordered.has(source.type) ? [source.column] : [],
    ),
  );
  return [...new Set(columns)];
}

const ordered: ReadonlySet<string> = new Set(['string', 'integer', 'number']);

/** What one transaction takes: writers of the sink wait for it. */
const batchRows = 4_000;
const batchBytes = 8 * 1024 * 1024;

/**
 * Brings the next changes into the table's index, and notes how far it has come; gives how many rows that were, 0 when
 * none are left. `mayBegin`: start a new index if the stored one has another format; otherwise only continue the stored
 * one. To be called within an IMMEDIATE transaction: whatever else wrote before it is seen, and nothing writes
 * meanwhile.
 */
function indexBatch(
  db: Connection,
  table: string,
  fields: ReadonlyMap<string, IndexedField>,
  mayBegin: boolean,
): number {
  const format = indexFormat(fields);
  const present = readIndexedSeq(db, table, format);
  if (!mayBegin && present === null) return 0;
  const indexed = resumeAfter(db, table, format, present);
  const list = [...fields.values()];
  const changes = nextChanges(db, table, indexed, textBytesSql(list));
  const wordsOfRow = prepareRowWords(db, table, list);
  const writer = prepareWordWriter(db, table);
  for (const { row, isDeleted } of changes) {
    writer.remove(row);
    if (isDeleted === 0) writer.add(row, wordsOfRow(row));
  }
  const last = changes.at(-1);
  if (last !== undefined) writeIndexedSeq(db, table, last.seq);
  return changes.length;
}

/**
 * The change number to resume after. An index for other fields is rebuilt, and so is one without any current row (all
 * were dropped).
 */
function resumeAfter(db: Connection, table: string, format: string, present: number | null): number {
  const oldest = cells<number | null>(db, `SELECT min(_seq) FROM ${quoted(table)}`).get() ?? 0;
  if (present !== null && (present === 0 || oldest <= present)) return present;
  startIndex(db, table, format);
  return 0;
}

interface Change {
  readonly row: number;
  readonly seq: number;
  readonly isDeleted: 0 | 1;
}

/** At least one where there is one. */
function nextChanges(db: Connection, table: string, after: number, bytesSql: string): readonly Change[] {
  const read = db.prepare<[number, number], Change & { readonly bytes: number }>(
    `SELECT _row AS row, _seq AS seq, _deleted_at IS NOT NULL AS isDeleted, ${bytesSql} AS bytes
     FROM ${quoted(table)} AS r WHERE _seq > ? ORDER BY _seq LIMIT ?`,
  );
  const changes: Change[] = [];
  let bytes = 0;
  for (const change of read.iterate(after, batchRows)) {
    bytes += change.bytes;
    if (bytes > batchBytes && changes.length > 0) break;
    changes.push(change);
  }
  return changes;
}

/** For one transaction: what it has met of the list of spellings is not looked up again. */
function prepareWordWriter(db: Connection, table: string) {
  const { words, spellings, trigrams } = indexTables(table);
  const remove = db.prepare<[number]>(`DELETE FROM ${quoted(words)} WHERE rowid = ?`);
  const add = db.prepare<[number, string]>(`INSERT INTO ${quoted(words)} (rowid, list) VALUES (?, ?)`);
  const learn = db.prepare<[string]>(`INSERT OR IGNORE INTO ${quoted(spellings)} (word) VALUES (?)`);
  const spell = db.prepare<[number | bigint, string]>(
    `INSERT INTO ${quoted(trigrams)} (rowid, list) VALUES (?, ?)`,
  );
  const note = db.prepare<[string, string, string]>(
    `INSERT OR IGNORE INTO ${spellingTable} (table_name, field, spelling) VALUES (?, ?, ?)`,
  );
  const known = new Set<string>();
  const noted = new Set<string>();
  return {
    /** Takes out what the index says of the row, if anything. */
    remove: (row: number): void => void remove.run(row),
    /** For a row that is not in the index. */
    add: (row: number, { entries, words: met, spellings: ofTimes }: RowWords): void => {
      for (const [field, spelling] of ofTimes) {
        const key = `${field} ${spelling}`;
        if (!noted.has(key)) note.run(table, field, spelling);
        noted.add(key);
      }
      if (entries.size > 0) add.run(row, [...entries].join(' '));
      for (const word of met) {
        if (known.has(word)) continue;
        known.add(word);
        if (!isSpelled(word)) continue;
        const { changes, lastInsertRowid } = learn.run(word);
        if (changes > 0) spell.run(lastInsertRowid, trigramsOf(word).join(' '));
      }
    },
  };
}
