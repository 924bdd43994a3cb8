import { describe, expect, it, afterEach } from 'vitest';
import type { ConnectorId } from '../../src/core/names.ts';
import { callFacts, CallFailure, onceOnly, classifyThrown } from '../../src/source/api/call-failure.ts';
import { openAdministration, resolveConnector } from '../../src/source/api/open-api-client.ts';
import { openApiSource } from '../../src/source/api/open-api-source.ts';
import { type HostileChange, startHostileServer, type HostileServer } from '../support/hostile-server.ts';
import {
  type Reply,
  apiError,
  html,
  json,
  text,
  throttled,
  success,
  held,
} from '../support/hostile/replies.ts';
import { instantClock } from '../support/instant-clock.ts';
import { openPromise } from '../support/open-promise.ts';
import {
  connectorId,
  failureOf,
  never,
  openTestSource,
  type TestSource,
  type TestSourceOptions,
  openTestClient,
} from '../support/source/open-test-source.ts';
import { entityName, testDefinition } from '../support/source/test-definition.ts';

const start = async (
  options: TestSourceOptions,
): Promise<{
  readonly administration: ReturnType<typeof openAdministration>;
  readonly server: TestSource['server'];
}> => {
  const { client, server } = await openTestSource(options);
  return { administration: openAdministration(client, server.baseUrl), server };
};

const everything = { nameContains: null, status: null } as const;
const workspace = (name: string) => ({ id: `id-${name}`, name, status: 'active', created_at: null });
const newConnector = {
  workspace: 'default',
  definitionId: 'd1',
  name: null,
  credentials: { api_key: 'planted-api-key-4711-us6' },
};

describe('workspaces', () => {
  it('are read page by page, with the cursor that is inside next', async () => {
    const queries: string[] = [];
    const { administration } = await start({
      respondGet: (path, query) => {
        if (!path.endsWith('/workspaces')) return null;
        queries.push(query.toString());
        const next = '/api/v1/workspaces?limit=100&cursor=a%2Bb%2F%3D';
        return query.get('cursor') === null
          ? json(200, { data: [workspace('one')], next })
          : json(200, { data: [workspace('two')], next: null });
      },
    });
    const found = await administration.workspaces({ nameContains: 'o & p', status: 'active' }, never);
    expect(found.map(({ name }) => name)).toEqual(['one', 'two']);
    expect(queries).toEqual([
      'limit=100&name_contains=o+%26+p&status=active',
      'limit=100&name_contains=o+%26+p&status=active&cursor=a%2Bb%2F%3D',
    ]);
  });

  it.each([
    ['another host', 'http://evil.example/api/v1/workspaces?cursor=x'],
    ['another port', 'http://127.0.0.1:1/api/v1/workspaces?cursor=x'],
    ['no http', 'file:///etc/passwd?cursor=x'],
    ['no cursor', '/api/v1/workspaces?limit=2'],
    ['no URL', 'http://'],
  ])('are not read on where next is of %s', async (_title, next) => {
    const { administration, server } = await start({
      respondGet: () => json(200, { data: [workspace('one')], next }),
    });
    const error = await failureOf(administration.workspaces(everything, never));
    expect(error).toMatchObject({ code: 'BODY_INVALID', recovery: 'stop' });
    expect(error.message).toContain('expected next to be a URL of the same service');
    expect(server.requests.filter((line) => line.endsWith('/workspaces'))).toHaveLength(1);
  });
});

describe('a definition', () => {
  it('is found by its id, which leads to no other endpoint', async () => {
    const { administration, server } = await start({
      respondGet: (path) => (path.endsWith('/sources/d-1') ? json(200, { name: 'One', spec: {} }) : null),
    });
    expect(await administration.definition('d-1', never)).toEqual({
      id: null,
      name: 'One',
      supportLevel: null,
    });
    const before = server.requests.length;
    expect(await failureOf(administration.definition('../connectors', never))).toMatchObject({
      code: 'USAGE',
    });
    expect(server.requests).toHaveLength(before);
  });
});

