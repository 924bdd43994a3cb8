import { firstRows, rowsOf, wantedLength } from '../../sql/batch-size.ts';

/** Characters or bytes of a page; its last row may exceed it. Records may be large. */
const pageLength = wantedLength;

/**
 * Reads rows page by page, each after the last row of the page before. `read` gives at most `limit` rows, and fewer
 * where they are longer than `pageLength`; none: it was the last page.
 */
export async function* inPages<Row extends object>(
  read: (last: Row | null, limit: number) => Promise<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
  let last: Row | null = null;
  for (let limit = firstRows; ;) {
    const rows: readonly Row[] = await read(last, limit);
    if (rows.length === 0) return;
    yield rows;
    last = rows.at(-1) ?? null;
    // A server reads as many rows as the limit allows: without this, a thousand large ones for each page of two.
    limit = rowsOf(rows.length, lengthOfValue(rows.map((row) => Object.values(row))));
  }
}

function lengthOfValue(values: readonly unknown[]): number {
  let length = 0;
  for (const value of values) {
    if (typeof value === 'string' || Buffer.isBuffer(value)) length += value.length;
    else length += Array.isArray(value) ? lengthOfValue(value) : 8;
  }
  return length;
}

/** The first rows of a statement, until they fill a page: a thousand large records would not fit into memory here. */
export function onePageOf(
  sql: string,
  {
    names,
    long,
    order,
  }: { readonly names: readonly string[]; readonly long: readonly string[]; readonly order: string },
): string {
  const length = long.map((value) => `coalesce(octet_length(${value}), 0)`).join(' + ');
  return `SELECT ${names.join(', ')} FROM (
      SELECT *, sum(_length) OVER (ORDER BY ${order} ROWS UNBOUNDED PRECEDING) - _length AS _before
      FROM (SELECT *, ${length} AS _length FROM (${sql}) AS found) AS measured
    ) AS page WHERE _before < ${pageLength} ORDER BY ${order}`;
}
