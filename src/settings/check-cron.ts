interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly words: readonly string[];
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const weekdays = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const longestMonth = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const second: Field = { name: 'second', min: 0, max: 59, words: [] };
const fields: readonly Field[] = [
  { name: 'minute', min: 0, max: 59, words: [] },
  { name: 'hour', min: 0, max: 23, words: [] },
  { name: 'day of month', min: 1, max: 31, words: [] },
  { name: 'month', min: 1, max: 12, words: months },
  { name: 'day of week', min: 0, max: 7, words: weekdays },
];

/**
 * What is wrong with a cron pattern, or null. Five fields, or six with seconds first; numbers, names of months and
 * days, `*`, ranges, steps and lists. A date that never comes (31 February) is wrong too.
 */
export function checkCron(pattern: string): string | null {
  const parts = pattern.trim().split(/\s+/);
  if (parts.length !== 5 && parts.length !== 6) {
    return `expected 5 fields (minute hour day month weekday) or 6 with seconds first, got ${parts.length}`;
  }
  const wanted = parts.length === 6 ? [second, ...fields] : fields;
  const valuesByName = new Map<string, ReadonlySet<number>>();
  for (const [index, field] of wanted.entries()) {
    const values = expandField(parts[index] ?? '', field);
    if (typeof values === 'string') return values;
    valuesByName.set(field.name, values);
  }
  return parts.at(-1) === '*' ? checkDate(valuesByName) : null;
}

/** What is wrong with a time zone's name, or null. */
export function checkTimezone(timezone: string): string | null {
  try {
    // Offsets such as +02:00 are refused: some Node versions take them, the scheduler does not.
    if (/^[A-Za-z]/.test(timezone)) {
      new Intl.DateTimeFormat('en', { timeZone: timezone }).format(0);
      return null;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return 'expected the name of a time zone such as UTC or Europe/Berlin';
}

function expandField(text: string, field: Field): ReadonlySet<number> | string {
  const values = new Set<number>();
  for (const part of text.split(',')) {
    const range = parsePart(part, field);
    if (range === null) {
      const names = field.words.length === 0 ? '' : ` or ${field.words[0]}-${field.words.at(-1)}`;
      return `${field.name}: expected numbers ${field.min}-${field.max}${names}, *, ranges and steps, got "${text}"`;
    }
    for (let value = range.first; value <= range.last; value += range.step) {
      values.add(value);
    }
  }
  return values;
}

function parsePart(
  part: string,
  field: Field,
): { readonly first: number; readonly last: number; readonly step: number } | null {
  const match = /^(?:(\*)|([0-9a-z]+)(?:-([0-9a-z]+))?)(?:\/([0-9]{1,3}))?$/i.exec(part);
  if (match === null) return null;
  const [, star, from, to, by] = match;
  const step = by === undefined ? 1 : Number(by);
  const first = star === undefined ? parseValue(from ?? '', field) : field.min;
  // `5/10` means from 5 on, in steps of 10.
  const open = star !== undefined || (to === undefined && by !== undefined);
  const last = open ? field.max : parseValue(to ?? from ?? '', field);
  if (first === null || last === null || first > last || step < 1) return null;
  return { first, last, step };
}

function parseValue(text: string, field: Field): number | null {
  const word = field.words.indexOf(text.toLowerCase());
  if (word !== -1) return word + field.min;
  if (!/^[0-9]{1,2}$/.test(text)) return null;
  const value = Number(text);
  return value >= field.min && value <= field.max ? value : null;
}

function checkDate(valuesByName: ReadonlyMap<string, ReadonlySet<number>>): string | null {
  const earliest = Math.min(...(valuesByName.get('day of month') ?? []));
  const longest = Math.max(
    ...[...(valuesByName.get('month') ?? [])].map((month) => longestMonth[month - 1] ?? 0),
  );
  return earliest > longest
    ? `day of month: no chosen month has a day ${earliest}, it would never run`
    : null;
}
