import { instant, type Instant } from '../core/clock.ts';

// C0 and C1 controls, line and paragraph separators, bidirectional marks and overrides, zero-width characters, the byte
// order mark, and the tags and selectors of plane 14, in which a text that is not seen can be written.
const unprintable = /[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e0fff}]/gu;

/**
 * Text from outside as one inert line for a person: characters that could move the cursor, recolour the terminal, fake
 * a line or reverse the reading order become `�`. Names, messages and values all pass through here before they are
 * shown.
 */
export function printable(text: string): string {
  return text.toWellFormed().replace(unprintable, '\ufffd');
}

/** Line ends and tabs stay; other controls, and characters that change the reading order, become JSON's escapes. */
export function escaped(text: string): string {
  return text.replace(unprintable, (character) =>
    /[\t\n\r]/.test(character)
      ? character
      : character.replaceAll(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  );
}

/** `printable`, cut to `width` characters with an ellipsis. */
export function printableWithin(text: string, width: number): string {
  const characters = Array.from(printable(text));
  if (characters.length <= width) return characters.join('');
  return width <= 0 ? '' : `${characters.slice(0, width - 1).join('')}…`;
}

/** 1234567 as `1,234,567`, in every locale: the text is compared and searched. */
export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `1 call`, `1,200 calls`. */
export function counted(value: number, one: string, more = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : more}`;
}

/** `850 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d`: rounded to at most two units. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return twoUnits(seconds, 60, 'min', 's');
  const minutes = Math.round(ms / minuteMs);
  if (minutes < 48 * 60) return twoUnits(minutes, 60, 'h', 'min');
  return twoUnits(Math.round(ms / hourMs), 24, 'd', 'h');
}

function twoUnits(all: number, perLarge: number, large: string, small: string): string {
  const rest = all % perLarge;
  return `${Math.floor(all / perLarge)} ${large}${rest === 0 ? '' : ` ${rest} ${small}`}`;
}

/** `850 B`, `12 KB`, `1.3 GB`. */
export function sizeText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${Math.round(bytes / 1000)} KB`;
  if (bytes < 1_000_000_000) return `${(bytes / 1_000_000).toFixed(1)} MB`;
  return `${(bytes / 1_000_000_000).toFixed(1)} GB`;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** Formats a duration roughly: `40s`, `12m`, `3h 5m`, `2d 4h`. */
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

/** `2026-11-21T15:30:00Z (in 12m)`, or `(due 3m ago)` while no worker has taken it. */
export function comingUp(ms: number, nowMs: number): string {
  const when = ms > nowMs ? `in ${roughly(ms - nowMs)}` : `due ${roughly(nowMs - ms)} ago`;
  return `${toTheSecond(ms)} (${when})`;
}

function pair(large: number, unit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${unit}` : `${large}${unit} ${small}${smallUnit}`;
}
