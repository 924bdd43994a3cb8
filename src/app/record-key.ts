import type { JsonValue } from '../core/json.ts';
import { keyTextOf, type EntityTable, type FieldType } from '../core/records.ts';
import { usage } from '../core/usage-error.ts';
import { toColumnValue } from '../engine/prepare/prepare-record.ts';

/** A record's key as a person named it. */
export type RecordKey = ReturnType<typeof parseRecordKey>;

/**
 * From `name=value` texts, one for each field of the table's key, or from `<entity>/<value>` with the values of the key
 * in its order. Throws USAGE for missing, unknown, doubled and unfitting ones.
 */
export function parseRecordKey(table: EntityTable, texts: readonly string[]) {
  const [path = ''] = texts;
  const isPath = texts.length === 1 && path.startsWith(`${table.entity}/`);
  const pairs = isPath ? pairsOf(table, path) : texts.map(pairOf);
  return recordKey(table, pairs, { flag: '--key', each: '--key <name>=<value>' });
}

function pairOf(text: string): readonly [name: string, text: string] {
  const at = text.indexOf('=');
  if (at < 1) throw usage(`--key: expected name=value, got "${text}".`);
  return [text.slice(0, at), text.slice(at + 1)];
}

/** A key of one field may contain slashes. */
function pairsOf(
  { entity, key }: EntityTable,
  path: string,
): readonly (readonly [name: string, text: string])[] {
  const rest = path.slice(entity.length + 1);
  const values = key.length === 1 ? [rest] : rest.split('/');
  if (values.length === key.length) return key.map((name, index) => [name, values[index] ?? '']);
  const form = [entity, ...key.map((name) => `<${name}>`)].join('/');
  throw usage(
    `--key: expected ${form}, got "${path}". Values with a slash are given as --key <name>=<value>.`,
  );
}

/** The same from names and texts. `flag`, `each`: what messages call all of the key, and a part of it. */
export function recordKey(
  table: EntityTable,
  pairs: Iterable<readonly [name: string, text: string]>,
  { flag, each }: { readonly flag: string; readonly each: string },
) {
  const expected = `a record of ${table.entity} is known by ${table.key.join(', ')}, each given as ${each}`;
  const given = new Map<string, string>();
  for (const [name, text] of pairs) {
    if (!table.key.includes(name)) throw usage(`${flag} ${name}: ${expected}.`);
    if (given.has(name)) throw usage(`${flag} ${name}: is given twice.`);
    given.set(name, text);
  }
  const missing = table.key.filter((name) => !given.has(name));
  if (missing.length > 0) throw usage(`${flag}: ${expected}; missing: ${missing.join(', ')}.`);
  /** Key field -> value, in the table's order. */
  const fields: ReadonlyMap<string, JsonValue> = new Map(
    table.key.map((name) => [name, valueOf(table, `${flag} ${name}`, name, given.get(name) ?? '')]),
  );
  const values = [...fields].map(
    ([name, value]) => toColumnValue({ type: typeOf(table, name) }, value) ?? null,
  );
  return { keyText: keyTextOf(values), fields };
}

/** The type of a column; keys name only existing columns. */
export function typeOf({ columns }: EntityTable, name: string): FieldType {
  return columns.find((column) => column.name === name)?.type ?? 'string';
}

function valueOf(table: EntityTable, at: string, name: string, text: string): JsonValue {
  const type = typeOf(table, name);
  const value = parsed(type, text);
  if (value === undefined || toColumnValue({ type }, value) === undefined) {
    throw usage(`${at}: expected ${type}, got "${text}".`);
  }
  return value;
}

function parsed(type: FieldType, text: string): JsonValue | undefined {
  switch (type) {
    case 'string':
      return text;
    case 'integer': {
      if (!/^-?\d{1,20}$/.test(text)) return undefined;
      const value = Number(text);
      return Number.isSafeInteger(value) ? value : BigInt(text);
    }
    case 'number':
      return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? Number(text) : undefined;
    case 'boolean':
      return text === 'true' || text === 'false' ? text === 'true' : undefined;
    case 'object':
    case 'array':
    case 'any':
      return parsedJson(text);
  }
}

function parsedJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined; // The caller's error says what was expected.
  }
}
