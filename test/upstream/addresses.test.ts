import type { LookupAddress } from 'node:dns';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Pagination } from '../../src/definitions/definition.ts';
import { parseDefinition } from '../../src/definitions/load-definitions.ts';
import type { CredentialValue } from '../../src/definitions/upstream/upstream-file.ts';
import type { Upstream } from '../../src/definitions/upstream/upstream.ts';
import { placesOfCredentials } from '../../src/upstream/credentials.ts';
import { buildAddress, buildPath } from '../../src/upstream/call-address.ts';
import {
  failureOf,
  listOf,
  never,
  openTestAccount,
  requestOf,
  secretToken,
  shapeOf,
  template,
  things,
} from '../support/third-party/open-test-account.ts';
import { startThirdParty } from '../support/third-party/start-third-party.ts';
import { seededRandom } from '../support/seeded-random.ts';

const list = { entity: things, params: {} };
const empty = { body: { items: [] } };
const tokens: Pagination = {
  kind: 'pageToken',
  tokenParam: 'start_cursor',
  sizeParam: null,
  maxSize: null,
  flagKeys: [],
  tokenKeys: ['next'],
  lifetimeMs: 60_000,
  totalKeys: [],
};

describe('the host', () => {
  it('is reached where its name is allowed, at the address that was judged', async () => {
    const server = await startThirdParty(() => empty);
    const asked: string[] = [];
    const account = openTestAccount({
      baseUrl: `http://fake.example:${server.port}`,
      allowHosts: ['Fake.Example'],
      resolve: (name, done) => {
        asked.push(name);
        done(null, [{ address: '127.0.0.1', family: 4 }]);
      },
    });
    expect((await account.list(list, never)).records).toEqual([]);
    expect(asked).toEqual(['fake.example']);
    expect(server.requests[0]?.headers.host).toBe(`fake.example:${server.port}`);
  });

  // Proves promise 17.2
  it.each([
    ['its name, at the port of baseUrl', ['127.0.0.1', '127.0.0.1:{token}'], null],
    ['that port of it alone', ['127.0.0.1:{base}', '127.0.0.1:{token}'], null],
    ['its name alone, where another port is named too', ['127.0.0.1'], 'address'],
    ['another port', ['127.0.0.1:1'], 'address'],
  ])('is reached by what is allowed: %s', async (_what, allowed, reason) => {
    const tokens = await startThirdParty(() => ({ body: { access_token: 'new' } }));
    const server = await startThirdParty(() => empty);
    const text = (value: string): CredentialValue => ({ kind: 'text', text: value });
    const account = openTestAccount({
      baseUrl: server.origin,
      allowHosts: allowed.map((one) =>
        one.replace('{base}', String(server.port)).replace('{token}', String(tokens.port)),
      ),
      shape: shapeOf('access_token', 'refresh_token'),
      credentials: { refresh_token: 'r' },
      auth: {
        kind: 'refresh',
        params: {},
        scheme: 'Bearer',
        accessToken: 'access_token',
        refreshToken: 'refresh_token',
        tokenUrl: template(`${tokens.origin}/token`),
        clientId: text('id'),
        clientSecret: text('secret'),
        style: 'basic',
        format: 'json',
        rotates: false,
        keeps: {},
      },
    });
    const answer = account.list(list, never);
    if (reason === null) expect((await answer).records).toEqual([]);
    else expect(await failureOf(answer)).toMatchObject({ class: 'refused', reason });
    expect(tokens.connections()).toBe(reason === null ? 1 : 0);
  });

  it.each([
    ['plain http', 'http://service.example'],
    ['a port of its own', 'https://service.example:8443'],
    ['the port of another service of this machine', 'https://service.example:{port}'],
    ['an address of this machine', 'https://127.0.0.1'],
    ['an address of this machine, spelled otherwise', 'https://0x7f.1'],
    ['an IPv6 address of this machine', 'https://[::1]'],
    ['a mapped private address', 'https://[::ffff:10.0.0.1]'],
    ['the address of cloud credentials', 'https://169.254.169.254'],
  ])('is not reached by %s', async (_what, baseUrl) => {
    const server = await startThirdParty(() => empty);
    const account = openTestAccount({
      baseUrl: baseUrl.replace('{port}', String(server.port)),
      allowHosts: [],
    });
    expect(await failureOf(account.list(list, never))).toMatchObject({ class: 'refused', reason: 'address' });
    expect(server.connections()).toBe(0);
  });

  it.each([
    ['127.0.0.1'],
    ['10.1.2.3'],
    ['169.254.169.254'],
    ['::1'],
    ['fe80::1'],
    ['fc00::1'],
    ['::ffff:192.168.0.1'],
  ])('is not reached when its name leads to %s, even as one address of several', async (address) => {
    const found: LookupAddress[] = ['93.184.216.34', address].map((one) => ({
      address: one,
      family: one.includes(':') ? 6 : 4,
    }));
    const account = openTestAccount({
      baseUrl: 'https://rebound.example',
      allowHosts: [],
      resolve: (_name, done) => done(null, found),
    });
    const failure = await failureOf(account.list(list, never));
    expect(failure).toMatchObject({ class: 'refused', reason: 'address' });
    expect(failure.text).toContain('rebound.example');
  });

  it('that changes its address later is judged again at the next connection', async () => {
    const server = await startThirdParty(() => ({ headers: { connection: 'close' }, ...empty }));
    let lookups = 0;
    const account = openTestAccount({
      baseUrl: `http://fake.example:${server.port}`,
      allowHosts: ['fake.example'],
      resolve: (_name, done) => {
        lookups += 1;
        done(null, lookups === 1 ? [{ address: '127.0.0.1', family: 4 }] : []);
      },
    });
    await account.list(list, never);
    expect(await failureOf(account.list(list, never))).toMatchObject({ reason: 'address' });
    expect(server.requests).toHaveLength(1);
  });
});