describe('a connector', () => {
  const changing = async (
    respondChange: (change: HostileChange, index: number) => Reply | null,
    limits?: TestSourceOptions['limits'],
  ) => {
    const changes: HostileChange[] = [];
    const { administration, server } = await start({
      ...(limits === undefined ? {} : { limits }),
      respondChange: (change) => respondChange(change, changes.push(change) - 1),
    });
    return { administration, server, changes };
  };

  it('is created with what was asked for and nothing else', async () => {
    const { administration, changes } = await changing(() => json(200, { id: 'c-9', name: 'N' }));
    expect(await administration.createConnector(newConnector, never)).toEqual({ id: 'c-9', name: 'N' });
    expect(changes).toEqual([
      {
        method: 'POST',
        path: '/api/v1/integrations/connectors',
        body: {
          workspace_name: 'default',
          definition_id: 'd1',
          credentials: { api_key: 'planted-api-key-4711-us6' },
        },
      },
    ]);
  });

  // Proves promise 17
  it.each<[string, Reply, string]>([
    ['500', apiError(500, 'oops'), 'UPSTREAM'],
    ['503', html(503), 'UPSTREAM'],
    ['504', apiError(504, 'slow'), 'TIMEOUT'],
    ['a body that is none', json(200, { id: '../x' }), 'BODY_INVALID'],
    ['a cut connection', ({ request }) => void request.socket.destroy(), 'NETWORK'],
    ['silence', () => undefined, 'TIMEOUT'],
  ])('is asked for once where the answer is %s: it may be there', async (title, reply, code) => {
    const limits = title === 'silence' ? { attemptTimeoutMs: 300 } : {};
    const { administration, changes } = await changing(() => reply, limits);
    const error = await failureOf(administration.createConnector(newConnector, never));
    expect(error).toMatchObject({ code, recovery: 'stop' });
    expect(error.message).toContain('it may have taken effect: check before you repeat it');
    expect(changes).toHaveLength(1);
  });

  it.each<[string, Reply]>([
    ['409', apiError(409, 'There is one of this name')],
    ['422', apiError(422, 'credentials.api_key: is missing')],
  ])('is asked for once where the service refuses with %s', async (_title, reply) => {
    const { administration, changes } = await changing(() => reply);
    expect(await failureOf(administration.createConnector(newConnector, never))).toMatchObject({
      code: 'REQUEST_REFUSED',
    });
    expect(changes).toHaveLength(1);
  });

  it('is asked for again where nothing was done: too many requests, an expired token', async () => {
    const { administration, changes, server } = await changing((_change, index) =>
      index === 0 ? throttled({ seconds: 1 }) : json(200, { id: 'c-9' }),
    );
    await administration.workspaces(everything, never).catch(() => undefined);
    server.expireTokens();
    expect((await administration.createConnector(newConnector, never)).id).toBe('c-9');
    expect(changes).toHaveLength(2);
    expect(server.tokensIssued()).toBe(2);
  });

  it.each([
    ['ECONNREFUSED', true],
    ['EAI_AGAIN', true],
    ['UND_ERR_CONNECT_TIMEOUT', true],
    ['ECONNRESET', false],
    ['EPIPE', false],
    ['UND_ERR_SOCKET', false],
    ['UND_ERR_HEADERS_TIMEOUT', false],
  ])('is, after %s, asked for again: %s', (cause, isRepeated) => {
    const thrown = Object.assign(new Error('x'), { code: cause });
    const failure = classifyThrown(thrown, callFacts('catalog', 'create the connector', { isWrite: true }));
    const once = onceOnly(failure);
    expect(once).toBeInstanceOf(CallFailure);
    expect(once instanceof CallFailure && once.retry !== null).toBe(isRepeated);
  });

  it.each<[string, Reply, string | null]>([
    ['a job', json(202, { job_id: 'j-1' }), 'j-1'],
    ['no job', json(202, {}), null],
    ['no body', text(204, ''), null],
  ])('is deleted, which the service answers with %s', async (_title, reply, job) => {
    const { administration, changes } = await changing(() => reply);
    expect(await administration.deleteConnector(connectorId('c-9'), never)).toBe(job);
    expect(changes).toEqual([{ method: 'DELETE', path: '/api/v1/integrations/connectors/c-9', body: {} }]);
  });

  it('leaves its credentials out of every message', async () => {
    const { administration } = await changing(({ body }) => apiError(400, JSON.stringify(body)));
    const { message } = await failureOf(administration.createConnector(newConnector, never));
    expect(message).not.toContain('planted-api-key');
  });
});

let open: TestSource;

const definition = testDefinition();
const inWorkspace = () =>
  resolveConnector(open.client, definition, { kind: 'workspace', workspace: 'my space & more' }, never);

