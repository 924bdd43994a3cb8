import { createHash } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { openPostgresTarget, type PostgresPlace } from '../../../src/publish/postgres-target.ts';
import { sharedPostgres, type PrivatePostgres } from '../postgres.ts';
import { publishedModel, tableHow, type StoredModel } from './stored-model.ts';

type TextRow = Readonly<Record<string, string | null>>;

export type Mart = Awaited<ReturnType<ReturnType<typeof useMart>['open']>>;

/**
 * Targets in PostgreSQL, one for each folder of a test, and a client that looks at them. To be called once in a test
 * file: the client is there before its tests and gone after them.
 */
export function useMart() {
  let server: PrivatePostgres;
  let client: pg.Client;
  beforeAll(async () => {
    server = await sharedPostgres();
    client = new pg.Client({
      connectionString: server.url,
      types: { getTypeParser: () => (text: string) => text },
    });
    await client.connect();
  });
  afterAll(async () => await client.end());
  const schemaOf = (folder: string): string =>
    `mart_${createHash('md5').update(folder).digest('hex').slice(0, 12)}`;
  const placeOf = (folder: string, deletes: PostgresPlace['deletes'] = 'mark') => ({
    type: 'postgres' as const,
    connection: server.connection,
    schema: schemaOf(folder),
    deletes,
  });
  /** Values as texts. */
  const ask = async (sql: string) => (await client.query<TextRow>(sql)).rows;
  return {
    server: () => server,
    client: () => client,
    schemaOf,
    placeOf,
    /** A target for what a model holds. From now on `ask` looks into its schema. */
    open: async (
      folder: string,
      deletes?: PostgresPlace['deletes'],
      change: Partial<PostgresPlace> = {},
      model?: StoredModel,
    ) => {
      const schema = schemaOf(folder);
      await ask(`SET search_path = ${schema}`);
      const target = openPostgresTarget({ ...placeOf(folder, deletes), ...change }, tableHow);
      return { ...publishedModel(target, model), schema, ask };
    },
  };
}
