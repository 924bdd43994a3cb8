import { createHash } from 'node:crypto';
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import { tableName } from '../../src/sinks/postgres/column-types.ts';
import { quoted } from '../../src/sql/database.ts';
import { readText } from '../../src/sql/postgres/encode-binary.ts';
import { sharedPostgres } from './postgres.ts';
import { sampleSinks, type SampleSink, type SampleSinkType } from './sample-sinks.ts';
import { byKey } from './expected-rows.ts';
import { isLong, triedSinks } from './trials.ts';

interface Reader {
  readonly port: MessagePort;
  /** How many statements the thread has answered. */
  readonly answered: Int32Array;
}

/* A separate module, because a test file that loads it starts a server. */
const { connection, url } = await sharedPostgres();
let reader: Reader | null = null;

/** Each folder has a schema of its own in the server of this process, which other processes reach by its address. */
const postgres: SampleSink = {
  options: (folder) => ({
    type: 'postgres',
    name: 'test',
    connection,
    direct: null,
    schema: schemaOf(folder),
    connections: 4,
    durability: 'normal',
  }),
  settings: (folder) => ({ type: 'postgres', url, schema: schemaOf(folder), durability: 'normal' }),
  rows: (folder, connector, table) => {
    const name = tableName(connector, table.entity);
    const isThere = ask(
      folder,
      `SELECT 1 FROM pg_tables WHERE schemaname || tablename = '${schemaOf(folder)}${name}'`,
    );
    const sql = `SELECT * FROM ${quoted(name)} WHERE _deleted_at IS NULL ORDER BY _row`;
    return byKey(
      table,
      ((isThere.length > 0 ? ask(folder, sql) : []) as readonly JsonObject[]).map((row) => ({
        columns: Object.fromEntries(table.columns.map(({ name: column }) => [column, cell(row[column])])),
        extra: (row['_extra'] as JsonObject | null | undefined) ?? null,
      })),
    );
  },
  ledger: ask,
};

/** Every kind of sink that engine tests run on. */
export const allSampleSinks: Readonly<Record<SampleSinkType, SampleSink>> = { ...sampleSinks, postgres };

/** Kinds of sinks that whole runs with the program's own accounts are tried over, as `triedSinks` says. */
export const triedSampleSinks = triedSinks.map((type) => [type, allSampleSinks[type]] as const);

/**
 * What a suite that runs over every kind of sink tries: all of it on SQLite, and on the other kinds the share that `npm
 * test` has time for. `npm run test:long` tries all of it on each.
 */
export function shareOf<One>(
  type: string,
  all: readonly One[],
  isShare: (one: One, index: number) => boolean,
) {
  return type === 'sqlite' || isLong ? all : all.filter(isShare);
}

function schemaOf(folder: string): string {
  return `t_${createHash('md5').update(folder).digest('hex').slice(0, 12)}`;
}

/**
 * Like the readers of files, which this one stands beside, it has the answer when it returns: the statement runs in
 * another thread.
 */
function ask(folder: string, sql: string): readonly unknown[] {
  reader ??= startReader();
  const before = Atomics.load(reader.answered, 0);
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port, not a window.
  reader.port.postMessage({ schema: schemaOf(folder), sql });
  Atomics.wait(reader.answered, 0, before, 60_000);
  const received = receiveMessageOnPort(reader.port)?.message as
    { json: string } | { error: string } | undefined;
  if (received === undefined) throw new Error('PostgreSQL has not answered within a minute');
  if ('error' in received) throw new Error(`${received.error}: ${sql}`);
  return JSON.parse(received.json) as readonly unknown[];
}

function startReader(): Reader {
  const { port1: port, port2 } = new MessageChannel();
  const answered = new Int32Array(new SharedArrayBuffer(4));
  const workerData = { url, port: port2, answered };
  new Worker(new URL('read-postgres.mjs', import.meta.url), { workerData, transferList: [port2] }).unref();
  return { port, answered };
}

function cell(value: JsonValue | undefined): JsonValue {
  return typeof value === 'string' ? readText(value) : (value ?? null);
}
