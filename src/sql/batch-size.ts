import type { Cells } from './database.ts';

export const firstRows = 100;
const mostRows = 1_000;
/** Characters of a batch if its rows have one length: rows may be large. */
export const wantedLength = 4_000_000;

/** Number of rows to read next, after a batch that was not empty. */
export function nextRows(batch: readonly Cells[]): number {
  return rowsOf(
    batch.length,
    batch.reduce((length, row) => length + lengthOf(row), 0),
  );
}

/** Number of rows with about `wantedLength` characters in total, where `count` rows had `length` characters. */
export function rowsOf(count: number, length: number): number {
  return Math.max(1, Math.min(mostRows, Math.floor((count * wantedLength) / (length + 1))));
}

export function lengthOf(row: Cells): number {
  let length = 0;
  for (const cell of row) length += typeof cell === 'string' ? cell.length : 8;
  return length;
}
