import type { StoredRecord } from '../sinks/record-reader.ts';

/**
 * Messages for another process, each of about `maxChars` characters: so that neither process holds more than a few
 * records of the largest size.
 */
export function* sliceRecords(
  records: readonly StoredRecord[],
  maxChars: number,
): Generator<readonly StoredRecord[]> {
  let start = 0;
  let chars = 0;
  for (const [at, { values, extra }] of records.entries()) {
    chars += extra?.length ?? 0;
    for (const value of values) if (typeof value === 'string') chars += value.length;
    if (chars < maxChars) continue;
    yield records.slice(start, at + 1);
    start = at + 1;
    chars = 0;
  }
  if (start < records.length) yield records.slice(start);
}
