import type { WindowLength } from '../engine/plan-backfill.ts';
import { formatDuration, parseDuration } from '../settings/parse-unit.ts';

/** How a length is written, for messages. */
export const windowLengthExamples = '1mo, 3mo, 7d or 12h';

const months = /^([1-9]\d{0,2})mo$/;

/** `1mo` are calendar months; anything else is a duration. Null for a text that is neither, and for less than a second. */
export function parseWindowLength(text: string): WindowLength | null {
  const match = months.exec(text);
  if (match !== null) return { kind: 'months', months: Number(match[1]) };
  const ms = parseDuration(text);
  return ms === null ? null : { kind: 'duration', ms };
}

/** The shortest way to write it; two texts for one length become one. */
export function formatWindowLength(length: WindowLength): string {
  return length.kind === 'months' ? `${length.months}mo` : formatDuration(length.ms);
}
