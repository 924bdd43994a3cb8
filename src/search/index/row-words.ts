import type Database from 'better-sqlite3';
import type { ColumnValue } from '../../core/records.ts';
import { quoted } from '../../sinks/sqlite/quoted.ts';
import { fieldReader, sourceSql } from '../field-value.ts';
import { timeSpelling } from '../instants.ts';
import { textsIn, wordsOf } from '../words.ts';
import type { IndexedField } from './indexed-fields.ts';
import { maxIndexedWord } from './spelling.ts';

/** What the index says of a row. */
export interface RowWords {
  /** Each word behind its field's prefix. */
  readonly entries: ReadonlySet<string>;
  readonly words: ReadonlySet<string>;
  /** How its times are spelled, with the name of the field: of texts, not of what is inside of objects. */
  readonly spellings: readonly (readonly [field: string, spelling: string])[];
}

/** Reads the words of rows, by row number: those of the values that a search sees. One row is held at a time. */
export function prepareRowWords(
  db: Database.Database,
  table: string,
  fields: readonly IndexedField[],
): (row: number) => RowWords {
  const sources = fields.flatMap(({ field }) => field.sources.map(sourceSql));
  const stored = db
    .prepare<[number], readonly ColumnValue[]>(
      `SELECT ${['r._row', ...sources].join(', ')} FROM ${quoted(table)} AS r WHERE r._row = ?`,
    )
    .raw()
    .safeIntegers();
  const readers = fields.map(({ field, prefix }, index) => ({
    name: field.name,
    prefix,
    read: fieldReader(field),
    start: 1 + fields.slice(0, index).reduce((sum, before) => sum + before.field.sources.length, 0),
    count: field.sources.length,
  }));
  return (row) => {
    const values = stored.get(row) ?? [];
    const entries = new Set<string>();
    const words = new Set<string>();
    const spellings: (readonly [string, string])[] = [];
    for (const { name, prefix, read, start, count } of readers) {
      const value = read(values.slice(start, start + count));
      const spelling = typeof value === 'string' ? timeSpelling(value) : null;
      if (spelling !== null) spellings.push([name, spelling]);
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
