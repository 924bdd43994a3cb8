import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { quoted } from '../../sql/quoted.ts';

/**
 * Up to which change number the table's index, built in this format, holds the rows as they are; null where there is
 * none. Reads only.
 */
export function readIndexedSeq(db: Connection, table: string, format: string): number | null {
  if (!isTableThere(db, stateTable)) return null;
  const seq = cells<number>(db, `SELECT seq FROM ${stateTable} WHERE table_name = ? AND format = ?`);
  return seq.get(table, format) ?? null;
}

/** Within a transaction that writes. */
export function writeIndexedSeq(db: Connection, table: string, seq: number): void {
  db.prepare(`UPDATE ${stateTable} SET seq = ? WHERE table_name = ?`).run(seq, table);
}

/** Makes an empty index in place of whatever there is. Within a transaction that writes. */
export function startIndex(db: Connection, table: string, format: string): void {
  const { words, spellings, trigrams } = indexTables(table);
  // Neither keeps the texts, the places of words, nor (for what never goes) their number: only who has which.
  db.exec(
    `CREATE TABLE IF NOT EXISTS ${stateTable} (table_name TEXT PRIMARY KEY, format TEXT NOT NULL, seq INTEGER NOT NULL)
       STRICT, WITHOUT ROWID;
     CREATE TABLE IF NOT EXISTS ${spellingTable} (table_name TEXT, field TEXT, spelling TEXT, PRIMARY KEY (table_name, field, spelling))
       STRICT, WITHOUT ROWID;
     DROP TABLE IF EXISTS ${quoted(words)};
     DROP TABLE IF EXISTS ${quoted(spellings)};
     DROP TABLE IF EXISTS ${quoted(trigrams)};
     CREATE VIRTUAL TABLE ${quoted(words)}
       USING fts5(list, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
     CREATE TABLE ${quoted(spellings)} (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE) STRICT;
     CREATE VIRTUAL TABLE ${quoted(trigrams)}
       USING fts5(list, content = '', columnsize = 0, detail = none, tokenize = 'ascii');`,
  );
  db.prepare(`DELETE FROM ${spellingTable} WHERE table_name = ?`).run(table);
  db.prepare(
    `INSERT INTO ${stateTable} (table_name, format, seq) VALUES (?, ?, 0)
     ON CONFLICT (table_name) DO UPDATE SET format = excluded.format, seq = 0`,
  ).run(table, format);
}

/** A statement whose rows have one cell. */
export function cells<Cell>(db: Connection, sql: string) {
  return db.prepare<(string | number)[], Cell>(sql).pluck();
}

export function isTableThere(db: Connection, name: string): boolean {
  return db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(name) !== undefined;
}

/** One row per table that has an index: what it was built for and how far it has come. */
const stateTable = '_search_index';

/** One row for each way in which times of a field are spelled; what was met once stays. */
export const spellingTable = '_search_time_spellings';

/**
 * No table of records begins so, and none of these is another's shadow table: a name of a connector or entity never
 * holds two underscores in a row, so what follows the last two tells them apart.
 */
export function indexTables(table: string) {
  return {
    /** FTS5: which rows have a word in a field. */
    words: `_search_${table}__words`,
    /** The distinct words that can be looked up by their spelling. */
    spellings: `_search_${table}__spellings`,
    /** FTS5: which spellings have three letters in a row. */
    trigrams: `_search_${table}__trigrams`,
  };
}

export function columnIndexName(table: string, column: string): string {
  return `${columnIndexPrefix(table)}${column}`;
}

export function columnIndexPrefix(table: string): string {
  return `_search_${table}__by_`;
}
