import pg from 'pg';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { Bench, news, rootOf } from '../../contracts/sink/fixture.ts';
import { systemClock } from '../../../src/core/clock.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Entity } from '../../../src/definitions/definition.ts';
import { openPostgresSearch } from '../../../src/search/postgres-search.ts';
import type { SearchAnswer } from '../../../src/search/search-request.ts';
import { sharedPostgres } from '../postgres.ts';
import { pagesOf, preparedAs } from './search-world.ts';

type Changed = { readonly signal?: AbortSignal; readonly deadlineMs?: number };

export type PostgresWorld = Awaited<ReturnType<typeof openPostgresWorld>>;

/** A PostgreSQL sink, filled by commits of a run, and searches of it. Rows have the numbers that SQLite gives them. */
export async function openPostgresWorld(entity: Entity) {
  const bench = new Bench(await postgresSinkKind());
  const plan = { tables: [entity.table], entities: [entity.name], roots: [rootOf(entity.name)] };
  const { commit } = await bench.walking('run-1', plan);
  const prepare = preparedAs(entity.table, entity);
  const options = bench.kind.options(bench.folder);
  if (options.type !== 'postgres') throw new Error('no schema');
  const opened = await openPostgresSearch(options);
  const never = new AbortController().signal;
  const searched = { connector: news, entity };
  const search = async (params: unknown, change: Changed = {}): Promise<SearchAnswer> =>
    await opened.search(searched, params, {
      cursorKey: Buffer.alloc(32, 7),
      scope: 'shop/things',
      clock: systemClock,
      deadlineMs: 60_000,
      signal: never,
      ...change,
    });
  return {
    schema: options.schema,
    store: async (raws: readonly JsonObject[]) => {
      await commit(raws.map(prepare), { entity: entity.name });
    },
    /** In the sink's schema, as its tables' owner. */
    run: async (sql: string) => await bench.kind.ledgerSql(bench.folder, sql),
    /** Holds the table of records, so that whatever reads it waits. */
    lock: async (table: string) => {
      const { url } = await sharedPostgres();
      const client = new pg.Client(url);
      await client.connect();
      await client.query(`BEGIN; LOCK TABLE ${options.schema}.${table} IN ACCESS EXCLUSIVE MODE`);
      const end = async (): Promise<void> => await client.end();
      return { end, [Symbol.asyncDispose]: end };
    },
    indexSql: async () => await opened.indexSql(searched, never),
    search,
    pages: async (params: Readonly<Record<string, unknown>>) =>
      await pagesOf(async (cursor) => await search({ ...params, cursor })),
    [Symbol.asyncDispose]: async () => {
      await opened[Symbol.asyncDispose]();
      await bench.close();
    },
  };
}

/** From now on the server reads rows by these indexes wherever it can, however few they are. */
export async function indexWords({ run, indexSql }: PostgresWorld): Promise<void> {
  for (const sql of await indexSql()) await run(sql);
  await run('ALTER ROLE CURRENT_USER SET enable_seqscan = off');
}
