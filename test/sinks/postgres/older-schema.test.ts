import { readFileSync } from 'node:fs';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { schemaVersion } from '../../../src/sinks/postgres/schema.ts';
import { quoted } from '../../../src/sql/quoted.ts';
import { accessSink } from '../../../src/sinks/registry.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';
import {
  entityReport,
  member,
  members,
  news,
  onlyPartition,
  page,
  report,
  type Bench,
} from '../../contracts/sink/fixture.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { sharedPostgres } from '../../support/postgres.ts';

const kind = await postgresSinkKind();
const { url } = await sharedPostgres();
const bench = useBench(kind);
const oldTables = readFileSync(
  new URL('../../fixtures/ledger/postgres-version-1.sql', import.meta.url),
  'utf8',
);

it('goes on in a sink of version 1, which a reader reads as it is, and stores nothing again', async () => {
  await fillOlder(bench());
  const reader = await accessSink(options()).openRecords();
  expect(await reader.tableId(news, members)).toBe(reader.sinkId);
  await reader[Symbol.asyncDispose]();
  expect(await version()).toBe(1);
  const sink = await bench().open();
  expect(await version()).toBe(schemaVersion);
  expect(await columns(schema())).toEqual(await columnsOfNew());
  await using later = await accessSink(options()).openRecords();
  expect(await later.tableId(news, members)).toBe(later.sinkId);
  const started = await bench().begin(sink, 'r2', { isFull: true });
  const { id } = await onlyPartition(sink, started.lease);
  const [stored] = await sink.commit(started.lease, [page(started, id, [member('1'), member('2')])]);
  expect(stored?.counts[0]?.counts).toMatchObject({ fetched: 2, unchanged: 2 });
});

it('is of version 1 after its migration was cut off in the middle, and migrated once by several that open it at once', async () => {
  await fillOlder(bench());
  const before = await columns(schema());
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(async () => await client.end());
  await client.query(`BEGIN; LOCK TABLE ${quoted(schema())}._sync_meta IN SHARE MODE`);
  const openers = [bench().open(), bench().open()];
  // One of them has altered the tables, and waits to write the version; the others wait for it.
  const waiting = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = '${quoted(schema())}._sync_meta'::regclass AND NOT granted`;
  while ((await client.query(waiting)).rowCount === 0);
  expect([await version(), await columns(schema())]).toEqual([1, before]);
  await client.query('COMMIT');
  await Promise.all(openers);
  expect(await version()).toBe(schemaVersion);
});

function options(): Extract<SinkOptions, { readonly type: 'postgres' }> {
  const found = kind.options(bench().folder);
  if (found.type !== 'postgres') throw new Error('not PostgreSQL');
  return found;
}

function schema(): string {
  return options().schema;
}

/** A sink with a run that ended, as version 1 would have left it. */
async function fillOlder(older: Bench): Promise<void> {
  const sink = await older.open();
  const started = await older.begin(sink, 'r1');
  const { id } = await onlyPartition(sink, started.lease);
  await sink.commit(started.lease, [page(started, id, [member('1'), member('2')])]);
  const counted = entityReport(members, { fetched: 2, inserted: 2 });
  await sink.finish(started.lease, started.run, report(started, { entities: [counted] }));
  await older.closeSinks();
  const name = schema();
  const at = quoted(`${name}_1`);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`BEGIN; CREATE SCHEMA ${at}; SET LOCAL search_path = ${at}; ${oldTables}`);
    const old = await columns(`${name}_1`, client);
    for (const table of new Set(old.map(({ table }) => table))) {
      const list = old.filter((column) => column.table === table).map((column) => quoted(column.name));
      await client.query(
        `INSERT INTO ${at}.${table} (${list.join()}) OVERRIDING SYSTEM VALUE SELECT ${list.join()} FROM ${quoted(name)}.${table}`,
      );
    }
    for (const [of, column] of [
      ['runs', 'number'],
      ['partitions', 'id'],
    ]) {
      await client.query(
        `SELECT setval(pg_get_serial_sequence('${at}._sync_${of}', '${column}'), 41) FROM ${at}._sync_${of} LIMIT 1`,
      );
    }
    const { rows } = await client.query<{ name: string }>(
      `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = '${name}' AND table_name NOT LIKE '\\_sync\\_%'`,
    );
    for (const table of rows) {
      await client.query(`ALTER TABLE ${quoted(name)}.${quoted(table.name)} SET SCHEMA ${at}`);
    }
    await client.query(`UPDATE ${at}._sync_meta SET version = 1; DROP SCHEMA ${quoted(name)} CASCADE;
      ALTER SCHEMA ${at} RENAME TO ${quoted(name)}; COMMIT`);
  } finally {
    await client.end();
  }
}

interface Described {
  readonly table: string;
  readonly name: string;
}

/** Every column of the ledger with its type. */
async function columns(of: string, client?: pg.Client): Promise<readonly Described[]> {
  const sql = `SELECT table_name AS table, column_name AS name, data_type AS type, is_nullable, column_default, collation_name
    FROM information_schema.columns WHERE table_schema = '${of}' AND table_name LIKE '\\_sync\\_%' ORDER BY 1, ordinal_position`;
  if (client !== undefined) return (await client.query<Described>(sql)).rows;
  return (await bench().ledger(sql)) as unknown as readonly Described[];
}

async function columnsOfNew(): Promise<readonly Described[]> {
  const { folder } = bench();
  const other = `${folder}-new`;
  const sink = await kind.open(other, { clock: bench().clock });
  await sink[Symbol.asyncDispose]();
  const made = kind.options(other);
  return made.type === 'postgres' ? await columns(made.schema) : [];
}

async function version(): Promise<unknown> {
  const [meta] = await bench().ledger('SELECT version FROM _sync_meta');
  return meta?.['version'];
}
