import { describe, expect, it } from 'vitest';
import { callFacts, CallFailure, onceOnly, classifyThrown } from '../../../src/source/api/call-failure.ts';
import { openAdministration, type Administration } from '../../../src/source/api/open-api-client.ts';
import type { Reply } from '../../support/hostile/exchange.ts';
import { apiError, html, json, text, throttled } from '../../support/hostile/replies.ts';
import type { HostileChange } from '../../support/hostile-server.ts';
import {
  connectorId,
  failureOf,
  never,
  openTestSource,
  type TestSource,
  type TestSourceOptions,
} from '../../support/source/open-test-source.ts';

const start = async (
  options: TestSourceOptions,
): Promise<{ readonly administration: Administration; readonly server: TestSource['server'] }> => {
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

  it('end in an error where a cursor comes again', async () => {
    const { administration, server } = await start({
      respondGet: () => json(200, { data: [], next: '/api/v1/workspaces?cursor=same' }),
    });
    expect(await failureOf(administration.workspaces(everything, never))).toMatchObject({
      code: 'PAGING_BROKEN',
    });
    expect(server.requests.filter((line) => line.endsWith('/workspaces'))).toHaveLength(2);
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

  it('is not deleted a second time where the first answer was lost', async () => {
    const { administration, changes } = await changing(() => apiError(502, 'gone'));
    expect(await failureOf(administration.deleteConnector(connectorId('c-9'), never))).toMatchObject({
      code: 'UPSTREAM',
      recovery: 'stop',
    });
    expect(changes).toHaveLength(1);
  });

  it('leaves its credentials out of every message', async () => {
    const { administration } = await changing(({ body }) => apiError(400, JSON.stringify(body)));
    const { message } = await failureOf(administration.createConnector(newConnector, never));
    expect(message).not.toContain('planted-api-key');
  });
});
