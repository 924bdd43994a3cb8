import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Entity } from '../../definitions/definition.ts';
import { canonicalJson } from './canonical-json.ts';

/**
 * The fields of a record that repeat another one, with their values: those that `filledFrom` names and that the record lacks, has as
 * null, or has with the same value as that other field. A field with a value of its own is not among them. Throws `TooDeepError`.
 */
export function copiedFields(
  record: JsonObject,
  filledFrom: Entity['filledFrom'],
): ReadonlyMap<string, JsonValue> {
  const copied = new Map<string, JsonValue>();
  for (const [field, source] of filledFrom) {
    const value = Object.hasOwn(record, source) ? (record[source] ?? null) : null;
    if (value === null) continue;
    const own = Object.hasOwn(record, field) ? (record[field] ?? null) : null;
    if (own === null || canonicalJson(own) === canonicalJson(value)) copied.set(field, value);
  }
  return copied;
}