type HostVariable = Upstream['host'] extends ReadonlyMap<string, infer Value> ? Value : never;

const dataCentre: HostVariable = {
  from: [
    { kind: 'field', field: 'data_center', isOrigin: false },
    { kind: 'afterLast', field: 'token', separator: '-', isOrigin: false },
  ],
  pattern: 'us[1-9][0-9]{0,2}',
};

describe('a host variable', () => {
  const shape = shapeOf('token', 'data_center');
  const reach = async (
    credentials: Record<string, string>,
    dc = dataCentre,
    baseUrl = 'https://{dc}.api.service.example/3.0',
  ): Promise<string> => {
    const asked: string[] = [];
    const account = openTestAccount({
      baseUrl,
      upstream: { host: new Map([['dc', dc]]) },
      shape,
      credentials,
      resolve: (name, done) => {
        asked.push(name);
        done(null, [{ address: '127.0.0.1', family: 4 }]);
      },
    });
    const failure = await failureOf(account.list(list, never));
    expect(failure.text).not.toContain('key-0815');
    return asked[0] ?? `${failure.class}: ${failure.text}`;
  };

  it('is the first source that has a value, without the spaces around it', async () => {
    expect(await reach({ token: 'key-0815-us7' })).toBe('us7.api.service.example');
    expect(await reach({ token: ' key-0815-us7 \n' })).toBe('us7.api.service.example');
    expect(await reach({ token: 'key-0815-us7', data_center: 'us20' })).toBe('us20.api.service.example');
  });

  it.each([
    [{ token: 'key-0815-us7', data_center: 'evil.example/' }],
    [{ token: 'key-0815-us7', data_center: 'us7@evil.example' }],
    [{ token: 'key-0815-us7', data_center: 'us7:8080' }],
    [{ token: 'key-0815-us7', data_center: 'us7\n.evil.example' }],
    [{ token: 'key-0815-us7', data_center: 'xus7' }],
    [{ token: 'key-0815-server' }],
    [{ token: 'key' }],
    [{ token: 'key-' }],
  ])('is refused before anything is sent: %j', async (credentials) => {
    expect(await reach(credentials)).toMatch(
      /^unauthorized: the credentials of the connector cannot be used: /,
    );
  });

  const shop: HostVariable = {
    from: [{ kind: 'field', field: 'data_center', isOrigin: true }],
    pattern: '(?:[a-z0-9-]+\\.)+[a-z]{2,}',
  };
  const origins = (origin: string): Promise<string> =>
    reach({ token: 'key-0815', data_center: origin }, shop, 'https://{dc}/wp-json');

  it('may be the host of a whole origin', async () => {
    expect(await origins('https://my.shop.example')).toBe('my.shop.example');
    expect(await origins('https://my.shop.example/')).toBe('my.shop.example');
    expect(await origins('my.shop.example')).toBe('my.shop.example');
  });

  it.each([
    'http://my.shop.example',
    'https://my.shop.example:8443',
    'https://my.shop.example/blog',
    'https://me@my.shop.example',
    'https://my.shop.example//',
    'https://127.0.0.1',
    'https://localhost',
    '//my.shop.example',
  ])('is refused where its origin is %s', async (origin) => {
    expect(await origins(origin)).toContain(
      'the dc of the address, from data_center, does not have the form',
    );
  });

  it('leads nowhere else even where its pattern is too wide', () => {
    const base = template('https://{dc}.api.service.example/3.0');
    for (const dc of [
      'evil.example/',
      'evil.example#',
      'evil.example?',
      'a@evil.example/x',
      'a:1@b',
      '',
      'a\\b',
      'é',
    ]) {
      expect(() => buildAddress(base, new Map([['dc', dc]])), dc).toThrow('do not make an address');
    }
    // Where the value is the whole host, no text behind it shows another one.
    for (const dc of [
      'my.shop.example:8443',
      'me@my.shop.example',
      'my.shop.example/',
      'my.shop.example?a',
    ]) {
      const place = new Map([['dc', dc]]);
      expect(() => buildAddress(template('https://{dc}'), place), dc).toThrow('do not make an address');
    }
    expect(buildAddress(base, new Map([['dc', 'us7']])).href).toBe('https://us7.api.service.example/3.0');
  });
});

