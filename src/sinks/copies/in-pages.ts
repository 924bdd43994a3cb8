const firstRows = 100;
const mostRows = 1_000;
/** Characters of a page, as far as its rows are of one length: records may be large. */
const wantedLength = 4_000_000;

/** Reads rows page by page, each behind the last row of the one before; as many at a time as their length allows. */
export async function* inPages<Row extends object>(
  read: (last: Row | null, limit: number) => Promise<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
  let last: Row | null = null;
  for (let limit = firstRows; ;) {
    const rows: readonly Row[] = await read(last, limit);
    if (rows.length > 0) yield rows;
    if (rows.length < limit) return;
    last = rows.at(-1) ?? null;
    limit = Math.max(1, Math.min(mostRows, Math.floor((rows.length * wantedLength) / lengthOf(rows))));
  }
}

function lengthOf(rows: readonly object[]): number {
  let length = 1;
  for (const row of rows) length += lengthOfValue(Object.values(row));
  return length;
}

function lengthOfValue(values: readonly unknown[]): number {
  let length = 0;
  for (const value of values) {
    if (typeof value === 'string' || Buffer.isBuffer(value)) length += value.length;
    else length += Array.isArray(value) ? lengthOfValue(value) : 8;
  }
  return length;
}
