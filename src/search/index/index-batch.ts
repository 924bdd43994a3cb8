import type Database from 'better-sqlite3';
import { quoted } from '../../sinks/sqlite/quoted.ts';
import type { IndexedField } from './indexed-fields.ts';
import { indexFormat } from './indexed-fields.ts';
import { isIndexStarted, readIndexedSeq, startIndex, writeIndexedSeq } from './index-state.ts';
import { prepareRowWords, textBytesSql } from './row-words.ts';
import { prepareWordWriter } from './write-words.ts';

/** What one transaction takes: writers of the sink wait for it. */
const batchRows = 4_000;
const batchBytes = 8 * 1024 * 1024;

/**
 * Brings the next changes into the table's index, and notes how far it has come; gives how many rows that were, 0 when none are
 * left. `mayBegin`: where the index is another, one is begun; else whoever began that goes on with it. To be called within an IMMEDIATE transaction: whatever else wrote before it is seen, and nothing writes meanwhile.
 */
export function indexBatch(
  db: Database.Database,
  table: string,
  fields: ReadonlyMap<string, IndexedField>,
  mayBegin: boolean,
): number {
  const format = indexFormat(fields);
  if (!mayBegin && !isIndexStarted(db, table, format)) return 0;
  const indexed = goOn(db, table, format);
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

/** The change to go on after. An index for other fields is begun anew, and so is one that holds no row as it is (all were dropped). */
function goOn(db: Database.Database, table: string, format: string): number {
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
