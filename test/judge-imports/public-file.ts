import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';

/** What the judge takes from a connector.yaml: where a listing is asked for, and what its answer looks like. */
export interface PublicListing {
  readonly method: string;
  readonly path: string;
  readonly answer: JsonObject;
}

const prefix = 'x-airbyte-';

/** By entity: its `list`, or its `api_search` where it has nothing else. */
export function readPublicFile(file: string) {
  // `as`: a file of YAML holds JSON.
  const root = parse(readFileSync(file, 'utf8'), { maxAliasCount: -1 }) as JsonObject;
  const resolve = (value: JsonValue | undefined): JsonObject => {
    let found = isJsonObject(value ?? null) ? (value as JsonObject) : {};
    for (let level = 0; level < 20 && typeof found['$ref'] === 'string'; level += 1) {
      const names = found['$ref'].slice(2).split('/');
      found = names.reduce<JsonObject>(
        (one, name) => member(one, name.replaceAll('~1', '/').replaceAll('~0', '~')),
        root,
      );
    }
    return found;
  };
  const listings = new Map<string, PublicListing>();
  for (const action of ['list', 'api_search']) {
    for (const [path, item] of Object.entries(member(root, 'paths'))) {
      for (const [method, operation] of Object.entries(isJsonObject(item) ? item : {})) {
        if (!isJsonObject(operation) || operation[`${prefix}action`] !== action) continue;
        const entity = textIn(operation, `${prefix}entity`);
        const own = textIn(member(operation, `${prefix}path-override`), 'path');
        const [[, success] = []] = Object.entries(member(operation, 'responses')).filter(([status]) =>
          status.startsWith('2'),
        );
        const [content] = Object.values(member(resolve(success), 'content'));
        const answer = resolve(isJsonObject(content ?? null) ? member(content as JsonObject, 'schema') : {});
        if (!listings.has(entity)) {
          listings.set(entity, { method: method.toUpperCase(), path: own || path, answer });
        }
      }
    }
  }
  return { listings, resolve, schemaAt: (schema: JsonObject, at: string) => schemaAt(schema, at, resolve) };
}

export type PublicFile = ReturnType<typeof readPublicFile>;

/** All members of a schema, those of the schemas that it is made of too. */
export function membersOf(
  schema: JsonObject,
  resolve: PublicFile['resolve'],
  level = 0,
): Readonly<Record<string, JsonValue>> {
  if (level > 10) return {};
  const parts = ['allOf', 'oneOf', 'anyOf'].flatMap((name) => {
    const list = schema[name];
    if (!Array.isArray(list)) return [];
    const all = list.map(resolve).filter((one) => one['type'] !== 'null');
    return name === 'allOf' ? all : all.slice(0, 1);
  });
  return {
    ...Object.assign({}, ...parts.map((part) => membersOf(part, resolve, level + 1))),
    ...member(schema, 'properties'),
  };
}

/** The schema at a dotted place, through arrays: `list.customer`; an empty one where the file has none. */
function schemaAt(schema: JsonObject, at: string, resolve: PublicFile['resolve']): JsonObject {
  let found = schema;
  for (const name of at.split('.').filter((part) => part !== '')) {
    found = resolve(membersOf(elementOf(found, resolve), resolve)[name]);
  }
  return elementOf(found, resolve);
}

function elementOf(schema: JsonObject, resolve: PublicFile['resolve']): JsonObject {
  let found = schema;
  for (let level = 0; level < 5 && found['items'] !== undefined; level += 1) found = resolve(found['items']);
  return found;
}

function member(value: JsonObject, name: string): JsonObject {
  const found = value[name] ?? null;
  return isJsonObject(found) ? found : {};
}

function textIn(value: JsonObject, name: string): string {
  const found = value[name];
  return typeof found === 'string' ? found : '';
}
