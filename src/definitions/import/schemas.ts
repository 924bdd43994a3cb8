import { unescape } from 'node:querystring';
import { isJsonArray, isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import { knownOrMade } from '../../core/grouped.ts';
import { isDeclaredName, systemColumns } from '../../core/names.ts';
import type { Problem } from '../../core/problems.ts';
import type { EntityFile } from '../definition-file.ts';
import { isReservedName, type YamlPath } from '../read-yaml.ts';

export type FieldType = EntityFile['fields'][string];
export type Schemas = ReturnType<typeof openSchemas>;

/** References that lead to references; a longer chain is a mistake. */
const mostHops = 32;

/** The JSON Schemas of one file: references followed within it, and nothing ever downloaded. */
export function openSchemas(root: JsonObject) {
  const resolve = (schema: JsonValue | undefined): JsonObject => {
    let found = schema;
    for (let hops = 0; hops < mostHops && isJsonObject(found); hops += 1) {
      const reference = textIn(found, '$ref');
      if (reference === null) return found;
      found = pointedAt(root, reference);
    }
    return {};
  };
  /** The schema and those in its `allOf`, each once: one that contains itself ends here. */
  const parts = (schema: JsonValue | undefined): readonly JsonObject[] => {
    const found = new Set([resolve(schema)]);
    for (const part of found) for (const inner of listIn(part, 'allOf')) found.add(resolve(inner));
    return [...found];
  };
  const known = new WeakMap<JsonObject, ReadonlyMap<string, JsonObject>>();
  const properties = (schema: JsonValue | undefined): ReadonlyMap<string, JsonObject> => {
    const own = resolve(schema);
    return knownOrMade(known, own, () => {
      const members = parts(own).flatMap((part) => Object.entries(objectIn(part, 'properties')));
      return new Map(members.map(([name, property]) => [name, resolve(property)]));
    });
  };
  const kinds = (schema: JsonValue | undefined): ReadonlySet<string> => kindsOf(parts(schema), resolve);
  const items = (schema: JsonValue | undefined): JsonObject =>
    parts(schema)
      .map((part) => resolve(partIn(part, 'items')))
      .find((part) => Object.keys(part).length > 0) ?? {};
  return {
    resolve,
    properties,
    items,
    /** The possible types of a value: `string`, `null` ...; empty where the file does not say. */
    kinds,
    required: (schema: JsonValue | undefined): ReadonlySet<string> =>
      new Set(parts(schema).flatMap((part) => textsIn(part, 'required'))),
    /** The column type for values of this schema. */
    typeOf: (schema: JsonValue | undefined): FieldType => {
      const found = [...kinds(schema)].filter((kind) => kind !== 'null');
      return (found.length === 1 ? fieldTypes.find((type) => type === found[0]) : undefined) ?? 'any';
    },
    /** The schema behind these names; null where the file has none. */
    at: (schema: JsonValue | undefined, path: readonly string[]): JsonObject | null => {
      let found: JsonObject | undefined = resolve(schema);
      for (const name of path) found = found && properties(found).get(name);
      return found ?? null;
    },
  };
}

/** The value that a reference names: `#/a%20b/0`. */
function pointedAt(root: JsonObject, reference: string): JsonValue | undefined {
  let part: JsonValue | undefined = root;
  for (const escaped of reference.replace(/^#\/?/, '').split('/')) {
    const name = unescape(escaped).replaceAll('~1', '/').replaceAll('~0', '~');
    part = isJsonArray(part) ? part[/^\d+$/.test(name) ? Number(name) : -1] : partIn(part, name);
  }
  return part;
}

const fieldTypes = ['string', 'integer', 'number', 'boolean', 'object', 'array'] as const;

function kindsOf(schemas: readonly JsonObject[], resolve: (schema: JsonValue | undefined) => JsonObject) {
  const found = schemas.flatMap((schema): readonly string[] => {
    const type = partIn(schema, 'type');
    const stated = typeof type === 'string' ? [type] : textsIn(schema, 'type');
    if (stated.length > 0) return partIn(schema, 'nullable') === true ? [...stated, 'null'] : stated;
    const choices = [...listIn(schema, 'oneOf'), ...listIn(schema, 'anyOf')];
    // Only one level: a nested choice counts as any value.
    if (choices.length > 0) {
      return choices.flatMap((choice) => {
        const kind = partIn(resolve(choice), 'type');
        return typeof kind === 'string' ? [kind] : ['any'];
      });
    }
    if (isJsonObject(partIn(schema, 'properties'))) return ['object'];
    const values = listIn(schema, 'enum');
    return values.length > 0 && values.every((value) => typeof value === 'string') ? ['string'] : [];
  });
  return new Set(found);
}

/**
 * References that lead out of the file, nowhere or in a circle. Every value is visited once, however often an anchor
 * is used.
 */
export function referenceProblems(root: JsonObject, problem: (at: YamlPath, message: string) => Problem) {
  const found: Problem[] = [];
  const seen = new Set<JsonValue>();
  const open: { readonly value: JsonValue; readonly at: YamlPath }[] = [{ value: root, at: [] }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, at } = next;
    if (typeof value !== 'object' || value === null || seen.has(value)) continue;
    seen.add(value);
    const reference = isJsonArray(value) ? null : textIn(value, '$ref');
    const message = reference === null ? null : referenceProblem(root, reference);
    if (message !== null && found.length < 20) found.push(problem([...at, '$ref'], message));
    for (const [name, part] of Object.entries(value)) open.push({ value: part, at: [...at, name] });
  }
  return found;
}

function referenceProblem(root: JsonObject, reference: string): string | null {
  let text: string | null = reference;
  for (let hops = 0; hops < mostHops; hops += 1) {
    if (!text.startsWith('#/')) {
      return `expected a reference within this file (#/...), got ${JSON.stringify(text.slice(0, 100))}: nothing is downloaded`;
    }
    const target = pointedAt(root, text);
    if (target === undefined) return `expected a part of this file, there is no ${text.slice(0, 100)}`;
    text = textIn(target, '$ref');
    if (text === null) return null;
  }
  return `expected a reference to a schema, got one that leads in a circle or over more than ${mostHops} others`;
}

// Readers of data whose shape is not checked: a value of another kind counts as absent.

/** Begins the keys that these files add to OpenAPI. */
export const prefix = 'x-airbyte-';

const nothing: JsonObject = {};

/** The member at the end of these names. */
export function partIn(value: JsonValue | undefined, ...names: readonly string[]): JsonValue | undefined {
  let part = value;
  for (const name of names) part = isJsonObject(part) ? memberOf(part, name) : undefined;
  return part;
}

export function textIn(value: JsonValue | undefined, ...names: readonly string[]): string | null {
  const part = partIn(value, ...names);
  return typeof part === 'string' ? part : null;
}

export function objectIn(value: JsonValue | undefined, ...names: readonly string[]): JsonObject {
  const part = partIn(value, ...names);
  return isJsonObject(part) ? part : nothing;
}

export function listIn(value: JsonValue | undefined, ...names: readonly string[]): readonly JsonValue[] {
  const part = partIn(value, ...names);
  return isJsonArray(part) ? part : [];
}

export function textsIn(value: JsonValue | undefined, ...names: readonly string[]): readonly string[] {
  return listIn(value, ...names).filter((one) => typeof one === 'string');
}

/** Whether a text, at any depth, holds a template that only its own program could run. */
export function holdsTemplate(value: JsonValue | undefined): boolean {
  if (typeof value === 'string') return /\{\{|\{%/.test(value);
  if (isJsonArray(value)) return value.some(holdsTemplate);
  return isJsonObject(value) && Object.values(value).some(holdsTemplate);
}

/** `nextPageToken`, `page[token]`, `next-page_token`: lower-case words, as far as a name can be divided. */
export function wordsOf(name: string): readonly string[] {
  return name
    .slice(0, 200)
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '');
}

/** The name as a column can have it (`createdAt`: `created_at`); null where there is none. */
export function columnName(name: string): string | null {
  const column = systemColumns.has(name)
    ? `${name}_2`
    : isDeclaredName(name)
      ? name
      : wordsOf(name).join('_');
  return isDeclaredName(column) && !isReservedName(column) ? column : null;
}

/** The longest end of these words that a column can have as its name; null where there is none. */
export function endName(words: readonly string[]): string | null {
  const ends = words.map((_, at) => columnName(words.slice(at).join('_')));
  return ends.find((name) => name !== null) ?? null;
}

/** Makes one line of at most `length` characters for a comment or a message, without terminal control characters. */
export function oneLine(text: string, length = 160): string {
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** `issues`: `issue`; `companies`: `company`. */
export function singular(name: string): string {
  if (name.endsWith('ies')) return `${name.slice(0, -3)}y`;
  return /(?:ss|us)$/.test(name) || !name.endsWith('s') ? name : name.slice(0, -1);
}

/** A text, number or flag as text; an empty text for everything else. */
export function plainText(value: JsonValue | undefined): string {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : '';
}
