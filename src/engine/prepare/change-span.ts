import { isJsonArray, isJsonObject, memberOf, type JsonValue } from '../../core/json.ts';
import { timeFormat } from '../../core/time-format.ts';
import type { ChangeSpan } from '../../pagination/pagination.ts';

/**
 * Finds a record's change values at a dotted path, in each element where it leads into an array. Null: none can be read
 * as a time.
 */
export function compileChangeSpan({ field: path, format }: ChangeField) {
  const names = path.split('.');
  const { readMs } = timeFormat(format ?? 'iso');

  return (raw: JsonValue): ChangeSpan | null => {
    // Most paths name a field of the record that holds one time.
    const only = names.length === 1 && isJsonObject(raw) ? memberOf(raw, path) : undefined;
    if (typeof only === 'string' || typeof only === 'number') {
      const ms = readMs(only);
      return ms === null ? null : { lowestMs: ms, highestMs: ms };
    }
    const times = valuesAt(raw, names, 0).flatMap((value) => readMs(value) ?? []);
    if (times.length === 0) return null;
    // Not as arguments: there may be more of them than the stack takes.
    const lowestMs = times.reduce((one, other) => Math.min(one, other));
    return { lowestMs, highestMs: times.reduce((one, other) => Math.max(one, other)) };
  };
}

/**
 * The values at a path, apart from nulls: as deep as the path is long, whatever the record nests. Arrays straight
 * inside arrays are not entered.
 */
function valuesAt(
  value: JsonValue | undefined,
  names: readonly string[],
  depth: number,
): readonly JsonValue[] {
  if (isJsonArray(value)) {
    return value.flatMap((one) => (Array.isArray(one) ? [] : valuesAt(one, names, depth)));
  }
  if (value === null || value === undefined) return [];
  if (depth === names.length) return [value];
  // In place of an object there is something, and it is no time.
  return isJsonObject(value) ? valuesAt(memberOf(value, names[depth] ?? ''), names, depth + 1) : [false];
}

/** End of a message that begins with the number of such records. */
export const undatedText =
  'with a change value that is no time: an incremental read never sees them. Times are written as 2026-03-01T09:00:00Z; for others the definition has a "format", such as unix or "%d.%m.%Y"';

/** Counts the records whose change field holds a value that is no time. */
export function countUndated(
  { field }: ChangeField,
  records: readonly JsonValue[],
  spans: readonly (ChangeSpan | null)[],
) {
  const names = field.split('.');
  // An empty list of events has no change value, right or wrong.
  return records.filter((raw, index) => spans[index] === null && valuesAt(raw, names, 0).length > 0).length;
}

/** Where records have their change value; `format` as of a definition's `incremental`. */
export interface ChangeField {
  readonly field: string;
  readonly format?: string | undefined;
}