describe('the places that credentials are given for', () => {
  const everyKind = readFileSync('test/fixtures/definitions/upstream/every-kind.yaml', 'utf8');
  const { definition } = parseDefinition('every-kind.yaml', everyKind);

  it.each<[string, JsonObject, string | null]>([
    ['their host', { api_key: 'k', shop_name: 'my', region: 'north-us' }, 'https://my.us.shop.example'],
    [
      'the host of the next source',
      { api_key: 'k', shop_name: 'my', region: 'n' },
      'https://my.eu.shop.example',
    ],
    [
      'where tokens are issued; the host that comes with them stays a name',
      { id: 'i', secret: 's' },
      'https://{shop}.eu.shop.example, https://login.shop.example',
    ],
    [
      'where a person signs in',
      { app: 'a', app_secret: 's', shop_name: 'my' },
      'https://my.eu.shop.example, https://eu.people.example, https://login.shop.example',
    ],
    ['none, if they fit no way to sign in', { shop_name: 'my' }, null],
  ])('are %s', (_what, given, places) => {
    expect(definition && placesOfCredentials(definition, given)).toBe(places);
  });
});

describe('a value in the path', () => {
  const base = new URL('https://service.example/3.0/');
  const path = template('/lists/{id}/members/{id}');

  it.each([
    '',
    '.',
    '..',
    '%2e',
    '%2E%2e',
    '.%2e',
    'a\nb',
    'a\u0000b',
    '\u2028',
    '../x',
    'a/../b',
    'a\\..\\b',
    '/',
    'a//b',
    '\ud800',
  ])('is refused as %j', (id) => {
    expect(() => buildPath(base, path, new Map([['id', id]]))).toThrow(/^id must/);
  });

  it('is one segment whatever it holds', () => {
    const random = seededRandom(7);
    const pool = [' ', ...'/ \\ . ? # % & = : @ ; + a 0 ü 😀 %2f " <'.split(' ')];
    for (let trial = 0; trial < 2_000; trial += 1) {
      const id = Array.from(
        { length: 1 + Math.floor(random() * 6) },
        () => pool[Math.floor(random() * pool.length)],
      ).join('');
      let url: URL;
      try {
        url = buildPath(base, path, new Map([['id', id]]));
      } catch (error) {
        expect(id, String(error)).toMatch(/[./\\]/);
        continue;
      }
      const segments = url.pathname.split('/');
      expect(segments).toHaveLength(6);
      expect([segments[3], segments[5]].map((one) => decodeURIComponent(one ?? ''))).toEqual([id, id]);
      expect(url.origin + url.search + url.hash).toBe('https://service.example');
    }
  });

  it('is refused before anything is sent', async () => {
    const server = await startThirdParty(() => empty);
    const account = openTestAccount({ baseUrl: server.origin });
    const failure = await failureOf(account.get({ entity: things, params: { note_id: '../me' } }, never));
    expect(failure).toMatchObject({ class: 'refused', reason: 'request' });
    expect(server.requests).toHaveLength(0);
  });
});

describe('another origin', () => {
  it.each([301, 302, 303, 307, 308])('is not called by a redirect with %s', async (status) => {
    const other = await startThirdParty(() => empty);
    const server = await startThirdParty(() => ({ status, headers: { location: `${other.origin}/items` } }));
    const account = openTestAccount({ baseUrl: server.origin });
    const failure = await failureOf(account.list(list, never));
    expect(failure).toMatchObject({ class: 'refused', reason: 'redirect', status });
    expect(failure.text).not.toContain(other.origin);
    expect(other.requests).toHaveLength(0);
    expect(server.requests).toHaveLength(1);
  });

  it.each([
    '{other}/items?cursor=2',
    '//127.0.0.1.evil.example/items?cursor=2',
    'http://user@127.0.0.1:{port}/items?cursor=2',
  ])('is not called by the address of a next page, of which named parameters are used: %s', async (next) => {
    const other = await startThirdParty(() => empty);
    const server = await startThirdParty(() => ({
      body: {
        items: [{ id: 1 }],
        next: next.replace('{other}', other.origin).replace('{port}', String(server.port)),
      },
    }));
    const accountThat = (keep: readonly string[] | { readonly except: readonly string[] }) =>
      openTestAccount({
        baseUrl: server.origin,
        list: listOf(requestOf('/items', { start_cursor: { kind: 'paging' } }), {
          paging: { kind: 'nextUrl', url: ['next'], keep, isAlone: false },
        }),
        pagination: tokens,
      });
    const account = accountThat(['cursor']);
    const { metadata } = await account.list(list, never);
    expect(metadata).toEqual({ next: 'cursor=2' });
    await account.list({ entity: things, params: { start_cursor: 'cursor=2' } }, never);
    expect(server.requests.map(({ path, query }) => `${path}?${query.toString()}`)).toEqual([
      '/items?',
      '/items?cursor=2',
    ]);
    const failure = await failureOf(accountThat({ except: [] }).list(list, never));
    expect(failure).toMatchObject({ class: 'refused', reason: 'otherOrigin' });
    expect(failure.text).toContain('name them in keep: [...] of the paging');
    expect(failure.text).not.toContain(secretToken);
    expect(other.requests).toHaveLength(0);
  });
});
