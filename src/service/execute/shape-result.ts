import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';

export interface ResultShape {
  /** Dot paths to keep; wins over `exclude` when both are given. Empty: all. */
  readonly select: readonly string[];
  readonly exclude: readonly string[];
  /** Long texts are cut, at any depth. */
  readonly isTruncated: boolean;
}

const maxTextLength = 200;
const marker = '... [truncated — use `get` action with the record id to retrieve the full value]';

/** Applies what an execute call says about its result besides parameters. */
export function shapeResult(record: JsonObject, shape: ResultShape): JsonObject {
  const selected =
    shape.select.length > 0
      ? select(record, shape.select)
      : shape.exclude.length > 0
        ? exclude(record, shape.exclude)
        : record;
  return shape.isTruncated ? mapValues(selected, truncate) : selected;
}

/** Names at this level, each with the paths that go on below it; a path that ends here stands for the whole value. */
function pathsByName(paths: readonly string[]): Map<string, { whole: boolean; below: string[] }> {
  const byName = new Map<string, { whole: boolean; below: string[] }>();
  for (const path of paths) {
    const dot = path.indexOf('.');
    const name = dot < 0 ? path : path.slice(0, dot);
    const entry = byName.get(name) ?? { whole: false, below: [] };
    if (dot < 0) entry.whole = true;
    else entry.below.push(path.slice(dot + 1));
    byName.set(name, entry);
  }
  return byName;
}

function select(object: JsonObject, paths: readonly string[]): JsonObject {
  const byName = pathsByName(paths);
  const entries: [string, JsonValue][] = [];
  for (const [name, value] of Object.entries(object)) {
    const wanted = byName.get(name);
    if (wanted === undefined) continue;
    if (wanted.whole) entries.push([name, value]);
    else if (isJsonObject(value)) entries.push([name, select(value, wanted.below)]);
  }
  return Object.fromEntries(entries);
}

function exclude(object: JsonObject, paths: readonly string[]): JsonObject {
  const byName = pathsByName(paths);
  const entries: [string, JsonValue][] = [];
  for (const [name, value] of Object.entries(object)) {
    const unwanted = byName.get(name);
    if (unwanted === undefined) entries.push([name, value]);
    else if (!unwanted.whole) {
      entries.push([name, isJsonObject(value) ? exclude(value, unwanted.below) : value]);
    }
  }
  return Object.fromEntries(entries);
}

function truncate(value: JsonValue): JsonValue {
  if (typeof value === 'string') {
    if (value.length <= maxTextLength) return value;
    // Characters, not UTF-16 units: half an emoji is no text.
    const characters = Array.from(value.slice(0, 2 * maxTextLength + 1));
    return characters.length <= maxTextLength
      ? value
      : `${characters.slice(0, maxTextLength).join('')}${marker}`;
  }
  if (Array.isArray(value)) return value.map(truncate);
  return isJsonObject(value) ? mapValues(value, truncate) : value;
}

function mapValues(object: JsonObject, change: (value: JsonValue) => JsonValue): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));
}
