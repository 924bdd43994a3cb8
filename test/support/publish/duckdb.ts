import { type DuckDBConnection, DuckDBInstance, type DuckDBValue } from '@duckdb/node-api';

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
