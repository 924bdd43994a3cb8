import type pg from 'pg';
import { keyTextOf, type Column, type ColumnValue, type EntityTable } from '../../../src/core/records.ts';
import { tableName } from '../../../src/sinks/postgres/column-types.ts';
import { quoted } from '../../../src/sql/database.ts';
import { readText } from '../../../src/sql/postgres/text.ts';
import { identifier } from './duckdb.ts';
import { askDuckdbFile, duckdbTexts } from './read-duckdb-file.ts';
import { numberText, type ModelRow } from './stored-model.ts';

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
