import type Database from 'better-sqlite3';
import { quoted } from '../../sinks/sqlite/quoted.ts';
import { indexTables, spellingTable } from './index-names.ts';
import type { RowWords } from './row-words.ts';
import { isSpelled, trigramsOf } from './spelling.ts';

export interface WordWriter {
  /** Takes out what the index says of the row, if anything. */
  remove(row: number): void;
  /** For a row that the index says nothing of. */
  add(row: number, words: RowWords): void;
}

/** For one transaction: what it has met of the list of spellings is not looked up again. */
export function prepareWordWriter(db: Database.Database, table: string): WordWriter {
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
