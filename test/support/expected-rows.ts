import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import type { EntityTable, Column } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';

/** A stored row as JSON says it: every column by name, and what is kept beside them. */
export interface Row {
  readonly columns: JsonObject;
  readonly extra: JsonObject | null;
}

/** A record of the truth with the parameters of the listing it stands in, and what its place in a tree fills in. */
interface TrueRecord {
  readonly record: JsonObject;
  readonly params: JsonObject;
}

/**
 * What must be stored of an entity, worked out from the truth and the definition alone and without a line of the
 * engine: key text -> row. Rows of exploded elements are in the second map.
 */
export function expectedRows(
  entity: Entity,
  truth: Iterable<TrueRecord>,
): { readonly rows: ReadonlyMap<string, Row>; readonly exploded: ReadonlyMap<string, Row> } {
  const rows = new Map<string, Row>();
  const exploded = new Map<string, Row>();
  const { explode, explodedTable } = entity;
  for (const { record: sent, params } of truth) {
    const filled = [...entity.filledFrom].map(([field, source]): [string, JsonValue] => [
      field,
      sent[field] ?? sent[source] ?? null,
    ]);
    const record = { ...sent, ...Object.fromEntries(filled) };
    const injected = injectedOf(entity, record, params);
    const elements = explode === null ? [] : record[explode.field];
    const row = rowOf(
      entity.table,
      { ...record, ...injected },
      new Set([...entity.ignored, ...(Array.isArray(elements) && explode !== null ? [explode.field] : [])]),
    );
    rows.set(keyOf(entity.table, row), row);
    if (explode === null || explodedTable === null || !Array.isArray(elements)) continue;
    for (const element of elements.filter(isJsonObject)) {
      const carried = Object.fromEntries(
        explode.carry.map((name) => [name, injected[name] ?? record[name] ?? null]),
      );
      const absent = Object.fromEntries(explode.key.map((name) => [name, '']));
      const event = rowOf(explodedTable, { ...absent, ...element, ...carried }, new Set());
      exploded.set(keyOf(explodedTable, event), event);
    }
  }
  return { rows, exploded };
}

export function keyOf(table: EntityTable, row: Row): string {
  return JSON.stringify(table.key.map((name) => row.columns[name]));
}

function injectedOf(entity: Entity, record: JsonObject, params: JsonObject): JsonObject {
  const parent = entity.parents.find(({ inject }) =>
    [...inject.values()].every((param) => params[param] !== undefined),
  );
  const injected = [...(parent?.inject ?? [])].map(([field, param]): [string, JsonValue] => {
    const value = params[param] ?? null;
    return [field, entity.fields.get(field) === 'integer' ? Number(value) : value];
  });
  const placed = entity.recursive;
  const fromTree =
    placed === null
      ? []
      : [placed.rootField, placed.depthField, placed.positionField].map((name): [string, JsonValue] => [
          name,
          params[name] ?? record[name] ?? null,
        ]);
  return Object.fromEntries([...injected, ...fromTree]);
}

function rowOf(table: EntityTable, record: JsonObject, left: ReadonlySet<string>): Row {
  const names = new Set(table.columns.map(({ name }) => name));
  const extra = Object.fromEntries(
    Object.entries(record).filter(([name]) => !names.has(name) && !left.has(name)),
  );
  return {
    columns: Object.fromEntries([...names].map((name) => [name, record[name] ?? null])),
    extra: Object.keys(extra).length === 0 ? null : extra,
  };
}

/** True when two rows say the same, whatever the order in which objects name their members. */
export function sameRow(left: Row, right: Row): boolean {
  return JSON.stringify(left) === JSON.stringify(right) || sortedJson(left) === sortedJson(right);
}

function sortedJson(row: Row): string {
  return JSON.stringify(row, (_, value: JsonValue) =>
    isJsonObject(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : value,
  );
}

/** Live rows of an entity's table as a reader of the SQLite file finds them. Throws where a key stands there twice. */
export function sqliteRows(file: string, connector: string, table: EntityTable): ReadonlyMap<string, Row> {
  const db = new Database(file, { readonly: true });
  try {
    const name = `${connector.replaceAll('-', '_')}__${table.entity}`;
    const exists = db.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(name) !== undefined;
    const stored = exists
      ? (db.prepare(`SELECT * FROM "${name}" WHERE _deleted_at IS NULL`).all() as Record<
          string,
          string | number | null
        >[])
      : [];
    return byKey(
      table,
      stored.map((row) => ({
        columns: Object.fromEntries(
          table.columns.map((column) => [column.name, fromColumn(column, row[column.name] ?? null)]),
        ),
        extra: typeof row['_extra'] === 'string' ? (JSON.parse(row['_extra']) as JsonObject) : null,
      })),
    );
  } finally {
    db.close();
  }
}

/**
 * Live rows of an entity as a reader of its JSONL files finds them, the last line of a key winning. Throws where a line
 * is torn, or where the same content stands in two lines of one key with no deletion between.
 */
export function jsonlRows(
  directory: string,
  connector: string,
  table: EntityTable,
): ReadonlyMap<string, Row> {
  const folder = path.join(directory, connector, table.entity);
  const files = existsSync(folder) ? readdirSync(folder) : [];
  const lines = files
    .flatMap((file) =>
      readFileSync(path.join(folder, file), 'utf8')
        .split('\n')
        .filter((line) => line !== ''),
    )
    .map((line) => JSON.parse(line) as JsonObject)
    .toSorted((left, right) => Number(left['_seq']) - Number(right['_seq']));
  const rows = new Map<string, Row>();
  let lastSeq: JsonValue = null;
  for (const line of lines) {
    // A row that changed and changed back between two files has two lines of the same values.
    if (line['_seq'] === lastSeq) {
      throw new Error(`${table.entity}: change ${JSON.stringify(lastSeq)} has two lines`);
    }
    lastSeq = line['_seq'] ?? null;
    const row: Row = {
      columns: Object.fromEntries(table.columns.map(({ name }) => [name, line[name] ?? null])),
      extra: (line['_extra'] as JsonObject | undefined) ?? null,
    };
    const key = keyOf(table, row);
    if (line['_op'] === 'delete') {
      rows.delete(key);
      continue;
    }
    rows.set(key, row);
  }
  return rows;
}

export function byKey(table: EntityTable, rows: readonly Row[]): ReadonlyMap<string, Row> {
  const map = new Map<string, Row>();
  for (const row of rows) {
    const key = keyOf(table, row);
    if (map.has(key)) throw new Error(`${table.entity}: two rows for ${key}`);
    map.set(key, row);
  }
  return map;
}

function fromColumn(column: Column, value: string | number | null): JsonValue {
  if (value === null) return null;
  if (column.type === 'boolean') return value === 1;
  if (column.type === 'object' || column.type === 'array' || column.type === 'any') {
    return JSON.parse(String(value)) as JsonValue;
  }
  return value;
}