describe('a connector in a workspace', () => {
  // Proves specification 4.3.4
  it('is found by workspace and definition, and read from', async () => {
    const queries: string[] = [];
    open = await openTestSource({
      connectors: [
        { id: 'other', name: 'Other', definitionId: 'another-type' },
        { id: 'mine', name: 'Mine', definitionId: definition.id },
      ],
      respondGet: (_path, query) => {
        queries.push(query.toString());
        return null;
      },
      respond: () => success([1]),
    });
    const found = await inWorkspace();
    expect(found).toBe('mine');
    const source = openApiSource(open.client, {
      definition,
      connectorId: found,
      address: 'https://api.example.com',
      concurrency: 1,
      requestsPerSecond: 1000,
    });
    expect(queries).toEqual([`workspace_name=my+space+%26+more&definition_id=${definition.id}`]);
    await source.list({ entity: entityName('members'), params: {}, isRoot: true }, never);
    expect(open.server.calls[0]?.connectorId).toBe('mine');
  });

  it('is found although the service ignores the filter or leaves the data wrapper out', async () => {
    const of = (id: string, type: string) => ({
      id,
      name: id,
      source_template: { actor_definition_id: type },
    });
    open = await openTestSource({
      respondGet: () => json(200, [of('other', 'another-type'), of('mine', definition.id.toUpperCase())]),
    });
    expect(await inWorkspace()).toBe('mine');
  });

  it('is unknown when there is none', async () => {
    open = await openTestSource({ connectors: [] });
    expect(await failureOf(inWorkspace())).toMatchObject({ code: 'CONNECTOR_UNKNOWN', recovery: 'stop' });
  });

  it('is unknown when the workspace is', async () => {
    open = await openTestSource({ respondGet: () => apiError(404, 'Workspace not found') });
    expect(await failureOf(inWorkspace())).toMatchObject({ code: 'CONNECTOR_UNKNOWN', recovery: 'stop' });
  });

  it('is ambiguous when there are several, and they are named', async () => {
    open = await openTestSource({
      connectors: [
        { id: 'c1', name: 'One', definitionId: definition.id },
        { id: 'c2', name: 'Two', definitionId: definition.id },
      ],
    });
    const error = await failureOf(inWorkspace());
    expect(error).toMatchObject({ code: 'CONNECTOR_AMBIGUOUS', recovery: 'stop' });
    expect(error.message).toContain('c1 (One), c2 (Two)');
  });
});

describe('the client', () => {
  it('reads the catalog of definitions', async () => {
    open = await openTestSource();
    expect(await open.client.definitions('Exam', never)).toEqual([
      { id: 'd', name: 'Example', supportLevel: 'certified' },
    ]);
  });

  it('reads one connector', async () => {
    open = await openTestSource();
    expect(await open.client.connector(connectorId('c1'), never)).toEqual({
      id: 'c1',
      name: 'One',
      definitionId: definition.id,
      account: null,
    });
  });

  it('knows an unknown connector', async () => {
    open = await openTestSource();
    expect(await failureOf(open.client.connector(connectorId('c9'), never))).toMatchObject({
      code: 'CONNECTOR_UNKNOWN',
      recovery: 'stop',
    });
  });

  it.each([[[]], [{ definitions: {} }], [{ definitions: [{ name: 5 }] }]])(
    'refuses a catalog of another shape: %j',
    async (body) => {
      open = await openTestSource({ respondGet: () => json(200, body), limits: { retries: 1 } });
      expect(await failureOf(open.client.definitions(null, never))).toMatchObject({ code: 'BODY_INVALID' });
    },
  );
});

describe('look ups', () => {
  const { signal: never } = new AbortController();
  const id = 'c1' as ConnectorId;
  const found = json(200, { id: 'c1', name: 'One', source_template: { actor_definition_id: 'd1' } });
  const cacheForMs = 60_000;
  let server: HostileServer | null = null;
  afterEach(() => server?.[Symbol.asyncDispose]());

  async function serve(respondGet: (index: number) => Reply) {
    let asked = 0;
    server = await startHostileServer({ respondGet: () => respondGet(asked++) });
    const clock = instantClock();
    const client = openTestClient(server.baseUrl, { clock, cacheForMs });
    return { client, clock, asked: () => asked };
  }

  describe('a look-up of a connector', () => {
    it('is made once for all that ask within the time that it counts', async () => {
      const { client, clock, asked } = await serve(() => found);
      const all = await Promise.all(Array.from({ length: 20 }, () => client.connector(id, never)));
      expect(new Set(all.map(({ definitionId }) => definitionId))).toEqual(new Set(['d1']));
      await client.connector(id, never);
      expect(asked()).toBe(1);
      await clock.sleep(cacheForMs, never);
      await client.connector(id, never);
      expect(asked()).toBe(2);
    });

    it('is made again where a fresh answer is asked for, which then counts for all', async () => {
      const { client, asked } = await serve((index) => (index === 0 ? found : apiError(404, 'no connector')));
      await client.connector(id, never);
      await expect(client.connector(id, never, { isFresh: true })).rejects.toMatchObject({
        code: 'CONNECTOR_UNKNOWN',
      });
      await expect(client.connector(id, never)).rejects.toMatchObject({ code: 'CONNECTOR_UNKNOWN' });
      expect(asked()).toBe(3);
    });

    it('is not kept when it failed', async () => {
      const { client } = await serve((index) => (index === 0 ? apiError(403, 'no') : found));
      await expect(client.connector(id, never)).rejects.toMatchObject({ code: 'FORBIDDEN' });
      expect(await client.connector(id, never)).toMatchObject({ id: 'c1' });
    });

    it('continues for the other callers when the first one aborts', async () => {
      const answer = openPromise();
      const { client, asked } = await serve(() => held(answer.promise, found));
      const leaving = new AbortController();
      const first = client.connector(id, leaving.signal);
      const second = client.connector(id, never);
      leaving.abort(new Error('left'));
      await expect(first).rejects.toThrow('left');
      answer.resolve();
      expect(await second).toMatchObject({ id: 'c1' });
      expect(asked()).toBe(1);
    });
  });
});
