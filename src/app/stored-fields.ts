import { readJson, readJsonIfWhole, type JsonValue } from '../core/json.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import { type ColumnValue, type EntityTable, type FieldType, keyTextOf } from '../core/records.ts';
import { usage } from '../core/errors.ts';
import { toColumnValue } from '../core/canonical-json.ts';
import type { EntityTarget } from '../settings/choices.ts';
import { isJsonColumn } from '../sinks/decisions/stored-table.ts';
import { openExistingRecords } from '../sinks/registry.ts';
import type { RecordReader } from '../sinks/sink-access.ts';

export type StoredFields = ReadonlyMap<string, JsonValue>;

/**
 * The stored values of a record, column by column; a tombstone may have the key alone. `path`: only the column that it
 * leads into. Null if the key is not stored.
 */
export async function storedFields(
  reader: RecordReader,
  connector: ConnectorName,
  entity: EntityName,
  keyText: string,
  path?: string,
): Promise<StoredFields | null> {
  const table = await reader.table(connector, entity);
  const record = table === null ? null : await reader.record(connector, table, keyText);
  if (table === null || record === null) return null;
  return new Map(
    table.columns.flatMap(({ name, type }, index) =>
      path === undefined || path === name || path.startsWith(`${name}.`)
        ? [[name, fieldValue(type, record.values[index] ?? null)] as const]
        : [],
    ),
  );
}

export function fieldValue(type: FieldType, value: ColumnValue): JsonValue {
  if (value === null) return null;
  if (type === 'boolean') return Number(value) !== 0;
  if (isJsonColumn(type)) return readJson(String(value));
  if (type === 'number') return Number(value);
  return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

/** The id of the sink; null where nothing of the entity is stored in it. */
export async function storedIn({ connector, table }: EntityTarget): Promise<string | null> {
  await using reader = await openExistingRecords(connector.sink);
  const stored = await reader?.table(connector.name, table.entity);
  return reader === null || stored === null ? null : reader.sinkId;
}

/** A record's key as a person named it. */
export type RecordKey = ReturnType<typeof parseRecordKey>;

/**
 * Parses `name=value` texts, one for each field of the table's key, or `<entity>/<value>` with the values of the key in
 * its order. Throws USAGE for missing, unknown, doubled and unfitting ones.
 */
export function parseRecordKey(table: EntityTable, texts: readonly string[]) {
  const [path = ''] = texts;
  const isPath = texts.length === 1 && path.startsWith(`${table.entity}/`);
  const pairs = isPath ? pairsOf(table, path.slice(table.entity.length + 1)) : texts.map(pairOf);
  return recordKey(table, pairs, { flag: '--key', each: '--key <name>=<value>' });
}

/** A key of one field may contain slashes. */
function pairsOf({ key }: EntityTable, path: string): readonly (readonly [name: string, text: string])[] {
  const values = key.length === 1 ? [path] : path.split('/');
  if (values.length <= key.length) return values.map((value, index) => [key[index] ?? '', value]);
  throw usage(
    `--key: expected values of ${key.join(', ')}, got "${path}". A value with a slash is given as --key <name>=<value>.`,
  );
}

function pairOf(text: string): readonly [name: string, text: string] {
  const at = text.indexOf('=');
  if (at < 1) throw usage(`--key: expected name=value, got "${text}".`);
  return [text.slice(0, at), text.slice(at + 1)];
}

/** The same from names and texts. `flag`, `each`: the names of the whole key and of a part of it in messages. */
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
  // Keys name only existing columns.
  const parts = table.key.map((name) => {
    const type = table.columns.find((column) => column.name === name)?.type ?? 'string';
    const text = given.get(name) ?? '';
    const value = parsed(type, text);
    const stored = value === undefined ? undefined : toColumnValue({ type }, value);
    if (value === undefined || stored === undefined) {
      throw usage(`${flag} ${name}: expected ${type}, got "${text}".`);
    }
    return { name, value, stored };
  });
  return {
    keyText: keyTextOf(parts.map(({ stored }) => stored)),
    /** Key field -> value, in the table's order. */
    fields: new Map(parts.map(({ name, value }) => [name, value])),
  };
}

function parsed(type: FieldType, text: string): JsonValue | undefined {
  switch (type) {
    case 'string':
      return text;
    case 'integer':
      return /^-?\d{1,20}$/.test(text) ? integerOf(text) : undefined;
    case 'number':
      return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? Number(text) : undefined;
    case 'boolean':
      return text === 'true' || text === 'false' ? text === 'true' : undefined;
    case 'object':
    case 'array':
    case 'any':
      return readJsonIfWhole(text);
  }
}

/** An integer from its digits; a bigint where a double cannot hold it. */
export function integerOf(digits: string): number | bigint {
  return Number.isSafeInteger(Number(digits)) ? Number(digits) : BigInt(digits);
}
