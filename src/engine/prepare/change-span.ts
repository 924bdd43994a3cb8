import { isJsonObject, memberOf, type JsonValue } from '../../core/json.ts';
import type { ChangeSpan } from '../../pagination/pagination.ts';

const isoTime = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:?\d\d)?)?$/;

/**
 * Finds a record's change values at a dotted path, in each element where it leads into an array. Null: none can be read
 * as a time.
 */
export function compileChangeSpan({
  field: path,
  format,
}: ChangeField): (raw: JsonValue) => ChangeSpan | null {
  const names = path.split('.');
  const readMs = format === undefined ? timeMs : numberReader(format);

  return (raw) => {
    // Most paths name a field of the record that holds one time.
    const only = names.length === 1 && isJsonObject(raw) ? memberOf(raw, path) : undefined;
    if (typeof only === 'string' || typeof only === 'number') {
      const ms = readMs(only);
      return ms === null ? null : { lowestMs: ms, highestMs: ms };
    }
    let lowestMs = Number.POSITIVE_INFINITY;
    let highestMs = Number.NEGATIVE_INFINITY;

    function note(value: JsonValue | undefined): void {
      const ms = readMs(value ?? null);
      if (ms === null) return;
      lowestMs = Math.min(lowestMs, ms);
      highestMs = Math.max(highestMs, ms);
    }

    // As deep as the path is long, whatever the record nests: arrays straight inside arrays are not entered.
    function visit(value: JsonValue | undefined, depth: number): void {
      if (Array.isArray(value)) {
        for (const element of value as readonly JsonValue[]) {
          if (!Array.isArray(element)) visit(element, depth);
        }
      } else if (depth === names.length) {
        note(value);
      } else if (isJsonObject(value)) {
        visit(memberOf(value, names[depth] ?? ''), depth + 1);
      }
    }

    visit(raw, 0);
    return highestMs === Number.NEGATIVE_INFINITY ? null : { lowestMs, highestMs };
  };
}

/** Where records have their change value; `format` as of a definition's `incremental`. */
export interface ChangeField {
  readonly field: string;
  readonly format?: 'unix' | 'unixMs' | undefined;
}

/** The last millisecond of the year 9999: what is later is no time. */
const latestMs = 253_402_300_799_999;
const plainNumber = /^\d{1,15}(?:\.\d{1,9})?$/;

/** Numbers since 1970, in milliseconds; null for anything else. */
function numberReader(format: 'unix' | 'unixMs'): (value: JsonValue) => number | null {
  const factor = format === 'unix' ? 1_000 : 1;
  return (value) => {
    const number = typeof value === 'string' && plainNumber.test(value) ? Number(value) : value;
    if (typeof number !== 'number' || number < 0) return null;
    const ms = Math.floor(number * factor);
    return ms <= latestMs ? ms : null;
  };
}

/** An ISO 8601 time in milliseconds since the epoch, null for anything else. One without a zone is UTC. */
export function timeMs(value: JsonValue): number | null {
  if (typeof value !== 'string') return null;
  const parts = isoTime.exec(value);
  if (parts === null) return null;
  const [, day = '', time = '00:00', zone = 'Z'] = parts;
  // +0100 as +01:00.
  const offset = zone.length === 5 ? `${zone.slice(0, 3)}:${zone.slice(3)}` : zone;
  const ms = Date.parse(`${day}T${time}${offset}`);
  return Number.isNaN(ms) ? null : ms;
}
