import { quoted } from '../../sql/quoted.ts';
import { timeSpelling } from '../instants.ts';
import type { SearchTarget } from '../search-target.ts';
import { piece, type Piece } from '../sql-piece.ts';
import { isNear, isSpelled, maxIndexedWord, slipsAllowed, tellingTrigrams } from '../words.ts';
import { cells, indexTables, isTableThere, readIndexedSeq, spellingTable } from './index-state.ts';
import { indexedFields, indexFormat } from './indexed-fields.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';

/**
 * What narrows `keyword` and `fuzzy`: a superset of the rows that meet them, from FTS5 tables that stand beside the
 * records' table in the same file and follow its change numbers. Without an index every row is read, and finds the
 * same. It also knows how times are spelled, which decides whether SQLite may sort a column of texts.
 */
export type SearchIndex = ReturnType<typeof openSearchIndex>;

/**
 * The target's index as it is in this transaction; one that was built for other fields is none. `rowsWithWord` gives
 * exactly the rows of which a text of the field's value, at any depth, has one of the words. To be used within the
 * transaction it was opened in. Reads only.
 */
export function openSearchIndex(db: Connection, target: SearchTarget) {
  const fields = indexedFields(target);
  const indexedSeq = readIndexedSeq(db, target.table, indexFormat(fields)) ?? 0;
  const prefixOf = (field: string): string | null =>
    indexedSeq === 0 ? null : (fields.get(field)?.prefix ?? null);
  const isInOrder = new Map<string, boolean>();
  const rows = (match: string): Piece | null => rowsMatching(db, target.table, match);
  return {
    /** Rows whose `_seq` is at or below this are in the index as they are; 0: there is no index. */
    indexedSeq,
    /**
     * Rows with one of the words somewhere in the field. Null: the index cannot tell, or a good part of all rows has
     * one.
     */
    rowsWithWord: (field: string, words: readonly string[]): Piece | null => {
      const prefix = prefixOf(field);
      if (prefix === null || words.some((word) => word.length > maxIndexedWord)) return null;
      return words.length === 0 ? noRows : rows(anyOf(prefix, words));
    },
    /** Rows that may have all of the words, each with its slips, in the field. Null: too many to be worth it. */
    rowsNearWords: (field: string, words: readonly string[]): Piece | null => {
      const prefix = prefixOf(field);
      if (prefix === null) return null;
      const groups: string[] = [];
      for (const word of new Set(words)) {
        const near = slipsAllowed(word) === 0 ? [word] : findNearWords(db, target.table, word);
        // If the index does not know this word, the others still narrow the rows.
        if (near === null || near.some((one) => one.length > maxIndexedWord)) continue;
        if (near.length === 0) return noRows;
        groups.push(`(${anyOf(prefix, near)})`);
      }
      return groups.length === 0 ? null : rows(groups.join(' AND '));
    },
    /**
     * Whether the texts of the field's column, newest rows included, stand in the order of their instants. False: that
     * is not known.
     */
    isInOrderAsStored: (field: string): boolean => {
      const known = isInOrder.get(field) ?? isColumnInOrder(db, target, field, indexedSeq);
      isInOrder.set(field, known);
      return known;
    },
  };
}

function isColumnInOrder(
  db: Connection,
  { table, fields }: SearchTarget,
  field: string,
  indexedSeq: number,
): boolean {
  const sources = fields.get(field)?.sources ?? [];
  const [source] = sources;
  if (indexedSeq === 0 || source?.kind !== 'column' || source.type !== 'string' || sources.length > 1) {
    return false;
  }
  if (!isTableThere(db, table)) return false;
  const spellings = spellingsOf(db, table, { field, column: source.column, indexedSeq });
  return spellings !== null && spellings.size <= 1 && !spellings.has('odd');
}

/** Rows written since the index was brought up to date are read; more than so many are not worth it. */
const mostNewRows = 10_000;

/** How times of a column are spelled. Null: too much is new to tell. */
function spellingsOf(
  db: Connection,
  table: string,
  at: { readonly field: string; readonly column: string; readonly indexedSeq: number },
): ReadonlySet<string> | null {
  const bySpelling = `SELECT spelling FROM ${spellingTable} WHERE table_name = ? AND field = ? LIMIT 2`;
  const spellings = new Set(cells<string>(db, bySpelling).all(table, at.field));
  const newer = `SELECT ${quoted(at.column)} FROM ${quoted(table)} WHERE _seq > ? LIMIT ?`;
  const added = cells<string | null>(db, newer).all(at.indexedSeq, mostNewRows + 1);
  if (added.length > mostNewRows) return null;
  for (const text of added) {
    const spelling = typeof text === 'string' ? timeSpelling(text) : null;
    if (spelling !== null) spellings.add(spelling);
  }
  return spellings;
}

/**
 * A list of a part as large as that of all rows takes longer to make than most searches take to find a page without it.
 */
const commonPart = 0.25;
const fewRows = 10_000;

function rowsMatching(db: Connection, table: string, match: string): Piece | null {
  const { words } = indexTables(table);
  const sql = `SELECT rowid FROM ${quoted(words)} WHERE ${quoted(words)} MATCH ?`;
  const last = cells<number | null>(db, `SELECT max(_row) FROM ${quoted(table)}`).get() ?? 0;
  const most = Math.max(fewRows, Math.floor(last * commonPart));
  const counted = cells<number>(db, `SELECT count(*) FROM (${sql} LIMIT ?)`);
  return (counted.get(match, most + 1) ?? 0) > most ? null : piece(sql, match);
}

const noRows: Piece = piece('SELECT 0 WHERE 0');

/** Words hold letters and digits only, so that nothing in them ends the quotation. */
function anyOf(prefix: string, words: readonly string[]): string {
  return words.map((word) => `"${prefix}${word}"`).join(' OR ');
}

/** More spellings to compare than that, or more that fit, take longer than the rows would. */
const maxCompared = 200_000;
const maxNear = 1_000;

/**
 * The indexed words that are `word` with the slips that are allowed; null where the list of spellings cannot tell, or
 * it would take too long.
 */
function findNearWords(db: Connection, table: string, word: string): readonly string[] | null {
  const slips = slipsAllowed(word);
  const telling = isSpelled(word, slips) ? tellingTrigrams(word, slips) : null;
  if (telling === null) return null;
  const { spellings, trigrams } = indexTables(table);
  const letters = Array.from(word).length;
  const candidates = cells<string>(
    db,
    `SELECT word FROM ${quoted(spellings)}
     WHERE id IN (SELECT rowid FROM ${quoted(trigrams)} WHERE ${quoted(trigrams)} MATCH ?)
       AND length(word) BETWEEN ? AND ?`,
  ).iterate(telling.map((trigram) => `"${trigram}"`).join(' OR '), letters - slips, letters + slips);
  const near: string[] = [];
  let compared = 0;
  for (const candidate of candidates) {
    compared += 1;
    if (isNear(word, candidate)) near.push(candidate);
    if (compared > maxCompared || near.length > maxNear) return null;
  }
  return near;
}
