import { createHash } from 'node:crypto';
import type { ColumnValue } from '../../core/records.ts';
import { quoted } from '../../sql/quoted.ts';
import { rowReader, rowByNumber, sourceSql } from '../field-value.ts';
import { timeSpelling } from '../instants.ts';
import { isJsonType, type SearchField, type SearchTarget } from '../search-target.ts';
import { maxIndexedWord, textsIn, wordsOf } from '../words.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';

export interface IndexedField {
  readonly field: SearchField;
  /**
   * Two signs before each of its words: one list of words serves all fields of a row, and a field's words lie together.
   */
  readonly prefix: string;
}

/** Raised when what is in the tables, or how, changes. */
const formatVersion = 2;

/** Two signs of `[0-9a-z]`. Later fields are not indexed: every row is read for them. */
const maxFields = 36 * 36;

/**
 * By name, the fields whose words are in the index: those that can hold text. One that takes a value from the parent
 * record is not there, because it changes without a change of the row.
 */
export function indexedFields(target: SearchTarget): ReadonlyMap<string, IndexedField> {
  const indexed = [...target.fields.values()].filter(
    ({ type, sources }) =>
      (type === 'string' || isJsonType(type)) &&
      sources.length > 0 &&
      sources.every(({ kind }) => kind !== 'parent'),
  );
  return new Map(
    indexed
      .slice(0, maxFields)
      .map((field, number) => [field.name, { field, prefix: number.toString(36).padStart(2, '0') }]),
  );
}

/**
 * Equal where an index of the one can be read, and continued, for the other. A new edition of Unicode folds other
 * words.
 */
export function indexFormat(fields: ReadonlyMap<string, IndexedField>): string {
  const sample = wordsOf('Straße ΑΣ İI Ǆ ﬁ ½ é e\u0301 中文 𝒳 a_b-c1');
  return createHash('sha256')
    .update(JSON.stringify([formatVersion, process.versions['unicode'], sample, [...fields]]))
    .digest('hex');
}

/** What the index says of a row. */
export type RowWords = ReturnType<ReturnType<typeof prepareRowWords>>;

/** Reads the words of rows, by row number: those of the values that a search sees. One row is held at a time. */
export function prepareRowWords(db: Connection, table: string, fields: readonly IndexedField[]) {
  const { columns, read } = rowReader(fields.map(({ field }) => field));
  const stored = rowByNumber<ColumnValue>(db, `${quoted(table)} AS r`, columns);
  return (row: number) => {
    const values = read(stored.get(row)?.slice(1) ?? []);
    /** Each word behind its field's prefix. */
    const entries = new Set<string>();
    const words = new Set<string>();
    /** How its times are spelled, with the name of the field: of texts, not of what is inside of objects. */
    const spellings: (readonly [field: string, spelling: string])[] = [];
    for (const [index, { field, prefix }] of fields.entries()) {
      const value = values[index] ?? null;
      const spelling = typeof value === 'string' ? timeSpelling(value) : null;
      if (spelling !== null) spellings.push([field.name, spelling]);
      for (const text of textsIn(value)) {
        for (const word of wordsOf(text)) {
          if (word.length > maxIndexedWord) continue;
          entries.add(prefix + word);
          words.add(word);
        }
      }
    }
    return { entries, words, spellings };
  };
}

/** SQL for how many bytes a row brings at most, without reading them. */
export function textBytesSql(fields: readonly IndexedField[]): string {
  const columns = new Set(fields.flatMap(({ field }) => field.sources.map(sourceSql)));
  return ['0', ...[...columns].map((column) => `coalesce(octet_length(${column}), 0)`)].join(' + ');
}
