import pg from 'pg';
import { memberColumns, memberPages, printResult } from './read-members.ts';

/**
 * The baseline for PostgreSQL, as written in an hour: fetch, parse, upsert a page with `unnest` in one transaction; no
 * retries, no checkpoints, no reports. `node bare-postgres.js <base url> <url of the server> <schema>
 * <synchronous_commit>`; prints its result as JSON.
 */
const [baseUrl = '', url = '', schema = 'bare', synchronous = 'on'] = process.argv.slice(2);
const columns = memberColumns().map(({ name, type }) => ({ name: `"${name}"`, type: sqlType(type) }));
const names = columns.map(({ name }) => name).join(', ');

const startedMs = performance.now();
const client = new pg.Client({ connectionString: url });
await client.connect();
await client.query(`SET synchronous_commit = ${synchronous}`);
await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
await client.query(
  `CREATE TABLE IF NOT EXISTS ${schema}.members (${columns.map(({ name, type }) => `${name} ${type}`).join(', ')}, PRIMARY KEY (list_id, id))`,
);
const upsert = `INSERT INTO ${schema}.members (${names})
  SELECT * FROM unnest(${columns.map(({ type }, index) => `$${index + 1}::${type}[]`).join(', ')})
  ON CONFLICT (list_id, id) DO UPDATE SET ${columns.map(({ name }) => `${name} = excluded.${name}`).join(', ')}`;
let rows = 0;
for await (const records of memberPages(baseUrl)) {
  const arrays = columns.map(({ name }) => records.map((record) => cell(record[name.slice(1, -1)] ?? null)));
  await client.query({ name: 'upsert', text: upsert, values: arrays });
  rows += records.length;
}
await client.end();
printResult(rows, startedMs);

function sqlType(type: string): string {
  const types: Readonly<Record<string, string>> = {
    integer: 'bigint',
    number: 'double precision',
    boolean: 'boolean',
    string: 'text',
  };
  return types[type] ?? 'json';
}

function cell(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
}
