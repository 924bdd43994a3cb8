import type Database from 'better-sqlite3';
import { quoted } from '../../sinks/sqlite/quoted.ts';
import type { SearchIndex, SqlPart } from '../search-index.ts';
import type { SearchTarget } from '../search-target.ts';
import { slipsAllowed } from '../words.ts';
import { indexTables } from './index-names.ts';
import { readIndexedSeq } from './index-state.ts';
import { indexedFields, indexFormat } from './indexed-fields.ts';
import { findNearWords } from './near-words.ts';
import { maxIndexedWord } from './spelling.ts';

/**
 * The target's index as it is in this transaction; one that was built for other fields is none. `rowsWithWord` gives exactly the rows
 * of which a text of the field's value, at any depth, has one of the words. To be used within the transaction it was opened
 * in. Reads only.
 */
export function openSearchIndex(db: Database.Database, target: SearchTarget): SearchIndex {
  const fields = indexedFields(target);
  const indexedSeq = readIndexedSeq(db, target.table, indexFormat(fields));
  const prefixOf = (field: string): string | null =>
    indexedSeq === 0 ? null : (fields.get(field)?.prefix ?? null);
  const rows = (match: string): SqlPart | null => rowsMatching(db, target.table, match);
  return {
    indexedSeq,
    rowsWithWord: (field, words) => {
      const prefix = prefixOf(field);
      if (prefix === null || words.some((word) => word.length > maxIndexedWord)) return null;
      return words.length === 0 ? noRows : rows(anyOf(prefix, words));
    },
    rowsNearWords: (field, words) => {
      const prefix = prefixOf(field);
      if (prefix === null) return null;
      const groups: string[] = [];
      for (const word of new Set(words)) {
        const near = slipsAllowed(word) === 0 ? [word] : findNearWords(db, target.table, word);
        // What cannot be told of one word leaves the others to narrow.
        if (near === null || near.some((one) => one.length > maxIndexedWord)) continue;
        if (near.length === 0) return noRows;
        groups.push(`(${anyOf(prefix, near)})`);
      }
      return groups.length === 0 ? null : rows(groups.join(' AND '));
    },
  };
}

/** A list of a part as large as that of all rows takes longer to make than most searches take to find a page without it. */
const commonPart = 0.25;
const fewRows = 10_000;

function rowsMatching(db: Database.Database, table: string, match: string): SqlPart | null {
  const { words } = indexTables(table);
  const sql = `SELECT rowid FROM ${quoted(words)} WHERE ${quoted(words)} MATCH ?`;
  const last =
    db
      .prepare<[], number | null>(`SELECT max(_row) FROM ${quoted(table)}`)
      .pluck()
      .get() ?? 0;
  const most = Math.max(fewRows, Math.floor(last * commonPart));
  const counted = db.prepare<[string, number], number>(`SELECT count(*) FROM (${sql} LIMIT ?)`).pluck();
  return (counted.get(match, most + 1) ?? 0) > most ? null : { sql, values: [match] };
}

const noRows: SqlPart = { sql: 'SELECT 0 WHERE 0', values: [] };

/** Words hold letters and digits only, so that nothing in them ends the quotation. */
function anyOf(prefix: string, words: readonly string[]): string {
  return words.map((word) => `"${prefix}${word}"`).join(' OR ');
}
