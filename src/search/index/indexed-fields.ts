import { createHash } from 'node:crypto';
import type { FieldType } from '../../core/records.ts';
import { wordsOf } from '../words.ts';
import type { SearchField, SearchTarget } from '../search-target.ts';

export interface IndexedField {
  readonly field: SearchField;
  /** Two signs before each of its words: one list of words serves all fields of a row, and a field's words lie together. */
  readonly prefix: string;
}

/** Raised when what is in the tables, or how, changes. */
const formatVersion = 2;

/** Two signs of `[0-9a-z]`. Later fields are not indexed: every row is looked at for them. */
const maxFields = 36 * 36;

/**
 * By name, the fields whose words are in the index: those that can hold text. One that takes a value from the parent record is not
 * there, because it changes without a change of the row.
 */
export function indexedFields(target: SearchTarget): ReadonlyMap<string, IndexedField> {
  const indexed = [...target.fields.values()].filter(
    ({ type, sources }) =>
      canHoldText(type) && sources.length > 0 && sources.every(({ kind }) => kind !== 'parent'),
  );
  return new Map(
    indexed
      .slice(0, maxFields)
      .map((field, number) => [field.name, { field, prefix: number.toString(36).padStart(2, '0') }]),
  );
}

/** Equal where an index of the one can be read, and gone on with, for the other. A new edition of Unicode folds other words. */
export function indexFormat(fields: ReadonlyMap<string, IndexedField>): string {
  const sample = wordsOf('Straße ΑΣ İI Ǆ ﬁ ½ é e\u0301 中文 𝒳 a_b-c1');
  return createHash('sha256')
    .update(JSON.stringify([formatVersion, process.versions['unicode'], sample, [...fields]]))
    .digest('hex');
}

function canHoldText(type: FieldType): boolean {
  return type === 'string' || type === 'object' || type === 'array' || type === 'any';
}
