import type pg from 'pg';
import { keyTextOf, type Column, type ColumnValue, type EntityTable } from '../../../src/core/records.ts';
import { tableName } from '../../../src/sinks/postgres/column-types.ts';
import { quoted } from '../../../src/sql/database.ts';
import { readText } from '../../../src/sql/postgres/encode-binary.ts';
import { numberText, type ModelRow } from './stored-model.ts';
import {
  DuckDBInstance,
  DuckDBTimestampTZValue,
  type DuckDBValue,
  type DuckDBConnection,
} from '@duckdb/node-api';

/** Rows that are not deleted, by `keyTextOf`. */
export type TableRows = ReadonlyMap<string, ModelRow>;

interface Read {
  readonly connector: string;
  readonly table: EntityTable;
}

/** The client gives all values as texts. */
export async function postgresTableRows(
  client: pg.Client,
  schema: string,
  { connector, table }: Read,
): Promise<TableRows> {
  const { rows } = await client.query<Record<string, string | null>>(
    `SELECT * FROM ${schema}.${quoted(tableName(connector, table.entity))} WHERE NOT _deleted`,
  );
  return byKey(
    table,
    rows.map((row) =>
      Object.fromEntries(
        [...table.columns, ...own].map(({ name, type }) => [name, postgresText(type, row[name] ?? null)]),
      ),
    ),
  );
}

const own = [
  { name: '_extra', type: 'any' },
  { name: '_seq', type: 'integer' },
  { name: '_changed_at', type: 'instant' },
  { name: '_run_id', type: 'string' },
  { name: '_deleted', type: 'boolean' },
  { name: '_deleted_at', type: 'instant' },
] as const;

function postgresText(type: Column['type'] | 'instant', text: string | null): string | null {
  if (text === null) return null;
  if (type === 'string') return readText(text);
  if (type === 'number') return numberText(Number(text));
  if (type === 'boolean') return text === 't' ? 'true' : 'false';
  return type === 'instant' ? new Date(text).toISOString() : text;
}

export async function duckdbTableRows(file: string, { connector, table }: Read): Promise<TableRows> {
  const found = await askDuckdbFile(
    file,
    `SELECT * FROM ${identifier(connector)}.${identifier(table.entity)}`,
  );
  return byKey(table, found.map(duckdbTexts));
}

function byKey({ columns, key }: EntityTable, rows: readonly ModelRow[]): TableRows {
  const part = (name: string, text: string | null): ColumnValue => {
    const type = columns.find((column) => column.name === name)?.type;
    return type === 'integer' && text !== null ? BigInt(text) : text;
  };
  return new Map(rows.map((row) => [keyTextOf(key.map((name) => part(name, row[name] ?? null))), row]));
}

/** Rows of a query on a published file, opened as another reader would, and closed. */
export async function askDuckdbFile(
  file: string,
  sql: string,
): Promise<readonly Readonly<Record<string, DuckDBValue>>[]> {
  const instance = await DuckDBInstance.create(file, { access_mode: 'READ_ONLY', threads: '2' });
  try {
    const connection = await instance.connect();
    try {
      return (await connection.runAndReadAll(sql)).getRowObjects();
    } finally {
      connection.closeSync();
    }
  } finally {
    instance.closeSync();
  }
}

/** Each value as text. */
function duckdbTexts(row: Readonly<Record<string, DuckDBValue>>): ModelRow {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, textOf(value)]));
}

function textOf(value: DuckDBValue): string | null {
  if (value === null) return null;
  if (value instanceof DuckDBTimestampTZValue) return new Date(Number(value.micros / 1_000n)).toISOString();
  return typeof value === 'number' ? numberText(value) : String(value);
}

export type Row = Readonly<Record<string, DuckDBValue>>;

let opened: Promise<DuckDBConnection> | null = null;

/** Rows of a query on one DuckDB in memory: 64 bit integers are bigint, instants have their own class. */
export async function duckdb(sql: string): Promise<readonly Row[]> {
  return (await read(sql)).getRowObjects();
}

/** The same, each row as the list of its values: for columns of any name. */
export async function duckdbLists(sql: string): Promise<readonly (readonly DuckDBValue[])[]> {
  return (await read(sql)).getRows();
}

async function read(sql: string): ReturnType<DuckDBConnection['runAndReadAll']> {
  opened ??= DuckDBInstance.create(':memory:', { threads: '2' }).then((instance) => instance.connect());
  return await (await opened).runAndReadAll(sql);
}

/** A text in SQL. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A name in SQL. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
