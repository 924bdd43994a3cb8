import { isJsonObject, type JsonObject, type JsonValue } from '../../../../src/core/json.ts';

/** What `fields` and `exclude_fields` leave of an answer: dotted paths, through arrays, separated by commas alone. */
export function chosenFields(body: JsonObject, query: URLSearchParams): JsonObject {
  const { fields, without } = { fields: query.get('fields'), without: query.get('exclude_fields') };
  const kept = fields === null ? body : keep(body, pathsOf(fields));
  return without === null ? kept : drop(kept, pathsOf(without));
}

type Paths = readonly (readonly string[])[];

function pathsOf(list: string): Paths {
  return list.split(',').map((path) => path.split('.'));
}

function below(paths: Paths, name: string): Paths {
  return paths.filter(([first]) => first === name).map((path) => path.slice(1));
}

function keep(value: JsonObject, paths: Paths): JsonObject {
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]): readonly (readonly [string, JsonValue])[] => {
      const rest = below(paths, name);
      if (rest.length === 0) return [];
      const isWhole = rest.some((path) => path.length === 0);
      return [[name, isWhole ? member : within(member, (object) => keep(object, rest))]];
    }),
  );
}

function drop(value: JsonObject, paths: Paths): JsonObject {
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]): readonly (readonly [string, JsonValue])[] => {
      const rest = below(paths, name);
      if (rest.some((path) => path.length === 0)) return [];
      return [[name, rest.length === 0 ? member : within(member, (object) => drop(object, rest))]];
    }),
  );
}

function within(value: JsonValue, change: (object: JsonObject) => JsonObject): JsonValue {
  if (Array.isArray(value)) return value.map((element) => within(element, change));
  return isJsonObject(value) ? change(value) : value;
}
