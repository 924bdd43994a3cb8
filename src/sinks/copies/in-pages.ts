const firstRows = 100;
const mostRows = 1_000;

/** Characters or bytes of a page; its last row may exceed it. Records may be large. */
export const pageLength = 4_000_000;

/**
 * Reads rows page by page, each behind the last row of the one before. `read` gives at most `limit` rows, and fewer
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
    // A server looks at as many rows as it is asked for: not at a thousand large ones for each page of two.
    limit = Math.max(1, Math.min(mostRows, Math.floor((rows.length * pageLength) / lengthOf(rows))));
  }
}

/** Takes rows until they are as long as a page, and leaves the others unread. */
export function onePage<Row extends object>(rows: Iterable<Row>): readonly Row[] {
  const taken: Row[] = [];
  let length = 0;
  for (const row of rows) {
    taken.push(row);
    length += lengthOf([row]);
    if (length >= pageLength) break;
  }
  return taken;
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
