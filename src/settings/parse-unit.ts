const pattern = /^(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,7})m)?(?:(\d{1,9})s)?$/;
const unitMs = [86_400_000, 3_600_000, 60_000, 1000];

/** How a duration is written, for messages. */
export const durationExamples = '30s, 30m, 1h30m or 7d';

/** Milliseconds of `30s`, `30m`, `1h30m`, `7d`; null when the text is no duration or is zero. */
export function parseDuration(text: string): number | null {
  const match = pattern.exec(text);
  if (match === null) return null;
  const ms = unitMs.reduce((sum, unit, index) => sum + Number(match[index + 1] ?? 0) * unit, 0);
  return ms > 0 ? ms : null;
}

/** The shortest way to write so many milliseconds: `5400000` is `1h30m`. Parts of a second stay as `ms`. */
export function formatDuration(ms: number): string {
  let rest = ms;
  let text = '';
  for (const [index, name] of ['d', 'h', 'm', 's'].entries()) {
    const unit = unitMs[index] ?? 1;
    const count = Math.floor(rest / unit);
    rest -= count * unit;
    text += count === 0 ? '' : `${count}${name}`;
  }
  return rest === 0 && text !== '' ? text : `${ms}ms`;
}

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
