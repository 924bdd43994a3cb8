import type { JsonValue } from '../core/json.ts';
import type { RecordMask } from '../core/record-mask.ts';
import { valueOf, type ScannedPage } from '../http/scan-json.ts';
import { memberWidth } from '../http/scan-records.ts';

/** The elements of a response's array: a record may be anything. Iterated, they are read. */
export interface PageRecords extends Iterable<JsonValue> {
  readonly length: number;
  /** The record; read from its bytes with each call where they are kept. */
  readonly value: (index: number) => JsonValue;
  /**
   * What a record is recognized by: of an object at least those of its members that have these names, as `value` gives
   * them; of anything else all of it.
   */
  readonly glance: (index: number, names: ReadonlySet<string>) => JsonValue;
  /** The page of which this record has the same index; null where its bytes are not kept. */
  readonly scanned: (index: number) => ScannedPage | null;
}

/** Records that were read already. */
export function readRecords(values: readonly JsonValue[]): PageRecords {
  const value = (index: number): JsonValue => values[index] ?? null;
  return {
    length: values.length,
    value,
    glance: value,
    scanned: () => null,
    [Symbol.iterator]: () => values.values(),
  };
}

/** Records that are still the bytes of their answer. */
export function unreadRecords(page: ScannedPage): PageRecords {
  const { bytes, count, starts, ends, firstMember, members, names } = page;
  const value = (index: number): JsonValue => valueOf(page, starts[index] ?? 0, ends[index] ?? 0);
  let asked: ReadonlySet<string> | null = null;
  let isAsked: readonly boolean[] = [];
  return {
    length: count,
    value,
    glance: (index, wanted) => {
      if (bytes[starts[index] ?? 0] !== openingBrace) return value(index);
      if (asked !== wanted) {
        asked = wanted;
        isAsked = names.map((name) => wanted.has(name));
      }
      const found: Record<string, JsonValue> = {};
      // Of a name that comes twice the last one counts.
      for (let at = firstMember[index] ?? 0; at < (firstMember[index + 1] ?? 0); at += 1) {
        const name = members[at * memberWidth] ?? 0;
        if (isAsked[name] !== true) continue;
        found[names[name] ?? ''] = valueOf(
          page,
          members[at * memberWidth + 1] ?? 0,
          members[at * memberWidth + 2] ?? 0,
        );
      }
      return found;
    },
    scanned: () => page,
    [Symbol.iterator]: () => each(count, value),
  };
}

const openingBrace = 0x7b;

function* each(length: number, value: (index: number) => JsonValue): Generator<JsonValue> {
  for (let index = 0; index < length; index += 1) yield value(index);
}

/** The same records, but for those that are known better by now. */
export function withRecords(records: PageRecords, better: ReadonlyMap<number, JsonValue>): PageRecords {
  if (better.size === 0) return records;
  const value = (index: number): JsonValue => better.get(index) ?? records.value(index);
  return {
    length: records.length,
    value,
    [Symbol.iterator]: () => each(records.length, value),
    glance: (index, names) => better.get(index) ?? records.glance(index, names),
    scanned: (index) => (better.has(index) ? null : records.scanned(index)),
  };
}

/** The same records as they may be stored and shown. Their bytes are still those that came. */
export function maskedRecords(records: PageRecords, mask: RecordMask): PageRecords {
  const value = (index: number): JsonValue => mask.record(records.value(index));
  return {
    length: records.length,
    value,
    glance: (index, names) => mask.record(records.glance(index, names)),
    scanned: records.scanned,
    [Symbol.iterator]: () => each(records.length, value),
  };
}
