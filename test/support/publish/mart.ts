import { createHash } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect } from 'vitest';
import { openPostgresTarget, type PostgresPlace } from '../../../src/publish/postgres/postgres-target.ts';
import type { Target } from '../../../src/publish/target.ts';
import { untilEnd } from '../../contracts/target-contract.ts';
import { sharedPostgres, type PrivatePostgres } from '../postgres.ts';
import {
  addEntity,
  emptyModel,
  publishModel,
  store,
  type PublishModel,
  type StoredEntity,
  type StoredModel,
} from './stored-model.ts';

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
      model: StoredModel = emptyModel(),
    ) => {
      const target: Target = openPostgresTarget({ ...placeOf(folder, deletes), ...change }, untilEnd);
      const publish = async (how?: PublishModel) => await publishModel(target, model, how);
      const schema = schemaOf(folder);
      await ask(`SET search_path = ${schema}`);
      return {
        model,
        target,
        schema,
        ask,
        publish,
        /** Publishes the first people. */
        begin: async (count?: number): Promise<StoredEntity> => {
          const entity = people(model, count);
          await publish();
          return entity;
        },
        /** Publishes a new generation of people. */
        again: async (count: number): Promise<void> => {
          people(model, count);
          await publish();
        },
        problems: async () => (await target.check(untilEnd)).problems,
        refused: async (message: RegExp, code = 'TARGET_INCOMPATIBLE'): Promise<void> =>
          await expect(publish()).rejects.toMatchObject({ code, message: expect.stringMatching(message) }),
        [Symbol.asyncDispose]: async () => await target[Symbol.asyncDispose](),
      };
    },
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
