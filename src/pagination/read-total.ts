import { isJsonObject, memberOf, type JsonValue } from '../core/json.ts';

/** How many records a listing has, as the first of the keys says that is there; null where none does. */
export function readTotal(keys: readonly string[], metadata: JsonValue): number | null {
  if (!isJsonObject(metadata)) return null;
  const value = keys.map((key) => memberOf(metadata, key)).find((one) => one !== undefined);
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}
