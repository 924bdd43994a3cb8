import { firstCharacters, hasAtMostCharacters } from '../../core/characters.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';

export interface ResultShape {
  /** What to keep; wins over `exclude` when both are given. Null: all. */
  readonly select: Fields | null;
  readonly exclude: Fields | null;
  /** Long texts are cut, at any depth. */
  readonly isTruncated: boolean;
}

const maxTextLength = 200;
const marker = '... [truncated — use `get` action with the record id to retrieve the full value]';

/** Applies what an execute call says about its result besides parameters. */
export function shapeResult(record: JsonObject, shape: ResultShape): JsonObject {
  const { select, exclude } = shape;
  const fields = select ?? exclude;
  const selected = fields === null ? record : filterMembers(record, fields, select !== null);
  return shape.isTruncated ? mapValues(selected, truncate) : selected;
}

/** Dot paths by their first name: what each says of that member. */
type Fields = () => ReadonlyMap<string, NamedField>;

interface NamedField {
  /** A path ends here: it stands for the whole value. */
  isWhole: boolean;
  readonly below: Fields;
}

/**
 * Null for no paths. Taken apart once for all records, as a body has room for a hundred thousand paths, and only as far
 * down as a record goes, as one path has room for as many names.
 */
export function fieldsOf(paths: readonly string[]): Fields | null {
  return paths.length === 0 ? null : namedFields(paths);
}

function namedFields(paths: readonly string[]): Fields {
  let named: ReadonlyMap<string, NamedField> | null = null;
  return () => (named ??= byFirstName(paths));
}

function byFirstName(paths: readonly string[]): ReadonlyMap<string, NamedField> {
  const rests = new Map<string, string[]>();
  const named = new Map<string, NamedField>();
  for (const path of paths) {
    const dot = path.indexOf('.');
    const name = dot < 0 ? path : path.slice(0, dot);
    const below = rests.get(name) ?? [];
    const field = named.get(name) ?? { isWhole: false, below: namedFields(below) };
    if (dot < 0) field.isWhole = true;
    else below.push(path.slice(dot + 1));
    rests.set(name, below);
    named.set(name, field);
  }
  return named;
}

/** The members that the paths name, or all others. A path that leads into a value without members names nothing. */
function filterMembers(object: JsonObject, fields: Fields, isSelected: boolean): JsonObject {
  const named = fields();
  const entries: [string, JsonValue][] = [];
  for (const [name, value] of Object.entries(object)) {
    const field = named.get(name);
    if (field !== undefined && !field.isWhole && isJsonObject(value)) {
      entries.push([name, filterMembers(value, field.below, isSelected)]);
    } else if ((field?.isWhole === true) === isSelected) {
      entries.push([name, value]);
    }
  }
  return Object.fromEntries(entries);
}

function truncate(value: JsonValue): JsonValue {
  if (typeof value === 'string') {
    return hasAtMostCharacters(value, maxTextLength)
      ? value
      : `${firstCharacters(value, maxTextLength)}${marker}`;
  }
  if (Array.isArray(value)) return value.map(truncate);
  return isJsonObject(value) ? mapValues(value, truncate) : value;
}

function mapValues(object: JsonObject, change: (value: JsonValue) => JsonValue): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));
}
