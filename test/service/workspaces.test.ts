import { afterEach, beforeEach, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { apiClient, textIn, tokenFor, type ApiClient } from '../support/service/api-client.ts';
import {
  credentials,
  object,
  objects,
  sampleAccounts,
  serveApi,
  type ServedApi,
} from '../support/service/served-api.ts';
import { searchable } from '../support/service/store-world.ts';

const workspaces = '/api/v1/workspaces';
const connectors = '/api/v1/integrations/connectors';

let api: ServedApi;
let client: ApiClient;

const open = async (options: Parameters<typeof serveApi>[0] = {}): Promise<void> => {
  api = await serveApi(options);
  client = apiClient(api.service.url, api.token);
};
beforeEach(() => open());
afterEach(() => api.service.close());

const make = async (...names: readonly string[]): Promise<void> => {
  for (const workspace_name of names) {
    await client.post('/api/v1/account/applications/scoped-token', { workspace_name });
  }
};
const idOf = async (name: string): Promise<string> => {
  const { body } = await client.get(`${workspaces}?name_contains=${encodeURIComponent(name)}`);
  return textIn(objects(body['data'])[0] ?? {}, 'id');
};

describe('listing workspaces', () => {
  // Proves specification 4.5.3
  it('gives pages whose next is an address with a cursor in it, each workspace once', async () => {
    await make('b', 'c', 'd', 'e');
    const seen: unknown[] = [];
    let path: string | null = `${workspaces}?limit=2`;
    for (let pages = 0; path !== null && pages < 10; pages += 1) {
      const { status, body }: Awaited<ReturnType<ApiClient['get']>> = await client.get(path);
      expect(status).toBe(200);
      seen.push(objects(body['data']).map(({ name }) => name));
      const next: string | null = body['next'] === null ? null : textIn(body, 'next');
      if (next !== null) {
        expect(next).toMatch(new RegExp(`^${api.service.url}${workspaces}\\?limit=2&cursor=`));
      }
      path = next === null ? null : next.slice(api.service.url.length);
    }
    expect(seen).toEqual([['default', 'b'], ['c', 'd'], ['e']]);
  });

  it('continues after workspaces that were deleted meanwhile', async () => {
    await make('b', 'c', 'd');
    const first = await client.get(`${workspaces}?limit=2`);
    for (const one of objects(first.body['data'])) await client.delete(`${workspaces}/${textIn(one, 'id')}`);
    const { body } = await client.get(textIn(first.body, 'next').slice(api.service.url.length));
    expect(objects(body['data']).map(({ name }) => name)).toEqual(['c', 'd']);
  });

  it('filters by a part of the name, taken as it is, and by status', async () => {
    await make('Team %_', 'team b');
    const names = async (query: string): Promise<readonly unknown[]> =>
      objects((await client.get(`${workspaces}?${query}`)).body['data']).map(({ name }) => name);
    expect(await names('name_contains=TEAM')).toEqual(['Team %_', 'team b']);
    expect(await names('name_contains=%25_')).toEqual(['Team %_']);
    await client.put(`${workspaces}/${await idOf('team b')}`, { status: 'inactive' });
    expect(await names('status=inactive')).toEqual(['team b']);
    expect(await names('name_contains=team&status=active&limit=1')).toEqual(['Team %_']);
    expect((await client.get(`${workspaces}/stats`)).body).toEqual({
      active_count: 2,
      inactive_count: 1,
      total_count: 3,
    });
  });

  it.each(['limit=0', 'limit=101', 'limit=1.5', 'limit=x', 'status=gone'])(
    'refuses %s with 422',
    async (query) => {
      expect((await client.get(`${workspaces}?${query}`)).status).toBe(422);
    },
  );

  it.each(['x', '', 'bm8', 'NmUwMGI0MTUtYjAyZS00MTYwLWJmMDItNTgxNzZhMGFlNjg3'])(
    'refuses the cursor "%s", which it never gave, with 400',
    async (cursor) => {
      expect((await client.get(`${workspaces}?cursor=${cursor}`)).status).toBe(400);
    },
  );
});

describe('changing a workspace', () => {
  // Proves specification 4.5.3
  it('changes what is given and refuses a name that is taken', async () => {
    await make('b');
    const id = await idOf('b');
    const renamed = await client.put(`${workspaces}/${id}`, { name: 'c', status: null });
    expect(renamed.body).toMatchObject({ id, name: 'c', status: 'active', cache_enabled: true });
    expect((await client.get(`${workspaces}/${id}`)).body).toEqual(renamed.body);
    expect((await client.put(`${workspaces}/${id}`, { name: 'default' })).status).toBe(409);
    expect((await client.put(`${workspaces}/${id}`, { name: 'a\u0000' })).status).toBe(422);
    expect((await client.put(`${workspaces}/${id}`, { status: 'paused' })).status).toBe(422);
    expect((await client.put(`${workspaces}/${id}`, {})).body).toEqual(renamed.body);
  });

  it('disables the connectors of an inactive workspace, and enables them again', async () => {
    const id = await idOf('default');
    const list = { entity: 'lists', action: 'list' };
    await client.put(`${workspaces}/${id}`, { status: 'inactive' });
    const refused = await api.execute('mail-1', list);
    expect([refused.status, objects(refused.body['errors'])[0]?.['error_code']]).toEqual([
      403,
      'workspace_inactive',
    ]);
    const inspected = await client.get(`${connectors}/mail-1/inspect`);
    expect(inspected.body['warnings']).toContain('The workspace is inactive: its connectors are disabled.');
    await client.put(`${workspaces}/${id}`, { status: 'active' });
    expect((await api.execute('mail-1', list)).status).toBe(200);
  });

  it('drops the indexed stores without cache_enabled, and fills them again with it', async ({
    folder: data,
  }) => {
    await api.service.close();
    await open({ data, accounts: sampleAccounts('tiny').slice(0, 1) });
    const search = { entity: 'lists', action: 'search', params: { query: {} } };
    const readiness = async (): Promise<unknown> => {
      const { body } = await client.get(`${connectors}/mail-1/inspect`);
      return object(body['context_store_readiness'])['readiness'];
    };
    await searchable(api.service.stores, 'mail-1');
    expect((await api.execute('mail-1', search)).status).toBe(200);
    const id = await idOf('default');
    for (const [off, on] of [
      [{ cache_enabled: false }, { cache_enabled: true }],
      [{ status: 'inactive' }, { status: 'active' }],
    ] as const) {
      await client.put(`${workspaces}/${id}`, off);
      expect(await readiness()).toBe('Loading');
      expect((await api.execute('mail-1', search)).status).toBe('status' in off ? 403 : 400);
      await client.put(`${workspaces}/${id}`, on);
      await searchable(api.service.stores, 'mail-1');
      expect((await api.execute('mail-1', search)).status).toBe(200);
    }
  });
});

describe('deleting a workspace', () => {
  // Proves specification 4.5.3
  it('takes its connectors and its scoped tokens with it', async () => {
    const scoped = apiClient(api.service.url, await tokenFor(api.service.url, credentials, 'default'));
    const id = await idOf('default');
    const { status, body } = await client.delete(`${workspaces}/${id}`);
    expect([status, body]).toEqual([200, { id, deleted_at: expect.any(String) }]);
    expect((await client.get(`${workspaces}/${id}`)).status).toBe(404);
    expect((await client.delete(`${workspaces}/${id}`)).status).toBe(404);
    expect((await client.get(`${connectors}/mail-1`)).status).toBe(404);
    expect((await scoped.get('/api/v1/account/applications/scoped-token/info')).status).toBe(401);
  });
});
