const bytesByUnit: ReadonlyMap<string, number> = new Map([
  ['B', 1],
  ['KB', 1_000],
  ['MB', 1_000_000],
  ['GB', 1_000_000_000],
  ['TB', 1_000_000_000_000],
  ['KiB', 1_024],
  ['MiB', 1_024 ** 2],
  ['GiB', 1_024 ** 3],
  ['TiB', 1_024 ** 4],
]);

/** The bytes that a size such as `500MB`, `1.5 GB` or `64MiB` names; null for any other text, and for none at all. */
export function parseSize(text: string): number | null {
  const [, digits = '', unit = ''] = /^(\d{1,12}(?:\.\d{1,6})?) ?([KMGT]i?B|B)$/.exec(text) ?? [];
  const bytes = Math.round(Number(digits) * (bytesByUnit.get(unit) ?? Number.NaN));
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : null;
}
