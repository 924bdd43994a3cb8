import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apiEndpoints } from '../../src/service/routes/api-endpoints.ts';
import { object, objects, serveApi, text, type ServedApi } from '../support/service/served-api.ts';

let api: ServedApi;
beforeAll(async () => {
  api = await serveApi();
});
afterAll(() => api.service.close());

const workspaces = '/api/v1/workspaces';
const send = (path: string, method = 'GET'): Promise<Response> =>
  fetch(`${api.service.url}${path}`, { method, headers: { authorization: `Bearer ${api.token}` } });

describe('HEAD', () => {
  const paths = apiEndpoints
    .filter(({ method, path }) => method === 'GET' && !path.includes('{'))
    .map(({ path, example }) => `${path}?${new URLSearchParams(example.query).toString()}`);

  it.each(paths)('answers %s as GET does, without the body', async (path) => {
    const [get, head] = [await send(path), await send(path, 'HEAD')];
    const body = await get.arrayBuffer();
    expect([head.status, (await head.arrayBuffer()).byteLength]).toEqual([get.status, 0]);
    expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'));
    expect(head.headers.get('content-length')).toBe(String(body.byteLength));
  });

  it('wants a token where GET does', async () => {
    expect((await fetch(`${api.service.url}${workspaces}`, { method: 'HEAD' })).status).toBe(401);
    expect((await fetch(`${api.service.url}/openapi.json`, { method: 'HEAD' })).status).toBe(200);
  });
});

describe('a method that a path does not have', () => {
  it.each([
    ['POST', '/openapi.json', 'GET, HEAD'],
    ['PATCH', workspaces, 'GET, HEAD'],
    ['DELETE', '/api/v1/integrations/connectors', 'GET, HEAD, POST'],
    ['GET', '/api/v1/integrations/connectors/mail-1/execute', 'POST'],
    ['OPTIONS', `${workspaces}/0`, 'GET, HEAD, PUT, DELETE'],
  ])('is refused with 405 and Allow: %s %s', async (method, path, allow) => {
    const response = await send(path, method);
    expect([response.status, response.headers.get('allow')]).toEqual([405, allow]);
    expect(await response.json()).toMatchObject({
      message: `This path does not take ${method}; it takes ${allow}.`,
    });
  });

  it('is 404 where there is no such path, and 401 without a token', async () => {
    expect((await send('/api/v1/nothing', 'PATCH')).status).toBe(404);
    expect((await fetch(`${api.service.url}${workspaces}`, { method: 'PATCH' })).status).toBe(401);
  });
});

describe('a check of a connector', () => {
  it.each<[string, RequestInit]>([
    ['no body', {}],
    ['no body, but its type', { headers: { 'content-type': 'application/json' } }],
    ['an empty object', { headers: { 'content-type': 'application/json' }, body: '{}' }],
  ])('takes %s for its own credentials', async (_, init) => {
    const answer = await api.call('/api/v1/integrations/connectors/mail-1/check', {
      method: 'POST',
      ...init,
    });
    expect([answer.status, answer.body['status']]).toEqual([200, 'succeeded']);
  });
});

describe('the address of the next page', () => {
  const next = async (served: ServedApi): Promise<string> => {
    const answer = await served.call(`${workspaces}?limit=1`, {
      headers: { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'evil.example' },
    });
    return text(answer.body['next']);
  };

  it('is HTTPS where a trusted proxy says so, and of the host that was asked', async () => {
    for (const [trustedProxies, protocol] of [
      [[], 'http:'],
      [['10.1.2.3'], 'http:'],
      [['127.0.0.0/8'], 'https:'],
    ] as const) {
      await using served = await serveApi({ trustedProxies });
      await served.call('/api/v1/account/applications/scoped-token', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ workspace_name: 'another' }),
      });
      const url = new URL(await next(served));
      expect([url.protocol, url.host]).toEqual([protocol, new URL(served.service.url).host]);
    }
  });
});

describe('the limit of a list of workspaces', () => {
  it.each(['0x10', '1e1', ' 5 ', '5.0', '+5', '', '0', '101', '9'.repeat(30)])(
    'is no %j: the refusal names the range',
    async (limit) => {
      const { status, body } = await api.call(`${workspaces}?limit=${encodeURIComponent(limit)}`);
      expect(status).toBe(422);
      expect(object(objects(body['errors'])[0])).toMatchObject({
        field: 'query.limit',
        message: 'Expected a whole number from 1 to 100, in decimal digits.',
      });
    },
  );
});

describe('the limit of a name', () => {
  const named = async (name: string): Promise<number> =>
    (
      await api.call('/api/v1/account/applications/scoped-token', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ workspace_name: name }),
      })
    ).status;

  it('counts characters, of which an emoji is one', async () => {
    expect([await named('😀'.repeat(255)), await named('😀'.repeat(256))]).toEqual([200, 422]);
    expect([await named('n'.repeat(255)), await named('n'.repeat(256))]).toEqual([200, 422]);
  });
});
