import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, afterAll, beforeAll, vi } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { ApiError } from '../../src/service/api-error.ts';
import { askProvider, type Provider, type Providers } from '../../src/service/provider.ts';
import { startService, type Service } from '../../src/service/start-service.ts';
import { filesWith } from '../support/files-with.ts';
import { it } from '../support/it.ts';
import { serveSamples } from '../support/serve-samples.ts';
import {
  apiClient,
  textIn,
  type ApiClient,
  tokenFor,
  askForToken,
  jsonRequest,
  definitions,
  object,
  objects,
  serveApi,
  type ServedApi,
  credentials,
  sampleAccounts,
} from '../support/service/served-api.ts';
import { searchable, statusWhen, definitionNamed, never } from '../support/service/store-world.ts';

describe('connectors', () => {
  const connectors = '/api/v1/integrations/connectors';
  const secret = 'planted-secret-4711';
  const base = {
    workspace_name: 'default',
    connector_type: 'email-marketing',
    credentials: { api_key: secret },
  };

  let api: ServedApi;
  let client: ApiClient;
  const failures: unknown[] = [];

  const open = async (options: Parameters<typeof serveApi>[0] = {}): Promise<void> => {
    api = await serveApi({ onFailure: (error) => failures.push(error), ...options });
    ({ client } = api);
  };
  beforeEach(() => open());
  afterEach(async () => {
    await api.service.close();
    expect(failures.splice(0)).toEqual([]);
  });

  const errorsOf = (body: JsonObject): readonly unknown[] =>
    objects(body['errors']).map(({ field, error_code }) => [field, error_code]);

  describe('creating a connector', () => {
    // Proves specification 1.2, 2.4.2, 4.5.1
    it('makes one that lists, shows and executes like any other', async () => {
      const made = await client.post(connectors, { ...base, name: 'Letters' });
      expect(made.status).toBe(200);
      const id = textIn(made.body, 'id');
      expect(made.body).toMatchObject({
        name: 'Letters',
        summarized_source_template: { name: 'Email marketing' },
        context_store: { readiness: 'Loading' },
      });
      expect((await client.get(`${connectors}/${id}`)).body).toEqual(made.body);
      const listed = objects((await client.get(`${connectors}?workspace_name=default`)).body['data']);
      expect(listed.at(-1)).toMatchObject({ id, name: 'Letters' });
      const { records } = await api.list(id, 'lists');
      expect(records.length).toBeGreaterThan(0);
    });

    // Proves specification 4.5.1
    it('takes the type by definition id or by either name in any case, and no two of them', async () => {
      const id = definitions.get('email-marketing')?.id.toUpperCase() ?? '';
      const ids = [
        { definition_id: id },
        { connector_type: 'EMAIL-marketing' },
        { connector_type: 'Email Marketing' },
        { definition_id: id, connector_type: 'email-marketing' },
      ];
      for (const type of ids) {
        const { credentials, workspace_name } = base;
        const made = await client.post(connectors, { workspace_name, credentials, ...type });
        expect([type, made.status]).toEqual([type, 200]);
      }
      const notes = await client.post(connectors, {
        ...base,
        connector_type: 'workspace-notes',
        definition_id: id,
      });
      expect(notes.status).toBe(404);
      const { connector_type: _type, ...untyped } = base;
      expect((await client.post(connectors, untyped)).status).toBe(422);
    });

    it.each<[string, JsonObject | null, readonly unknown[]]>([
      ['nothing', null, [['body.credentials', 'missing']]],
      ['an empty object', {}, [['body.credentials.api_key', 'missing']]],
      ['a number', { api_key: 4711 }, [['body.credentials.api_key', 'invalid_type']]],
      ['an empty text', { api_key: '' }, [['body.credentials.api_key', 'invalid_type']]],
      ['an object', { api_key: { deep: secret } }, [['body.credentials.api_key', 'invalid_type']]],
      ['half a sign', { api_key: '\ud800' }, [['body.credentials.api_key', 'invalid_type']]],
      ['an unknown field', { api_key: secret, [secret]: 'x' }, [['body.credentials', 'unknown_field']]],
      [
        'an inherited name',
        { toString: secret },
        [
          ['body.credentials.api_key', 'missing'],
          ['body.credentials', 'unknown_field'],
        ],
      ],
    ])(
      'names the fields of wrong credentials (%s) and repeats no value',
      async (_name, credentials, errors) => {
        const { status, body } = await client.post(connectors, { ...base, credentials });
        expect([status, errorsOf(body)]).toEqual([422, errors]);
        expect(JSON.stringify(body)).not.toContain(secret);
        expect(JSON.stringify(body)).not.toContain('4711');
      },
    );

    // Proves specification 5.7
    it('reports on the shape that was meant where a type has several', async () => {
      const notes = { workspace_name: 'default', connector_type: 'workspace-notes' };
      const credentials = { client_id: 'c', client_secret: secret };
      const { status, body } = await client.post(connectors, { ...notes, credentials });
      expect([status, errorsOf(body)]).toEqual([422, [['body.credentials.access_token', 'missing']]]);
      expect((await client.post(connectors, { ...notes, credentials: { token: secret } })).status).toBe(200);
    });

    // Proves specification 4.5.2
    it('makes the workspace that it names', async () => {
      const made = await client.post(connectors, { ...base, workspace_name: 'new one' });
      expect(made.status).toBe(200);
      const found = await client.get(`${connectors}?workspace_name=new%20one`);
      expect(objects(found.body['data']).map(({ id }) => id)).toEqual([made.body['id']]);
    });

    it.each(['', ' ', 'a\nb', 'a\u0000b', '\u202eb', 'x'.repeat(256), '\ud800'])(
      'refuses the name %j of a workspace or a connector',
      async (name) => {
        expect((await client.post(connectors, { ...base, workspace_name: name })).status).toBe(422);
        expect((await client.post(connectors, { ...base, name })).status).toBe(422);
      },
    );
  });

  describe('checking a connector', () => {
    it('says what the third party says of the credentials that it has', async () => {
      const check = async (api_key: string): Promise<JsonObject> => {
        const { body } = await client.post(connectors, { ...base, credentials: { api_key } });
        return (await client.post(`${connectors}/${textIn(body, 'id')}/check`, {})).body;
      };
      expect(await check(secret)).toEqual({ status: 'succeeded', error_message: null });
      const refused = await check(`revoked-${secret}`);
      expect(refused).toEqual({ status: 'failed', error_message: expect.any(String) });
      expect(JSON.stringify(refused)).not.toContain(secret);
    });
  });

  describe('changing and deleting a connector', () => {
    it('changes what is given, and new credentials count at once', async () => {
      const id = textIn((await client.post(connectors, base)).body, 'id');
      const renamed = await client.put(`${connectors}/${id}`, { name: 'Other', credentials: null });
      expect(renamed.body).toMatchObject({ id, name: 'Other' });
      expect((await client.put(`${connectors}/${id}`, {})).body).toEqual(renamed.body);
      const list = { entity: 'lists', action: 'list', params: {} };
      expect((await api.execute(id, list)).status).toBe(200);
      await client.put(`${connectors}/${id}`, { credentials: { api_key: 'revoked' } });
      expect((await api.execute(id, list)).status).toBe(401);
      expect((await client.put(`${connectors}/${id}`, { credentials: { api_key: 1 } })).status).toBe(422);
    });

    it('deletes it with 202 and a job id, once', async () => {
      const { status, body } = await client.delete(`${connectors}/mail-1`);
      expect([status, Object.keys(body)]).toEqual([202, ['job_id']]);
      expect((await client.get(`${connectors}/mail-1`)).status).toBe(404);
      expect((await client.delete(`${connectors}/mail-1`)).status).toBe(404);
      expect((await api.execute('mail-1', { entity: 'lists', action: 'list' })).status).toBe(404);
    });

    it.each(['..%2Fmail-1', '%00', '__proto__', "mail-1'--", 'x'.repeat(90), '%F0%9F%A6%89'])(
      'answers the id %s with 404 everywhere',
      async (id) => {
        const answers = [
          await client.get(`${connectors}/${id}`),
          await client.put(`${connectors}/${id}`, {}),
          await client.delete(`${connectors}/${id}`),
          await client.post(`${connectors}/${id}/check`, {}),
          await client.post(`${connectors}/${id}/execute`, { entity: 'lists', action: 'list' }),
          await client.put(`/api/v1/workspaces/${id}`, { name: 'b' }),
          await client.delete(`/api/v1/workspaces/${id}`),
          await client.get(`/api/v1/integrations/definitions/sources/${id}`),
        ];
        expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404));
      },
    );
  });

  describe('the indexed store of a connector', () => {
    it('fills at once with new credentials, where the old ones were refused', async ({ folder: data }) => {
      const notes = { workspace_name: 'default', connector_type: 'workspace-notes' };
      // A clock by which nothing that waits for its time ever comes to it.
      const sleep = (_ms: number, signal?: AbortSignal): Promise<never> =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        });
      await api.service.close();
      await open({ data, accounts: [], clock: { now: () => Date.now(), sleep } });
      const made = await client.post(connectors, { ...notes, credentials: { token: 'revoked' } });
      const id = textIn(made.body, 'id');
      const { stores } = api.service;
      await statusWhen(stores, id, ({ problem }) => problem?.includes('AUTH_FAILED') === true);
      await client.put(`${connectors}/${id}`, { credentials: { token: secret } });
      await searchable(stores, id);
    });
  });

  describe('credentials', () => {
    // Proves promise 17; specification 5.7
    it('are in no answer, no failure and no file', async ({ folder: data }) => {
      await api.service.close();
      await open({ data, accounts: [] });
      const texts: unknown[] = [];
      const made = await client.post(connectors, base);
      const path = `${connectors}/${textIn(made.body, 'id')}`;
      texts.push(made.body, (await client.get(path)).body);
      texts.push((await client.get(`${connectors}?workspace_name=default`)).body);
      texts.push(
        (await client.put(path, { credentials: { api_key: `${secret}-2`, data_center: secret } })).body,
      );
      texts.push((await client.post(`${path}/check`, {})).body);
      await searchable(api.service.stores, textIn(made.body, 'id'));
      expect(JSON.stringify(texts)).not.toContain(secret);
      expect(filesWith(data, secret)).toEqual([]);
      await api.service.close();
      expect(filesWith(data, secret)).toEqual([]);
      // The search for it would find it: what is stored in the open is there.
      expect(filesWith(data, 'Email marketing (default)').length).toBeGreaterThan(0);

      await open({ data, accounts: [] });
      expect((await client.post(`${path}/check`, {})).body['status']).toBe('succeeded');
    });
  });
});

