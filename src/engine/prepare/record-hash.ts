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

/**
 * Everything of a record that counts as content, as one text. Lengths stand before texts, so that no two different
 * records make the same one.
 */
export function hashedText(
  values: readonly ColumnValue[],
  volatile: readonly VolatileField[],
  extra: string | null,
): string {
  let text = '';
  for (let index = 0; index < values.length; index += 1) {
    let value = values[index];
    for (const field of volatile) if (field.index === index) value = field.stableText;
    if (value === null || value === undefined) text += 'n;';
    else if (typeof value === 'string') text += `s${value.length}:${value}`;
    else text += `i${value};`;
  }
  return extra === null ? text : `${text}x${extra}`;
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
