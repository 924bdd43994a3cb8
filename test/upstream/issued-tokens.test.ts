import { describe, expect, it } from 'vitest';
import { formatProblem } from '../../src/core/problems.ts';
import { parseDefinition } from '../../src/definitions/load-definitions.ts';
import { recordsPlace } from '../../src/definitions/upstream/service-texts.ts';
import { describedService } from '../support/described/described-service.ts';
import { instantClock } from '../support/instant-clock.ts';
import {
  listOf,
  never,
  openTestAccount,
  requestOf,
  shapeOf,
  template,
  things,
} from '../support/third-party/open-test-account.ts';
import {
  startThirdParty,
  type ReceivedRequest,
  type Reply,
} from '../support/third-party/start-third-party.ts';

const password = 'planted-secret-2718281828';
const issuedMark = '17320508';

/** A service with two listings, and this way to sign in with a name and a password. */
function definition(auth: string, request = 'path: /{entity}'): string {
  const list = (entity: string): string =>
    `    ${entity}: { list: { ${request.replace('{entity}', entity)}, records: '' } }\n`;
  const entity = '{ fields: { id: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }';
  return `
credentials:
  - { title: Login, fields: { user: { secret: false }, password: {}, device: { secret: false, required: false } } }
entities:
  things: ${entity}
  others: ${entity}
upstream:
  baseUrl: $ORIGIN
  auth:
    Login: ${auth}
  check: { ${request.replace('{entity}', 'me')} }
  limits: { concurrency: 1, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  failed: { path: failed }
  entities:
${list('things')}${list('others')}`;
}

const credentials = { user: 'ada', password };
const loginOf = (more: string): string => `{ kind: login, url: $ORIGIN/login, token: data.token, ${more} }`;
const byBody =
  'body: { user: { field: user }, login.password: { field: password }, login.device: { field: device } }';

/** Tokens hold for so many calls. `sent`: where a call has its token. */
function issuing(holds: number, sent = (request: ReceivedRequest) => request.headers.authorization) {
  let issued = 0;
  let left = 0;
  return (request: ReceivedRequest): Reply => {
    const token = `planted-${issued}-${issuedMark}`;
    if (['/login', '/token'].includes(request.path)) {
      issued += 1;
      left = holds;
      const next = `planted-${issued}-${issuedMark}`;
      return { body: { access_token: next, data: { token: next, seconds: 3600 }, account: 7 } };
    }
    left -= 1;
    const isTaken = left >= 0 && sent(request)?.endsWith(token) === true;
    return isTaken ? { body: [{ id: '1' }] } : { status: 401, body: { error: `ended: ${token}` } };
  };
}

const paths = (requests: readonly ReceivedRequest[]): readonly string[] => requests.map(({ path }) => path);