describe('workspaces', () => {
  const workspaces = '/api/v1/workspaces';
  const connectors = '/api/v1/integrations/connectors';

  let api: ServedApi;
  let client: ApiClient;

  const open = async (options: Parameters<typeof serveApi>[0] = {}): Promise<void> => {
    api = await serveApi(options);
    ({ client } = api);
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
    it('gives all of them in the order of their creation', async () => {
      await make('b', 'c', 'd', 'e');
      const { status, body } = await client.get(`${workspaces}?limit=2`);
      expect([status, body['next']]).toEqual([200, null]);
      expect(objects(body['data']).map(({ name }) => name)).toEqual(['default', 'b', 'c', 'd', 'e']);
    });

    it('filters by a part of the name, taken as it is, and by status', async () => {
      await make('Team %_', 'team b');
      const names = async (query: string): Promise<readonly unknown[]> =>
        objects((await client.get(`${workspaces}?${query}`)).body['data']).map(({ name }) => name);
      expect(await names('name_contains=TEAM')).toEqual(['Team %_', 'team b']);
      expect(await names('name_contains=%25_')).toEqual(['Team %_']);
      expect(await names('status=inactive')).toEqual([]);
      expect(await names('name_contains=team&status=active')).toEqual(['Team %_', 'team b']);
    });
  });

  describe('changing a workspace', () => {
    // Proves specification 4.5.3
    it('renames it, and refuses a name that is taken', async () => {
      await make('b');
      const id = await idOf('b');
      const renamed = await client.put(`${workspaces}/${id}`, { name: 'c' });
      expect(renamed.body).toMatchObject({ id, name: 'c', status: 'active' });
      expect(objects((await client.get(workspaces)).body['data'])).toContainEqual(renamed.body);
      expect((await client.put(`${workspaces}/${id}`, { name: 'default' })).status).toBe(409);
      expect((await client.put(`${workspaces}/${id}`, { name: 'a\u0000' })).status).toBe(422);
      expect((await client.put(`${workspaces}/${id}`, {})).status).toBe(422);
      expect((await client.put(`${workspaces}/${id}`, { name: 'c' })).body).toMatchObject({ name: 'c' });
    });
  });

  describe('deleting a workspace', () => {
    // Proves specification 4.5.3
    it('takes its connectors and its scoped tokens with it', async () => {
      const scoped = apiClient(api.service.url, await tokenFor(api.service.url, credentials, 'default'));
      const id = await idOf('default');
      const { status, body } = await client.delete(`${workspaces}/${id}`);
      expect([status, body]).toEqual([200, { id, deleted_at: expect.any(String) }]);
      expect((await client.get(workspaces)).body['data']).toEqual([]);
      expect((await client.delete(`${workspaces}/${id}`)).status).toBe(404);
      expect((await client.get(`${connectors}/mail-1`)).status).toBe(404);
      expect((await scoped.get(connectors)).status).toBe(401);
    });
  });
});

