import { describe, expect, it } from 'vitest';
import {
  definitionNamed,
  never,
  providerOf,
  sampleOf,
  storeWorld,
} from '../../support/service/store-world.ts';
import { entityNamed } from '../../support/sync-once.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import {
  executeAction,
  type ExecuteAnswer,
  executeBody,
  type ExecuteBody,
} from '../../../src/service/execute/execute-action.ts';
import type { Provider, ProviderFile } from '../../../src/service/provider.ts';
import type { ContextStores } from '../../../src/service/store/context-stores.ts';

const definition = definitionNamed('workspace-notes');
const long = 'x'.repeat(300);
const noStores = storeWorld({ folder: null }).stores;

/** Stores whose every search finds this. */
function finding(data: readonly JsonObject[], asked: JsonObject[] = []): ContextStores {
  return {
    ...noStores,
    search: async (_connector, entity, params) => {
      asked.push({ entity, ...params });
      return { data, meta: { has_more: true, cursor: 'c1', took_ms: 3 } };
    },
  };
}

async function run(
  body: ExecuteBody,
  { stores = noStores, provider = providerOf('workspace-notes', sampleOf('workspace-notes')) } = {},
): Promise<ExecuteAnswer> {
  return await executeAction({ connectorId: 'one', definition, provider, stores, body, signal: never });
}

describe('an execute call', () => {
  it.each(['context_store_search', 'search'])(
    'runs %s in the store and gives data and meta',
    async (action) => {
      const asked: JsonObject[] = [];
      const stores = finding([{ id: 'a', name: long }], asked);
      expect(await run({ entity: 'users', action, params: { query: {}, nonsense: 1 } }, { stores })).toEqual({
        kind: 'envelope',
        result: { data: [{ id: 'a', name: long }], meta: { has_more: true, cursor: 'c1', took_ms: 3 } },
        connectorMetadata: null,
      });
      expect(asked).toEqual([{ entity: 'users', query: {}, limit: 1000 }]);
    },
  );

  it('selects, leaves out and cuts what a search found as it does with a list', async () => {
    const stores = finding([{ id: 'a', name: long, person: { email: 'e', phone: 'p' } }]);
    const search = { entity: 'users', action: 'search', params: { query: {} } };
    const dataOf = async (more: Partial<ExecuteBody>): Promise<unknown> => {
      const answer = await run({ ...search, ...more }, { stores });
      return answer.kind === 'envelope' && 'data' in answer.result ? answer.result['data'] : answer;
    };
    expect(await dataOf({ select_fields: ['person.email'] })).toEqual([{ person: { email: 'e' } }]);
    expect(await dataOf({ exclude_fields: ['person', 'name'] })).toEqual([{ id: 'a' }]);
    expect(await dataOf({ skip_truncation: false, select_fields: ['name'] })).toEqual([
      {
        name: `${'x'.repeat(200)}... [truncated — use \`get\` action with the record id to retrieve the full value]`,
      },
    ]);
  });

  it('asks the store only with a query, and passes on that it is not ready', async () => {
    await expect(run({ entity: 'users', action: 'search' })).rejects.toMatchObject({ status: 400 });
    await expect(run({ entity: 'users', action: 'search', params: { query: [] } })).rejects.toMatchObject({
      status: 400,
      body: { errors: [{ field: 'params.query' }] },
    });
    await expect(run({ entity: 'users', action: 'search', params: { query: {} } })).rejects.toMatchObject({
      status: 400,
      body: { errors: [{ error_code: 'context_store_not_ready' }] },
    });
  });

  it('answers 404 for a record that is not there, 400 for what is not offered', async () => {
    const unknown = run({ entity: 'users', action: 'get', params: { user_id: 'nobody' } });
    await expect(unknown).rejects.toMatchObject({ status: 404 });
    await expect(run({ entity: '__proto__', action: 'list' })).rejects.toMatchObject({ status: 400 });
    await expect(run({ entity: 'users', action: 'constructor' })).rejects.toMatchObject({ status: 400 });
    await expect(run({ entity: 'users', action: 'download' })).rejects.toMatchObject({ status: 400 });
  });

  it('gives the file of a download, and one without bytes for an unknown id', async () => {
    const users = entityNamed(definition, 'users');
    const get = users.actions.get('get');
    if (get === undefined) throw new Error('users have no get');
    const withFiles = {
      ...definition,
      entities: new Map(definition.entities).set(users.name, {
        ...users,
        actions: new Map(users.actions).set('download', get),
      }),
    };
    const file: ProviderFile = { name: 'a', contentType: 'text/plain', size: 1, read: async function* () {} };
    const provider: Provider = {
      ...providerOf('workspace-notes', sampleOf('workspace-notes')),
      download: async ({ params }) => (params['user_id'] === 'known' ? file : null),
    };
    const download = async (user_id: string): Promise<ExecuteAnswer> =>
      await executeAction({
        connectorId: 'one',
        definition: withFiles,
        provider,
        stores: noStores,
        body: { entity: 'users', action: 'download', params: { user_id } },
        signal: never,
      });
    expect(await download('known')).toEqual({ kind: 'file', file });
    const none = await download('unknown');
    expect(none).toMatchObject({ kind: 'file', file: { size: 0 } });
    const chunks: Uint8Array[] = [];
    if (none.kind === 'file') for await (const chunk of none.file.read(never)) chunks.push(chunk);
    expect(chunks).toEqual([]);
  });

  it('takes a body as clients send it, null for what they leave out', () => {
    const body = { entity: 'users', action: 'list', params: null, select_fields: null, intent: null };
    expect(executeBody.safeParse(body).success).toBe(true);
    for (const wrong of [
      {},
      { entity: 1, action: 'list' },
      { ...body, params: [] },
      { ...body, intent: 'x'.repeat(513) },
    ]) {
      expect(executeBody.safeParse(wrong).success).toBe(false);
    }
  });
});
