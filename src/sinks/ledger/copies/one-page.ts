import { pageLength } from '../../copies/in-pages.ts';

/**
 * The first rows of a statement, until they are as long as a page: a thousand large records would not fit into memory
 * here.
 */
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
