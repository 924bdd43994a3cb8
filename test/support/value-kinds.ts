import { isJsonObject, type JsonValue } from '../../src/core/json.ts';

/** Objects whose names belong to the account's owner (merge fields, interests), not to the service. */
const openMaps = new Set(['interests', 'merge_fields', 'properties']);

/** Path -> kinds of value met there. Array elements are `[]`, names of open maps `*`. */
export type Kinds = Map<string, Set<string>>;

export function addKinds(kinds: Kinds, path: string, value: JsonValue): void {
  const kind = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const met = kinds.get(path) ?? new Set();
  kinds.set(path, met.add(kind));
  if (Array.isArray(value)) for (const element of value) addKinds(kinds, `${path}[]`, element);
  if (!isJsonObject(value)) return;
  for (const [name, member] of Object.entries(value)) {
    addKinds(kinds, `${path}.${openMaps.has(path.slice(1)) ? '*' : name}`, member);
  }
}
