import { hash } from 'node:crypto';
import type { ColumnValue } from '../../core/records.ts';

/** A column of which all or part is left out of the record's hash. */
export interface VolatileField {
  /** The column's place in the table. */
  readonly index: number;
  readonly text: string;
  /** What of it counts for the hash. */
  readonly stableText: string;
}

/** Everything of a record that counts as content, as one text: no two different records make the same one. */
export function hashedText(
  values: readonly ColumnValue[],
  volatile: readonly VolatileField[],
  extra: string | null,
): string {
  let counted: readonly ColumnValue[] = values;
  if (volatile.length > 0) {
    const copy = [...values];
    for (const { index, stableText } of volatile) if (index < copy.length) copy[index] = stableText;
    counted = copy;
  }
  const text = hasBigint(counted) ? JSON.stringify(counted.map(tellBigint)) : JSON.stringify(counted);
  return extra === null ? text : text + extra;
}

function hasBigint(values: readonly ColumnValue[]): boolean {
  for (const value of values) if (typeof value === 'bigint') return true;
  return false;
}

/** As an object, which no other value is: 1n and '1' are different contents. */
function tellBigint(value: ColumnValue): ColumnValue | { readonly bigint: string } {
  return typeof value === 'bigint' ? { bigint: String(value) } : value;
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
