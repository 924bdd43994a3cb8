import { createHash } from 'node:crypto';
import PQueue from 'p-queue';
import pg from 'pg';
import { type JsonObject, type JsonValue, readJson } from '../../src/core/json.ts';
import type { EntityTable } from '../../src/core/records.ts';
import { tableName } from '../../src/sinks/postgres/column-types.ts';
import { quoted } from '../../src/sql/database.ts';
import { readText } from '../../src/sql/postgres/encode-binary.ts';
import { openHistory, openSink } from '../../src/sinks/registry.ts';
import type { SinkOptions } from '../../src/sinks/sink-access.ts';
import { byKey } from './file-sink/file-sink-kind.ts';
import { sharedPostgres, type PrivatePostgres } from '../support/postgres.ts';
import type { LedgerRow, SinkKind, StoredEntity } from './sink/fixture.ts';

/**
 * A sink in a PostgreSQL server that the test process shares, read over a separate connection. What differs:
 * `contents` leaves out the lease and the counter of connectors, which say who holds them and not what is stored.
 */
export async function postgresSinkKind(): Promise<SinkKind> {
  return await postgresSinkKindOn(await sharedPostgres());
}

/** The same in a server that the test may kill: the connection for reads is opened again then. */
export async function postgresSinkKindOn({
  connection,
  url,
}: Pick<PrivatePostgres, 'connection' | 'url'>): Promise<SinkKind> {
  const schemaOf = (folder: string): string =>
    `s_${createHash('md5').update(folder).digest('hex').slice(0, 12)}`;
  const options = (folder: string): SinkOptions => ({
    type: 'postgres',
    name: 'warehouse',
    connection,
    direct: null,
    schema: schemaOf(folder),
    connections: 4,
    durability: 'full',
  });
  // One connection for all looks of this process: a new one for each would take longer than what it asks.
  const looks = new pg.Pool({
    connectionString: url,
    types: { getTypeParser: parserOf },
    max: 1,
    idleTimeoutMillis: 0,
    allowExitOnIdle: true,
  });
  looks.on('error', () => undefined);
  const inOrder = new PQueue({ concurrency: 1 });
  const ask = async <Row extends object>(folder: string, sql: string): Promise<readonly Row[]> =>
    await inOrder.add(async () => {
      const client = await looks.connect();
      try {
        await client.query(`SET search_path = ${quoted(schemaOf(folder))}; SET TimeZone = 'UTC'`);
        return (await client.query<Row>(sql)).rows;
      } finally {
        client.release();
      }
    });
  const readTable = async (
    folder: string,
    connector: string,
    table: EntityTable,
  ): Promise<readonly JsonObject[]> => {
    const rows = await ask<Record<string, unknown>>(
      folder,
      `SELECT * FROM ${quoted(tableName(connector, table.entity))} ORDER BY _seq`,
    );
    return rows.map((row) => ({
      ...Object.fromEntries(table.columns.map(({ name }) => [name, cell(row[name])])),
      _extra: cell(row['_extra']),
      _seq: cell(row['_seq']),
      _changed_at: cell(row['_changed_at']),
      _run_id: cell(row['_run_id']),
      _op: row['_deleted_at'] === null ? 'upsert' : 'delete',
    }));
  };
  return {
    options,
    open: (folder, how) => openSink(options(folder), how),
    openHistory: (folder) => openHistory(options(folder)),
    ledgerSql: async (folder, sql) => await ask<LedgerRow>(folder, sql),
    overtake: async (folder) => void (await ask(folder, 'UPDATE _sync_counters SET epoch = epoch + 1')),
    refuseUpdates: async (folder, table) => {
      await ask(
        folder,
        `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'written'; END $$;
         CREATE TRIGGER watched BEFORE UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION refuse()`,
      );
    },
    contents: async (folder, without) =>
      await contents(async (sql) => await ask(folder, sql), schemaOf(folder), without),
    readRows: async (folder, connector, table) =>
      byKey(
        (await readTable(folder, connector, table))
          .filter(({ _op }) => _op === 'upsert')
          .map(({ _op, ...row }) => row),
        table.key,
      ),
    readChanges: readTable,
  };
}

async function contents(
  ask: (sql: string) => Promise<readonly Record<string, unknown>[]>,
  schema: string,
  without: readonly StoredEntity[],
): Promise<readonly string[]> {
  const theirs = without.map(({ connector, entity }) => tableName(connector, entity));
  const names = (
    await ask(`SELECT c.relname AS name, c.relkind AS kind FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE n.nspname = '${schema}' ORDER BY c.relname`)
  ).filter(({ name }) => !theirs.some((one) => String(name).includes(one)));
  const isTheirs = (row: Record<string, unknown>): boolean =>
    without.some(({ connector, entity }) => row['connector'] === connector && row['entity'] === entity);
  const texts: string[] = [];
  for (const { name, kind } of names) {
    texts.push(`${String(kind)} ${String(name)}`);
    if (kind !== 'r' || name === '_sync_counters' || name === '_sync_leases') continue;
    const rows = await ask(`SELECT * FROM ${quoted(String(name))}`);
    texts.push(...rows.filter((row) => !isTheirs(row)).map((row) => `${String(name)}: ${rowText(row)}`));
  }
  return texts.toSorted();
}

function rowText(row: Record<string, unknown>): string {
  return Object.entries(row)
    .map(([column, value]) => `${column}=${Buffer.isBuffer(value) ? value.toString('hex') : String(value)}`)
    .join('|');
}

function cell(value: unknown): JsonValue {
  return value as JsonValue;
}

const { builtins } = pg.types;
const parsers: ReadonlyMap<number, (text: string) => unknown> = new Map<number, (text: string) => unknown>([
  [builtins.INT8, (text) => (Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text))],
  [builtins.TEXT, readText],
  [builtins.TIMESTAMPTZ, (text) => new Date(text).toISOString()],
  [builtins.JSON, readJson],
]);

function parserOf(oid: number): (text: string) => unknown {
  return parsers.get(oid) ?? (pg.types.getTypeParser(oid, 'text') as (text: string) => unknown);
}
