import { instant, type Instant } from '../../core/clock.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** How long, as far as a person cares: `40s`, `12m`, `3h 5m`, `2d 4h`. */
export function roughly(ms: number): string {
  if (ms < minuteMs) return `${Math.max(0, Math.round(ms / 1000))}s`;
  if (ms < hourMs) return `${Math.floor(ms / minuteMs)}m`;
  return ms < dayMs
    ? pair(Math.floor(ms / hourMs), 'h', Math.floor((ms % hourMs) / minuteMs), 'm')
    : pair(Math.floor(ms / dayMs), 'd', Math.floor((ms % dayMs) / hourMs), 'h');
}

/** `2026-11-21T15:30:00Z`: without parts of a second, which no schedule has. */
export function toTheSecond(ms: number): Instant {
  return instant(ms).replace(/\.\d+Z$/, 'Z');
}

/** `2026-11-21T15:30Z`: for tables that a narrow terminal should hold. */
export function toTheMinute(at: Instant): string {
  return at.replace(/^(\d{4}-\d\d-\d\dT\d\d:\d\d):.*$/, '$1Z');
}

/** `2026-11-21T15:30:00Z (12m ago)`. */
export function longAgo(at: Instant, nowMs: number): string {
  const ms = Date.parse(at);
  return `${toTheSecond(ms)} (${roughly(nowMs - ms)} ago)`;
}

/** `2026-11-21T15:30:00Z (in 12m)`, or `(due 3m ago)` for what nobody has taken. */
export function comingUp(ms: number, nowMs: number): string {
  const when = ms > nowMs ? `in ${roughly(ms - nowMs)}` : `due ${roughly(nowMs - ms)} ago`;
  return `${toTheSecond(ms)} (${when})`;
}

/** `15:30:05`, UTC: the beginning of a line that tells what happens now. */
export function timeOfDay(ms: number): string {
  return instant(ms).slice(11, 19);
}

function pair(large: number, unit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${unit}` : `${large}${unit} ${small}${smallUnit}`;
}