describe('a token of a login', () => {
  it('is asked for before the first call, again when it is refused, and is stored nowhere', async () => {
    const service = await describedService({
      definition: definition(loginOf(byBody)),
      credentials,
      respond: issuing(2),
    });
    const result = await service.cli('sync');
    expect(result.code).toBe(0);
    expect(paths(service.requests)).toEqual(['/login', '/me', '/things', '/others', '/login', '/others']);
    const [login, check] = service.requests;
    expect(login).toMatchObject({ method: 'POST', headers: { 'content-type': 'application/json' } });
    expect(login?.headers).not.toHaveProperty('authorization');
    expect(JSON.parse(login?.body ?? '')).toEqual({ user: 'ada', login: { password } });
    expect(check?.headers.authorization).toBe(`Bearer planted-1-${issuedMark}`);
    for (const text of [result.stdout, result.stderr, ...service.files()]) {
      expect(text).not.toContain(issuedMark);
      expect(text).not.toContain(password);
    }
  });

  it('comes from a call that is signed itself, at an address with a name in its path', async () => {
    const sign = 'sign: { kind: basic, user: { field: user }, password: { field: password } }';
    const auth = loginOf(`method: GET, form: {}, ${sign}`).replace(
      '$ORIGIN/login',
      '"$ORIGIN/{tenant}/login"',
    );
    const host = "host: { tenant: { from: [{ field: user }], pattern: '[a-z.]+' } }\n  auth:";
    const respond = issuing(9);
    const service = await describedService({
      definition: definition(auth).replace('auth:', host),
      credentials,
      respond: (request) => respond({ ...request, path: request.path.replace('/ada', '') }),
    });
    const result = await service.cli('sync');
    expect(result.code).toBe(0);
    expect(paths(service.requests)).toEqual(['/ada/login', '/me', '/things', '/others']);
    const encoded = Buffer.from(`ada:${password}`).toString('base64');
    expect(service.requests[0]?.headers.authorization).toBe(`Basic ${encoded}`);
    for (const text of [result.stdout, result.stderr, ...service.files()]) {
      expect(text).not.toContain(encoded);
    }
    service.signIn({ user: '..', password });
    expect((await service.cli('sync')).code).not.toBe(0);
    expect(service.requests).toHaveLength(4);
  });

  it('goes into a header of its own, by a form or the query of a GET', async () => {
    const form = 'form: { user: { field: user }, password: { field: password }, app: sync }, header: X-Token';
    const sent = `user=ada&password=${password}&app=sync`;
    const token = (request: ReceivedRequest) => request.headers['x-token']?.toString();
    for (const method of ['POST', 'GET']) {
      const service = await describedService({
        definition: definition(loginOf(`method: ${method}, ${form}`)),
        credentials,
        respond: issuing(9, token),
      });
      await service.sync();
      const [login, check] = service.requests;
      expect(login).toMatchObject(
        method === 'POST'
          ? { method, body: sent, headers: { 'content-type': 'application/x-www-form-urlencoded' } }
          : { method, body: '' },
      );
      if (method === 'GET') expect(login?.query.toString()).toBe(sent);
      expect(check?.headers['x-token']).toBe(`planted-1-${issuedMark}`);
      expect(check?.headers).not.toHaveProperty('authorization');
    }
  });

  it.each([
    [{ lifetimeMs: 60_000 }, 54],
    [{ expiresIn: ['data', 'seconds'] }, 3_240],
    [{ expiresIn: ['data', 'none'] }, null],
    [{}, null],
  ])('is used for its time, less a tenth: %j', async (time, seconds) => {
    const clock = instantClock();
    const server = await startThirdParty(issuing(100));
    const account = openTestAccount({
      baseUrl: server.origin,
      clock,
      shape: shapeOf('password'),
      credentials: { password },
      list: listOf(requestOf('/things'), { records: recordsPlace('') }),
      auth: {
        kind: 'login',
        url: template(`${server.origin}/login`),
        method: 'POST',
        form: { password: { kind: 'field', field: 'password' } },
        token: ['data', 'token'],
        scheme: 'Bearer',
        keeps: {},
        ...time,
      },
    });
    const logins = async (): Promise<number> => {
      await account.list({ entity: things, params: {} }, never);
      return paths(server.requests).filter((path) => path === '/login').length;
    };
    expect(await logins()).toBe(1);
    clock.advance((seconds ?? 1_000_000) * 1_000 - 1);
    expect(await logins()).toBe(1);
    clock.advance(1);
    expect(await logins()).toBe(seconds === null ? 1 : 2);
    expect(await logins()).toBe(seconds === null ? 1 : 2);
  });

  it.each<[string, Reply, string]>([
    ['refuses it', { status: 403, body: { error: `no ${password} of ada` } }, 'no [secret] of ada'],
    ['fails with status 200', { body: { failed: true, error: `no ${password}` } }, 'no [secret]'],
    ['has no token', { body: { data: {} } }, 'with the access token has no data.token'],
  ])('that fails ends the run in the words of the service: it %s', async (_what, reply, expected) => {
    const service = await describedService({
      definition: definition(loginOf(byBody)),
      credentials,
      respond: () => reply,
    });
    const { code, stdout, stderr } = await service.cli('sync');
    expect(code).not.toBe(0);
    expect(stdout + stderr).toContain(expected);
    for (const text of [stdout, stderr, ...service.files()]) expect(text).not.toContain(password);
    expect(paths(service.requests)).not.toContain('/things');
  });
});

describe('a token request', () => {
  it('of the grant password has name, password and more members, with and without a client', async () => {
    const auth = `{ kind: password, user: { field: user }, password: { field: password }, tokenUrl: $ORIGIN/token, style: body, format: form, scope: all, params: { realm: r, device: { field: device } }`;
    const service = await describedService({
      definition: definition(`${auth} }`),
      credentials: { ...credentials, device: 'd1' },
      respond: issuing(2),
    });
    await service.sync();
    expect(paths(service.requests)).toEqual(['/token', '/me', '/things', '/others', '/token', '/others']);
    const grant = {
      grant_type: 'password',
      username: 'ada',
      password,
      scope: 'all',
      realm: 'r',
      device: 'd1',
    };
    expect(Object.fromEntries(new URLSearchParams(service.requests[0]?.body))).toEqual(grant);
    for (const text of service.files()) expect(text).not.toContain(password);
    const client = `${auth}, clientId: { text: app }, clientSecret: { text: '' } }`.replace(
      'style: body',
      'style: basic',
    );
    const other = await describedService({
      definition: definition(client),
      credentials,
      respond: issuing(9),
    });
    await other.sync();
    expect(other.requests[0]?.headers.authorization).toBe(`Basic ${btoa('app:')}`);
  });

  it('of a refresh token has them too', async () => {
    const auth = `{ kind: refresh, accessToken: device, refreshToken: password, clientId: { field: user }, clientSecret: { text: s }, tokenUrl: $ORIGIN/token, style: body, format: json, rotates: false, params: { audience: things, actor: { field: user } } }`;
    const service = await describedService({
      definition: definition(auth),
      credentials,
      respond: issuing(9),
    });
    await service.sync();
    expect(JSON.parse(service.requests[0]?.body ?? '')).toMatchObject({
      grant_type: 'refresh_token',
      refresh_token: password,
      audience: 'things',
      actor: 'ada',
    });
  });
});

