import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import type { Column, EntityTable } from '../../src/core/records.ts';
import { keyOf, type Row } from './expected-rows.ts';

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
  for (const line of lines) {
    const row: Row = {
      columns: Object.fromEntries(table.columns.map(({ name }) => [name, line[name] ?? null])),
      extra: (line['_extra'] as JsonObject | undefined) ?? null,
    };
    const key = keyOf(table, row);
    if (line['_op'] === 'delete') {
      rows.delete(key);
      continue;
    }
    if (JSON.stringify(rows.get(key)) === JSON.stringify(row)) {
      throw new Error(`${table.entity}: the same line twice for ${key}`);
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
