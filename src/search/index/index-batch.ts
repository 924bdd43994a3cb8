import type Database from 'better-sqlite3';
import { quoted } from '../../sinks/sqlite/quoted.ts';
import { indexTables, spellingTable } from './index-names.ts';
import { isIndexStarted, readIndexedSeq, startIndex, writeIndexedSeq } from './index-state.ts';
import { type IndexedField, indexFormat } from './indexed-fields.ts';
import { prepareRowWords, textBytesSql, type RowWords } from './row-words.ts';
import { isSpelled, trigramsOf } from './spelling.ts';

/** What one transaction takes: writers of the sink wait for it. */
const batchRows = 4_000;
const batchBytes = 8 * 1024 * 1024;

/**
 * Brings the next changes into the table's index, and notes how far it has come; gives how many rows that were, 0 when none are
 * left. `mayBegin`: start a new index if the stored one has another format; otherwise only continue the stored one. To be called within an IMMEDIATE transaction: whatever else wrote before it is seen, and nothing writes meanwhile.
 */
export function indexBatch(
  db: Database.Database,
  table: string,
  fields: ReadonlyMap<string, IndexedField>,
  mayBegin: boolean,
): number {
  const format = indexFormat(fields);
  if (!mayBegin && !isIndexStarted(db, table, format)) return 0;
  const indexed = resumeAfter(db, table, format);
  const list = [...fields.values()];
  const changes = nextChanges(db, table, { after: indexed, bytesSql: textBytesSql(list) });
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

/** The change number to resume after. An index for other fields is rebuilt, and so is one without any current row (all were dropped). */
function resumeAfter(db: Database.Database, table: string, format: string): number {
  const indexed = readIndexedSeq(db, table, format);
  const oldest =
    db
      .prepare<[], number | null>(`SELECT min(_seq) FROM ${quoted(table)}`)
      .pluck()
      .get() ?? 0;
  if (isIndexStarted(db, table, format) && (indexed === 0 || oldest <= indexed)) return indexed;
  startIndex(db, table, format);
  return 0;
}

interface Change {
  readonly row: number;
  readonly seq: number;
  readonly isDeleted: 0 | 1;
}

/** At least one where there is one. */
function nextChanges(
  db: Database.Database,
  table: string,
  { after, bytesSql }: { readonly after: number; readonly bytesSql: string },
): readonly Change[] {
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

interface WordWriter {
  /** Takes out what the index says of the row, if anything. */
  remove(row: number): void;
  /** For a row that the index says nothing of. */
  add(row: number, words: RowWords): void;
}

/** For one transaction: what it has met of the list of spellings is not looked up again. */
function prepareWordWriter(db: Database.Database, table: string): WordWriter {
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
    remove: (row) => void remove.run(row),
    add: (row, { entries, words: met, spellings: ofTimes }) => {
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
