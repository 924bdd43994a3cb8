import { join } from 'node:path';
import { systemClock } from '../../../src/core/clock.ts';
import type { Database } from '../../../src/sql/database.ts';
import { openServer } from '../../../src/sql/postgres/server.ts';
import { openSqlite, type Connection } from '../../../src/sql/sqlite/open-sqlite.ts';
import {
  openSqliteDatabase,
  type SqliteDatabase,
  type SqliteOptions,
} from '../../../src/sql/sqlite/open-sqlite-database.ts';
import { randomTurns } from '../seeded-random.ts';
import { sharedPostgres } from '../postgres.ts';
import { startSeed } from '../trials.ts';
import { delayed } from './delayed.ts';

interface DatabaseKind {
  readonly name: string;
  /** An empty database that no other test uses: a file of the folder, or a schema. */
  readonly open: (folder: string) => Promise<Database>;
}

let schemas = 0;

/** Each database as it is, and with statements that take a random turn of the event loop. */
export const databaseKinds: readonly DatabaseKind[] = [
  { name: 'SQLite', open: async (folder) => openTestSqlite(join(folder, 'test.db')) },
  {
    name: 'SQLite, delayed',
    open: async (folder) => delayed(openTestSqlite(join(folder, 'test.db')), randomTurns(startSeed())),
  },
  { name: 'PostgreSQL', open: async () => await openTestPostgres() },
  {
    name: 'PostgreSQL, delayed',
    open: async () => delayed(await openTestPostgres(), randomTurns(startSeed())),
  },
];

export function openTestSqlite(file: string, options: Partial<SqliteOptions> = {}): SqliteDatabase {
  return openSqliteDatabase({
    file,
    writer: writerOf(file),
    openReader: () => openSqlite(file, { readonly: true }),
    explain: (error) => error,
    clock: systemClock,
    lockTimeoutMs: 5_000,
    ...options,
  });
}

/** As sinks open theirs. */
export function writerOf(file: string): Connection {
  const writer = openSqlite(file, { timeout: 250 });
  writer.pragma('journal_mode = WAL');
  writer.pragma('synchronous = NORMAL');
  return writer;
}

export async function openTestPostgres(): Promise<Database> {
  const { connection } = await sharedPostgres();
  const schema = `sql_${process.pid}_${(schemas += 1)}`;
  const server = openServer({
    connection,
    direct: null,
    schema,
    connections: 4,
    durability: 'normal',
    explain: (error) => error,
  });
  await server.transact(async (tx) => await tx.run(`CREATE SCHEMA ${schema}`));
  return server;
}
