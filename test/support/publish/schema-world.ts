import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { DuckDBInstance, type DuckDBConnection } from '@duckdb/node-api';
import { systemClock } from '../../../src/core/clock.ts';
import type { EntityTable } from '../../../src/core/records.ts';
import { openTarget } from '../../../src/publish/open-target.ts';
import { catalogueOf, readPublished } from '../../../src/publish/schema/catalogue.ts';
import { readSettings } from '../../../src/settings/load-settings.ts';
import type { PublishSettings } from '../../../src/settings/settings.ts';
import { openExistingRecords } from '../../../src/sinks/registry.ts';
import { openCliWorld } from '../cli-world.ts';
import { findPostgres } from '../ensure-postgres.ts';
import { sharedPostgres } from '../postgres.ts';
import { isLong } from '../trials.ts';
import { publishNow } from './publish-now.ts';

const noSignal = new AbortController().signal;

/** Current rows of a table, each as one text: columns by name, JSON parsed, instants as ISO texts. */
export type RowTexts = readonly string[];

export type SchemaWorld = Awaited<ReturnType<typeof openSchemaWorld>>;

/** In `npm test` some of one connector's: with a key and a join of one column and of several, and with events. */
const entities = ['lists', 'list_members', 'interest_categories', 'interests', 'campaigns', 'email_activity'];
export const schemaConnectors = isLong ? ['newsletter', 'wiki'] : ['newsletter'];

const targets = (postgresUrl: string): string =>
  Object.entries({
    lake: 'type: files, directory: ./lake',
    lines: 'type: files, directory: ./lines, format: jsonl',
    sheets: 'type: files, directory: ./sheets, format: csv',
    mart: `type: postgres, url: "${postgresUrl}", schema: mart_of_models`,
    desk: 'type: duckdb, path: ./desk.duckdb',
  })
    .map(
      ([name, place]) =>
        `  ${name}: { ${place}, when: by-hand, connectors: [${schemaConnectors.join(', ')}] }\n`,
    )
    .join('');

/** Two sample accounts in a SQLite sink, published into several targets after each of their revisions. */
export async function openSchemaWorld() {
  const include = isLong ? '' : `    include: [${entities.join(', ')}]\n`;
  const cli = await openCliWorld({ settings: `    freshWithin: 2h\n${include}` });
  const { url } = await sharedPostgres();
  appendFileSync(cli.config, `publish:\n${targets(url)}`);
  const settings = readSettings({ file: cli.config, env: cli.env });
  const target = (name: string): PublishSettings => {
    const found = settings.publish.get(name);
    if (found === undefined) throw new Error(`no target ${name}`);
    return found;
  };
  return {
    cli,
    target,
    publish: async (name: string, isSnapshotAsked: boolean = false) => {
      await using opened = await openTarget(target(name), { clock: systemClock, signal: noSignal });
      const end = await publishNow(opened, target(name), { isSnapshotAsked });
      if (end.kind !== 'published') throw new Error(`${name}: ${end.kind}`);
    },
    catalogue: async (name: string) => {
      await using opened = await openTarget(target(name), { clock: systemClock, signal: noSignal });
      return catalogueOf(target(name).connectors, target(name), await readPublished(opened));
    },
    /** By table name: what the sink has. */
    rows: async () => {
      const found = new Map<string, RowTexts>();
      for (const connector of settings.connectors.values()) {
        await using reader = await openExistingRecords(connector.sink);
        for (const { table, explodedTable } of connector.definition.entities.values()) {
          for (const { entity } of explodedTable === null ? [table] : [table, explodedTable]) {
            const stored = (await reader?.table(connector.name, entity)) ?? null;
            if (reader === null || stored === null) continue;
            const texts: string[] = [];
            for await (const records of reader.changes(connector.name, stored, 0)) {
              for (const { isDeleted, values, extra, seq } of records) {
                if (isDeleted) continue;
                const row = Object.fromEntries(
                  stored.columns.map(({ name }, index) => [name, values[index] ?? null]),
                );
                texts.push(rowText({ ...row, _extra: extra, _seq: seq }, stored));
              }
            }
            found.set(`${connector.name}__${entity}`, texts.toSorted());
          }
        }
      }
      return found;
    },
    [Symbol.asyncDispose]: async () => await cli[Symbol.asyncDispose](),
  };
}

/** Runs the statements of a text one after the other in a DuckDB of its own. */
export async function openDuckdb(): Promise<Database> {
  const connection: DuckDBConnection = await (
    await DuckDBInstance.create(':memory:', { threads: '2' })
  ).connect();
  const run: Database['run'] = async (sql) => {
    const statements = await connection.extractStatements(sql);
    let rows: Awaited<ReturnType<Database['run']>> = [];
    for (let index = 0; index < statements.count; index += 1) {
      const prepared = await statements.prepare(index);
      // `as`: only instants are objects, and have a text.
      rows = (await prepared.runAndReadAll()).getRowObjects() as typeof rows;
    }
    return rows;
  };
  return { run, [Symbol.asyncDispose]: () => Promise.resolve(connection.closeSync()) };
}

type Scalar = string | number | bigint | boolean | null;

export interface Database extends AsyncDisposable {
  /** Rows of the last statement: scalars, and texts for JSON. */
  run(sql: string): Promise<readonly Readonly<Record<string, Scalar>>[]>;
}

export async function openPostgres(): Promise<Database> {
  const { url } = await sharedPostgres();
  const client = new pg.Client({
    connectionString: url,
    types: { getTypeParser: () => (text: string) => text },
  });
  await client.connect();
  return {
    run: async (sql) => (await client.query<Record<string, string | null>>(sql)).rows,
    [Symbol.asyncDispose]: async () => await client.end(),
  };
}

/** As a person runs a file: psql, which ends at the first mistake. */
export async function psql(sql: string): Promise<void> {
  const { url } = await sharedPostgres();
  const args = ['-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', url];
  // Debian puts it elsewhere than the server.
  const beside = join(findPostgres() ?? '', 'psql');
  execFileSync(existsSync(beside) ? beside : 'psql', args, { input: sql, stdio: ['pipe', 'ignore', 'pipe'] });
}

/** A row as any database gives it. Of the program's own columns `_extra` and `_seq` count. */
export function rowText(
  row: Readonly<Record<string, Scalar>>,
  { columns }: Pick<EntityTable, 'columns'>,
): string {
  const cells = columns.map(({ name, type }) => [name, cell(row[name], type)]);
  return JSON.stringify([...cells, cell(row['_extra'], 'object'), String(row['_seq'])]);
}

function cell(value: Scalar | undefined, type: string): unknown {
  if (value === null || value === undefined) return null;
  const text = String(value);
  if (type === 'object' || type === 'array' || type === 'any') return JSON.parse(text) as unknown;
  if (type === 'boolean') return ['t', 'true', '1'].includes(text);
  return type === 'number' ? Number(text) : text;
}
