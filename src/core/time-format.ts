import { readMicros, type TimeKind, timeMs } from './clock.ts';
import { type JsonValue, writeNumber } from './json.ts';

/**
 * How a service writes times, all in UTC: `iso`, `unix` and `unixMs` (seconds and milliseconds since 1970), or a
 * pattern such as `%Y-%m-%d`.
 */
export type TimeFormat = ReturnType<typeof timeFormat>;

/** Reads and writes times by a format that `timeFormatFault` has accepted. */
export function timeFormat(format: string) {
  const { write, readMs } = codecOf(format);
  return {
    /** Milliseconds since 1970; null where the value is no time of this format. */
    readMs,
    /** Rounds down to what the format can say. */
    write,
    /** The time that a reader of `write(ms)` sees. */
    floor: (ms: number): number => readMs(write(ms)) ?? ms,
    /** Every time is a number, so that a parameter or field may be one. */
    isNumber: numbers.test(format),
  };
}

interface Codec {
  readonly readMs: (value: JsonValue) => number | null;
  readonly write: (ms: number) => string;
}

function codecOf(format: string): Codec {
  // The form that services are known to read: `2015-10-21T15:41:36+00:00`.
  if (format === 'iso') {
    return { readMs: timeMs, write: (ms) => `${new Date(ms).toISOString().slice(0, 19)}+00:00` };
  }
  if (format !== 'unix' && format !== 'unixMs') return patternCodec(format);
  const unitMs = format === 'unix' ? 1_000 : 1;
  return { readMs: (value) => readNumber(value, format), write: (ms) => String(Math.floor(ms / unitMs)) };
}

const numbers = /^(unix|unixMs|(%[YmdHMSs])+)$/;

function readNumber(value: JsonValue, kind: TimeKind): number | null {
  const text = typeof value === 'number' ? writeNumber(value) : value;
  const time = typeof text === 'string' ? readMicros(text, kind) : null;
  return time === null || time.micros < 0n ? null : Number(time.micros / 1_000n);
}

/** Units of a pattern, each a part of the one before; `%f` and `%z` follow a second, `%s` stands for all of them. */
const units = ['Y', 'm', 'd', 'H', 'M', 'S'];
const formByDirective: Readonly<Record<string, string>> = {
  ...Object.fromEntries(units.map((unit) => [unit, '\\d{2}'])),
  Y: '\\d{4}',
  f: '\\d{1,9}',
  z: 'Z|[+-]\\d{2}:?\\d{2}',
  s: '\\d{1,12}',
};
const directive = /%(.?)/gs;

/** Finds the fault of a format; null: there is none. */
export function timeFormatFault(format: string): string | null {
  if (['iso', 'unix', 'unixMs'].includes(format)) return null;
  const used = [...format.matchAll(directive)].map(([, name = '']) => name);
  const known = Object.keys(formByDirective);
  if (used.length === 0 || used.some((name) => !known.includes(name))) {
    const all = known.map((name) => `%${name}`).join(' ');
    return `expected iso, unix, unixMs or a pattern of ${all}, such as "%Y-%m-%d"`;
  }
  const twice = used.find((name, index) => used.indexOf(name) !== index);
  if (twice !== undefined) return `%${twice} is named twice`;
  if (used.includes('s')) {
    const other = used.find((name) => units.includes(name) || name === 'z');
    return other === undefined ? null : `expected %s or %${other}, not both`;
  }
  const smallest = Math.max(...['f', 'z', ...units].map((name) => (used.includes(name) ? rankOf(name) : 0)));
  const lacking = units.slice(0, smallest + 1).find((unit) => !used.includes(unit));
  return lacking === undefined ? null : `expected %${lacking} beside the others: they are parts of it`;
}

function rankOf(name: string): number {
  if (name === 'z') return units.indexOf('M');
  return name === 'f' ? units.indexOf('S') : units.indexOf(name);
}

function patternCodec(pattern: string): Codec {
  const form = pattern
    .split(/(%.)/s)
    .map((part) => {
      const name = part.startsWith('%') ? part.slice(1) : '';
      return name === ''
        ? part.replaceAll(/\W/g, String.raw`\$&`)
        : `(?<${name}>${formByDirective[name] ?? ''})`;
    })
    .join('');
  const whole = new RegExp(`^${form}$`);

  return {
    readMs: (value) => {
      const found = whole.exec(
        typeof value === 'number' ? String(value) : typeof value === 'string' ? value : '',
      );
      if (found === null) return null;
      const { Y, m = '01', d = '01', H = '00', M = '00', S = '00', f = '0', z = 'Z', s } = found.groups ?? {};
      if (s !== undefined) return readNumber(`${s}.${f}`, 'unix');
      return timeMs(`${Y}-${m}-${d}T${H}:${M}:${S}.${f}${z}`);
    },
    write: (ms) => {
      const [Y, m, d, H, M, S, f] = new Date(ms).toISOString().split(/[-T:.Z]/);
      const parts: Readonly<Record<string, string | undefined>> = {
        Y,
        m,
        d,
        H,
        M,
        S,
        f: `${f}000`,
        z: '+0000',
      };
      return pattern.replaceAll(directive, (_, name: string) =>
        name === 's' ? String(Math.floor(ms / 1_000)) : (parts[name] ?? ''),
      );
    },
  };
}
