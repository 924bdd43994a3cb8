import { createHash } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import type { PostgresPlace } from '../../../src/publish/postgres/postgres-target.ts';
import { sharedPostgres, type PrivatePostgres } from '../postgres.ts';
import { addEntity, store, type StoredEntity, type StoredModel } from './stored-model.ts';

type TextRow = Readonly<Record<string, string | null>>;

/** Targets in PostgreSQL, one for each folder of a test, and a client that looks at them. */

/** To be called once in a test file: the client is there before its tests and gone after them. */
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
  return {
    server: () => server,
    client: () => client,
    schemaOf,
    placeOf: (folder: string, deletes: PostgresPlace['deletes'] = 'mark') => ({
      type: 'postgres' as const,
      connection: server.connection,
      schema: schemaOf(folder),
      deletes,
    }),
    /** Values as texts. */
    ask: async (sql: string) => (await client.query<TextRow>(sql)).rows,
  };
}

/** p1, p2, ..., all with the same name. */
export function people(model: StoredModel, count = 3): StoredEntity {
  const entity = addEntity(model, 'people', [
    { name: 'id', type: 'string' },
    { name: 'name', type: 'string' },
  ]);
  for (let id = 1; id <= count; id += 1) store(model, entity, { id: `p${id}`, name: 'Ada' });
  return entity;
}