const posted =
  "method: POST, safe: true, path: /{entity}, body: { filter: { state: open, ids: ['1', '2'] }, all: true }";

describe('a body', () => {
  const auth = '{ kind: body, at: auth.key, value: { field: password } }';

  it.each([
    ['JSON', '', `{"filter":{"state":"open","ids":["1","2"]},"all":true,"auth":{"key":"${password}"}}`],
    [
      'a form',
      ', bodyAs: form',
      `filter[state]=open&filter[ids]=1&filter[ids]=2&all=true&auth[key]=${password}`,
    ],
  ])('is %s, with the key that signs the request', async (_what, more, expected) => {
    const service = await describedService({
      definition: definition(auth, posted + more),
      credentials,
      respond: ({ path, body }) =>
        path === '/others'
          ? { status: 400, body: { error: `bad ${decodeURIComponent(body)}` } }
          : { body: [{ id: '1' }] },
    });
    const synced = await service.cli('sync');
    const tried = await service.cli('definitions', 'try', 'described', 'things', '--connector', 'mine');
    const sent = service.requests.map(({ body, headers }) => [
      more === '' ? body : decodeURIComponent(body),
      headers['content-type'],
    ]);
    const type = more === '' ? 'application/json' : 'application/x-www-form-urlencoded';
    expect(new Set(sent.map((one) => one.join()))).toEqual(new Set([[expected, type].join()]));
    for (const text of [synced.stdout, synced.stderr, tried.stdout, ...service.files()]) {
      expect(text).not.toContain(password);
    }
    expect(synced.stdout + synced.stderr).toContain('bad');
    expect(tried).toMatchObject({ code: 0 });
    expect(tried.stdout).toContain('[secret]');
  });

  it('hides a key that is an ordinary word', async () => {
    for (const more of ['', ', bodyAs: form']) {
      const service = await describedService({
        definition: definition(auth, posted + more),
        credentials: { user: 'ada', password: 'monday' },
        respond: ({ body }) => ({ status: 400, body: { error: `bad ${body}` } }),
      });
      const results = [
        await service.cli('sync'),
        await service.cli('definitions', 'try', 'described', 'things', '--connector', 'mine'),
      ];
      for (const { stdout, stderr } of results) expect(stdout + stderr).not.toContain('monday');
    }
  });
});

/** The problems of a definition with this way to sign in. */
function problemsOf(auth: string, request?: string): string {
  const text = definition(auth, request).replaceAll('$ORIGIN', 'https://api.example');
  const head =
    'name: d\ntitle: D\nid: 3f2a6c8e-5b7d-4e1f-9a0c-2d4e6f8a1b3c\nrateLimit: { requestsPerSecond: 1, concurrency: 1 }\n';
  return parseDefinition('d.yaml', head + text)
    .problems.map(formatProblem)
    .join('\n');
}

describe('a definition', () => {
  it.each<[string, string | undefined, string]>([
    [loginOf(''), undefined, 'auth.Login: expected body or form, one of the two'],
    [loginOf(`${byBody}, method: GET`), undefined, 'auth.Login.body: expected form: a GET has no body'],
    [
      loginOf(`${byBody}, expiresIn: a, lifetimeMs: 1000`),
      undefined,
      'expected expiresIn or lifetimeMs, not both',
    ],
    [
      loginOf('form: { a: { field: usr } }'),
      undefined,
      'auth.Login.form.a.field: no such field of the credentials',
    ],
    [loginOf('body: { a..b: x }'), undefined, 'auth.Login.body.a..b: expected names joined by dots'],
    [
      '{ kind: body, at: key, value: { field: password } }',
      undefined,
      'check: expected method: POST: auth puts a value into',
    ],
  ])('has the problem %s %s', (auth, request, expected) => {
    expect(problemsOf(auth, request)).toContain(expected);
  });
});
