const pattern =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(Z|[+-]\d{2}:?\d{2})?)?$/;

/** How a time is written, for messages. */
export const instantExamples = '2025-01-31, 2025-01-31T18:00 or 2025-01-31T18:00:00+01:00';

/**
 * Milliseconds since the epoch of an ISO 8601 date or date-time; UTC unless it carries an offset. Null for any other text and
 * for what the calendar does not have (30 February), which `Date.parse` would take for a day in March.
 */
export function parseInstant(text: string): number | null {
  const match = pattern.exec(text);
  if (match === null) return null;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((part) => Number(part ?? 0));
  const isDay = day >= 1 && day <= new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
  if (year < 1 || month < 1 || month > 12 || !isDay || hour > 23 || minute > 59 || second > 59) return null;
  const offset = offsetMs(match[8] ?? 'Z');
  if (offset === null) return null;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const fraction = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3));
  return date.setUTCHours(hour, minute, second, fraction) - offset;
}

function offsetMs(zone: string): number | null {
  if (zone === 'Z') return 0;
  const hours = Number(zone.slice(1, 3));
  const minutes = Number(zone.slice(-2));
  if (hours > 23 || minutes > 59) return null;
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000;
}
