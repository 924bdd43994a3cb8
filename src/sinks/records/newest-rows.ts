import type { WrittenRow } from '../ledger/record-table.ts';

export interface NewestRow extends WrittenRow {
  readonly seq: number;
}

/** Each row once, as it was written last; a new row stays one. */
export function newestRows(rows: readonly WrittenRow[], firstSeq: number): readonly NewestRow[] {
  const newest = new Map<number, NewestRow>();
  for (const [index, { row, record, owner }] of rows.entries()) {
    const ownerOf = owner === undefined ? newest.get(row)?.owner : owner;
    newest.set(row, {
      row,
      record,
      seq: firstSeq + index,
      ...(ownerOf === undefined ? {} : { owner: ownerOf }),
    });
  }
  return [...newest.values()];
}