describe('catalog', () => {
  let api: ServedApi;
  beforeAll(async () => {
    api = await serveApi({
      accounts: [
        ...sampleAccounts('tiny'),
        {
          connectorId: 'mail-2',
          workspace: 'team b',
          definitionName: 'email-marketing',
          seed: 8,
          size: 'tiny',
        },
      ],
    });
  });
  afterAll(() => api.service.close());

  const sources = '/api/v1/integrations/definitions/sources';
  const connectors = '/api/v1/integrations/connectors';
  const mailingId = definitions.get('email-marketing')?.id ?? '';
  const ids = async (query: string): Promise<readonly unknown[]> =>
    objects((await api.call(`${connectors}?${query}`)).body['data']).map(({ id }) => id);

  describe('definitions', () => {
    // Proves specification 2.3.1, 2.3.2, 4.2.1
    it('lists the catalog in the documented shape', async () => {
      const { body } = await api.call(sources);
      expect(Object.keys(body)).toEqual(['definitions']);
      expect(objects(body['definitions']).map(({ name }) => name)).toEqual(
        expect.arrayContaining(['Document library', 'Email marketing', 'Stripe', 'Workspace notes']),
      );
      expect(objects(body['definitions']).find(({ name }) => name === 'Email marketing')).toEqual({
        sourceDefinitionId: mailingId,
        name: 'Email marketing',
        iconUrl: expect.stringMatching(/^https:/),
        supportLevel: 'certified',
      });
    });

    // Proves specification 4.2.3
    it('lists the same catalog where there is no connector', async () => {
      await using empty = await serveApi({ accounts: [] });
      expect(objects((await empty.call(`${connectors}?workspace_name=default`)).body['data'] ?? [])).toEqual(
        [],
      );
      expect((await empty.call(sources)).body).toEqual((await api.call(sources)).body);
    });

    // Proves specification 4.2.2
    it.each([
      ['Mailchimp', ['Email marketing']],
      ['NOTION', ['Workspace notes']],
      ['marketing email', ['Email marketing']],
      ['document-lib', ['Document library']],
      ['email notes', []],
    ])('finds connector types by words of all their names: %s', async (name, expected) => {
      const { body } = await api.call(`${sources}?name=${encodeURIComponent(name)}`);
      expect(objects(body['definitions']).map((found) => found['name'])).toEqual(expected);
    });
  });

  describe('connectors', () => {
    // Proves specification 2.4.2, 4.3.3
    it('lists those of a workspace in the documented shape', async () => {
      const { body } = await api.call(`${connectors}?workspace_name=default`);
      expect(Object.keys(body)).toEqual(['data']);
      const [first] = objects(body['data']);
      expect(first).toMatchObject({ id: 'mail-1', name: expect.any(String), created_at: expect.any(String) });
      expect(object(first?.['summarized_source_template'])).toMatchObject({
        name: 'Email marketing',
        connector_name: 'email-marketing',
        actor_definition_id: mailingId,
      });
    });

    // Proves specification 4.3.1
    it('filters by workspace and definition', async () => {
      expect(await ids('workspace_name=default')).toEqual(['mail-1', 'notes-1']);
      expect(await ids(`workspace_name=default&definition_id=${mailingId}`)).toEqual(['mail-1']);
      expect(await ids(`workspace_name=default&definition_id=${api.service.organizationId}`)).toEqual([]);
      expect(await ids('workspace_name=team+b')).toEqual(['mail-2']);
    });

    // Proves specification 4.3.2
    it('answers an unknown workspace with 404 and a missing one with 422', async () => {
      expect((await api.call(`${connectors}?workspace_name=nowhere`)).status).toBe(404);
      expect((await api.call(connectors)).status).toBe(422);
      expect((await api.call(`${connectors}?workspace_name=default&definition_id=x`)).status).toBe(422);
      expect((await api.call(`${connectors}?workspace_name=a&workspace_name=b`)).status).toBe(422);
    });

    // Proves specification 2.4.1
    it('shows one connector and answers an unknown one with 404', async () => {
      const { status, body } = await api.call(`${connectors}/notes-1`);
      expect([status, body['id']]).toEqual([200, 'notes-1']);
      expect(object(body['summarized_source_template'])['connector_name']).toBe('workspace-notes');
      expect((await api.call(`${connectors}/nobody`)).status).toBe(404);
    });
  });

  describe('starting', () => {
    it('refuses an account of a definition that it does not know, a size out of bounds, and an id given twice', async () => {
      const start = (accounts: Parameters<typeof serveSamples>[0]['accounts']) =>
        serveSamples({ port: 0, ...credentials, definitions, accounts });
      const account = { connectorId: 'a', workspace: 'w', definitionName: 'email-marketing', seed: 1 };
      const tiny = { ...account, size: 'tiny' } as const;
      for (const accounts of [
        [{ ...tiny, definitionName: 'nope' }],
        [{ ...account, size: { members: 1_000_001 } }],
        [tiny, tiny],
      ]) {
        await expect(start(accounts)).rejects.toMatchObject({ code: 'USAGE' });
      }
    });

    it('says where it listens and which connectors it serves, and closes more than once', async () => {
      const own = await serveApi();
      expect(own.service.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
      expect(own.service.connectors).toEqual(['mail-1', 'notes-1']);
      await Promise.all([own.service.close(), own.service.close()]);
      await own.service.close();
      await expect(fetch(own.service.url)).rejects.toThrow();
    });
  });
});

describe('provider', () => {
  const definition = definitionNamed('workspace-notes');
  const client = { client_id: 'local', client_secret: 'a secret of this test' };
  const connectorId = 'notes';
  const opened: Service[] = [];

  afterEach(async () => {
    vi.useRealTimers();
    for (const service of opened.splice(0)) await service.close();
  });

  interface Served {
    readonly service: Service;
    readonly failures: readonly unknown[];
    readonly disposed: () => number;
    /** The status, the body and the headers of an answer to `list` of users, or to a check. */
    readonly post: (
      action: 'execute' | 'check',
    ) => Promise<{ status: number; text: string; headers: Headers }>;
  }

  async function serve(
    list: Provider['list'],
    {
      check = async () => ({ kind: 'sample', why: null }),
      definitionName = definition.name,
    }: Partial<Providers> & {
      readonly definitionName?: string;
    } = {},
  ): Promise<Served> {
    const failures: unknown[] = [];
    let disposed = 0;
    const provider: Provider = { list, get: async () => null, download: async () => null };
    const providers: Providers = {
      open: () => provider,
      check,
      [Symbol.asyncDispose]: async () => void (disposed += 1),
    };
    const starting = startService({
      port: 0,
      clientId: client.client_id,
      clientSecret: client.client_secret,
      definitions: new Map([[definition.name, definition]]),
      connectors: [{ connectorId, definitionName, workspace: 'default' }],
      providers,
      onFailure: (error) => failures.push(error),
    });
    const service = await starting.catch((error: unknown) => {
      throw new Error(`disposed ${disposed} times`, { cause: error });
    });
    opened.push(service);
    const { url } = service;
    const token = textIn((await askForToken(url, client)).body, 'access_token');
    return {
      service,
      failures,
      disposed: () => disposed,
      post: async (action) => {
        const body = action === 'execute' ? { entity: 'users', action: 'list' } : {};
        const path = `/api/v1/integrations/connectors/${connectorId}/${action}`;
        const answer = await fetch(`${url}${path}`, jsonRequest('POST', token, body));
        return { status: answer.status, text: await answer.text(), headers: answer.headers };
      },
    };
  }

  describe('a provider', () => {
    it('that throws an ApiError gives the answer, with its status, body and headers', async () => {
      const refuse = async (): Promise<never> => {
        throw new ApiError(429, 'Slow down.', {
          errorCode: 'upstream_busy',
          headers: { 'retry-after': '7' },
        });
      };
      const { post, failures } = await serve(refuse, { check: refuse });
      for (const action of ['execute', 'check'] as const) {
        const { status, text, headers } = await post(action);
        expect([status, headers.get('retry-after')]).toEqual([429, '7']);
        expect(JSON.parse(text)).toMatchObject({
          message: 'Slow down.',
          errors: [{ error_code: 'upstream_busy' }],
        });
      }
      expect(failures).toEqual([]);
    });

    it('that throws anything else gives a 500 that says nothing of it, and onFailure hears of it', async () => {
      const fault = new TypeError('sk-1 is not a function');
      const { post, failures } = await serve(async () => {
        throw fault;
      });
      const { status, text } = await post('execute');
      expect([status, text.includes('sk-1')]).toEqual([500, false]);
      expect(failures).toEqual([fault]);
    });

    it.each(['execute', 'check'] as const)(
      'that hangs in %s holds up no end of the service',
      async (action) => {
        const asked = new EventTarget();
        const signals: AbortSignal[] = [];
        const hang = async (signal: AbortSignal): Promise<never> => {
          signals.push(signal);
          asked.dispatchEvent(new Event('asked'));
          return await new Promise(() => undefined);
        };
        const served = await serve(({ signal }) => hang(signal), {
          check: (_connector, signal) => hang(signal),
        });
        const begun = once(asked, 'asked');
        const answer = served.post(action).catch(() => 'cut off');
        await begun;
        await served.service.close();
        expect(await answer).toBe('cut off');
        expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
        expect(served.disposed()).toBe(1);
      },
    );

    it('that hangs is given up after 300 seconds, with a 504 and an aborted signal', async () => {
      vi.useFakeTimers();
      const signals: AbortSignal[] = [];
      const late = expect(
        askProvider(never, async (signal) => {
          signals.push(signal);
          return await new Promise(() => undefined);
        }),
      ).rejects.toMatchObject({ status: 504, message: 'The third party did not answer in time.' });
      await vi.advanceTimersByTimeAsync(299_999);
      expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
      await vi.advanceTimersByTimeAsync(1);
      await late;
      expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    });

    it('ends with the service, once, also with one that cannot start', async () => {
      const { service, disposed } = await serve(async () => ({ records: [], metadata: null }));
      await service.close();
      await service.close();
      expect(disposed()).toBe(1);
      const unknown = serve(async () => ({ records: [], metadata: null }), { definitionName: 'unknown' });
      await expect(unknown).rejects.toThrow('disposed 1 times');
    });
  });
});
