import type { Cells } from './database.ts';

export const firstRows = 100;
const mostRows = 1_000;
/** Characters of a batch, as far as its rows are of one length: rows may be large. */
export const wantedLength = 4_000_000;

/** How many rows to read next, after a batch that was not empty. */
export function nextRows(batch: readonly Cells[]): number {
  let length = 1;
  for (const row of batch) length += lengthOf(row);
  return Math.max(1, Math.min(mostRows, Math.floor((batch.length * wantedLength) / length)));
}

export function lengthOf(row: Cells): number {
  let length = 0;
  for (const cell of row) length += typeof cell === 'string' ? cell.length : 8;
  return length;
}
