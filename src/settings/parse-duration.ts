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
