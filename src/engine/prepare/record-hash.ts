import { hash } from 'node:crypto';
import type { Column, ColumnValue } from '../../core/records.ts';

/** A column of which all or part is left out of the record's hash. */
export interface VolatileField {
  /** The column's place in the table. */
  readonly index: number;
  readonly text: string;
  /** What of it counts for the hash. */
  readonly stableText: string;
}

/** A column as the hash meets it. */
export interface HashedColumn {
  readonly index: number;
  readonly name: string;
}

/**
 * By name, so that neither the order of a definition nor a field that a record lacks is a change of the record. Columns that
 * were added for undeclared fields are not among them: their values are hashed with what lies in `_extra`.
 */
export function hashedColumns(columns: readonly Column[]): readonly HashedColumn[] {
  return columns
    .flatMap(({ name, isEvolved }, index) => (isEvolved === true ? [] : [{ index, name }]))
    .toSorted((left, right) => (left.name < right.name ? -1 : 1));
}

/** Everything of a record that counts as content, as one text: no two different records make the same one. */
export function hashedText(
  columns: readonly HashedColumn[],
  values: readonly ColumnValue[],
  volatile: readonly VolatileField[],
  extra: string | null,
): string {
  const counted = volatile.length === 0 ? values : withoutVolatile(values, volatile);
  const parts: (ColumnValue | { readonly bigint: string })[] = [];
  for (const { index, name } of columns) {
    const value = counted[index];
    if (value === null || value === undefined) continue;
    // A bigint as an object, which no other value is: 1n and '1' are different contents.
    parts.push(name, typeof value === 'bigint' ? { bigint: String(value) } : value);
  }
  const text = JSON.stringify(parts);
  return extra === null ? text : text + extra;
}

function withoutVolatile(
  values: readonly ColumnValue[],
  volatile: readonly VolatileField[],
): readonly ColumnValue[] {
  const copy = [...values];
  // A field that is volatile as a whole counts as absent: some answers carry it (an id of the answer) and others do not.
  for (const { index, stableText } of volatile) {
    if (index < copy.length) copy[index] = stableText === '' ? null : stableText;
  }
  return copy;
}

/** The volatile columns alone, as one text. */
export function volatileText(volatile: readonly VolatileField[]): string {
  return volatile
    .toSorted((left, right) => left.index - right.index)
    .map(({ index, text }) => `${index}:${text.length}:${text}`)
    .join('');
}

/** 32 hex digits. */
export function shortHash(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 32);
}
