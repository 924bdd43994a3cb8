import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { describe, expect } from 'vitest';
import { importService, type Imported } from '../../../src/definitions/import/import-service.ts';
import { plainService, readPlainFile } from '../../../src/definitions/import/plain-file.ts';
import { it } from '../../support/it.ts';
import { importText, serviceText, writtenIn, type Service } from '../../support/import/miniature.ts';

type Json = Readonly<Record<string, unknown>>;

const login = 'App with login';
const flow: Json = {
  authorizationUrl: 'https://corner-shop.example/oauth/authorize',
  tokenUrl: 'https://api.corner-shop.example/oauth/token',
  refreshUrl: 'https://api.corner-shop.example/oauth/token',
  scopes: {},
};
const text = { type: 'string' };
const onePage = { 'x-airbyte-no-pagination': 'All of them come in one answer.' };

/** As the public files have them; `config`: members of what they say of the credentials. */
function oauth(of: {
  readonly flow?: Json;
  readonly config?: Json;
  readonly more?: Json;
  readonly flows?: Json;
}): Json {
  return {
    type: 'oauth2',
    flows: { authorizationCode: { ...flow, ...of.flow }, ...of.flows },
    'x-airbyte-auth-config': {
      title: 'App',
      required: ['refresh_token', 'client_id', 'client_secret'],
      properties: { refresh_token: text, client_id: text, client_secret: text },
      auth_mapping: {
        refresh_token: '${refresh_token}',
        client_id: '${client_id}',
        client_secret: '${client_secret}',
      },
      ...of.config,
    },
    ...of.more,
  };
}

function imported(folder: string, scheme: Json, more: Partial<Service> = {}): Imported {
  const listings = { orders: { more: onePage }, notes: { more: onePage } };
  return importText(folder, serviceText({ listings, schemes: { app: scheme }, ...more }), 'direct');
}

function authIn(written: Imported): Json {
  const { upstream } = writtenIn(written) as {
    readonly upstream: { readonly auth: Readonly<Record<string, Json>> };
  };
  return upstream.auth[login] ?? {};
}

function whyNot(written: Imported): string {
  const way = written.ways.find(({ title }) => title === login);
  expect(way?.auth).toBeNull();
  expect(written.definition?.text).not.toContain('authorizationCode');
  return way?.why ?? '';
}

describe('a sign-in by a person', () => {
  it('is written beside the tokens that the file takes, from its flow', ({ folder }) => {
    const refresh = { 'x-airbyte-token-refresh': { auth_style: 'basic', body_format: 'json' } };
    const written = imported(folder, oauth({ more: refresh }));
    expect(writtenIn(written)).toMatchObject({
      credentials: [
        { title: 'App', fields: { refresh_token: {}, client_id: {}, client_secret: {} } },
        { title: login, fields: { client_id: { secret: false }, client_secret: {} } },
      ],
    });
    expect(authIn(written)).toEqual({
      kind: 'authorizationCode',
      clientId: { field: 'client_id' },
      clientSecret: { field: 'client_secret' },
      authorizeUrl: 'https://corner-shop.example/oauth/authorize',
      tokenUrl: 'https://api.corner-shop.example/oauth/token',
      style: 'basic',
      format: 'json',
    });
    expect(written.definition?.text).toContain(`# pkce # guessed\n    ${login}:`);
  });

  it('keeps what calls need besides, and the names that the host and the headers have', ({ folder }) => {
    const written = imported(
      folder,
      oauth({
        flow: {
          authorizationUrl:
            'https://{{subdomain}}.corner-shop.example/oauth?access_type=offline&state=x&bad name=1',
          tokenUrl: 'https://{subdomain}.corner-shop.example/token',
          refreshUrl: undefined,
        },
        config: {
          required: ['access_token', 'account_id'],
          properties: { access_token: text, account_id: text, shop_client: text },
          auth_mapping: { access_token: '${access_token}', client_id: '${shop_client}' },
          additional_headers: {
            'Shop-Account': '{{ account_id }}',
            Authorization: 'Shop-token {{ access_token }}',
          },
        },
        more: { 'x-airbyte-token-extract': ['region'] },
      }),
      { servers: [{ url: 'https://{subdomain}.corner-shop.example/v1', variables: { subdomain: {} } }] },
    );
    const { credentials } = writtenIn(written) as { readonly credentials: readonly Json[] };
    expect(credentials[1]).toEqual({
      title: login,
      fields: {
        account_id: { secret: false },
        shop_client: { secret: false },
        client_secret: {},
        region: { secret: false, required: false },
        subdomain: { secret: false },
      },
    });
    expect(authIn(written)).toMatchObject({
      scheme: 'Shop-token',
      clientId: { field: 'shop_client' },
      authorizeUrl: 'https://{subdomain}.corner-shop.example/oauth',
      params: { access_type: 'offline' },
      keeps: { region: 'region' },
    });
    expect(written.definition?.text).toContain(
      '# client_secret, style and format of the token request, pkce # guessed',
    );
  });

  it('asks for the scopes of what is read', ({ folder }) => {
    const scopes = {
      'orders:read': '',
      'orders:write': '',
      'notes:read': '',
      offline_access: 'Stay signed in',
    };
    const byEntity = {
      'x-airbyte-oauth-scopes': [
        { scope: 'orders:read', mode: 'read', entities: ['orders'] },
        { scope: 'orders:write', mode: 'write', entities: ['orders'] },
        { scope: 'users:read', mode: 'read', entities: ['users'] },
      ],
    };
    const stated = imported(folder, oauth({ flow: { scopes }, more: byEntity }));
    expect(authIn(stated)).toMatchObject({ scope: 'orders:read offline_access' });

    const security = [{ app: ['notes:read'] }];
    const listings = { orders: { more: onePage }, notes: { more: { ...onePage, security } } };
    const required = imported(folder, oauth({ flow: { scopes }, more: byEntity }), { listings });
    expect(authIn(required)).toMatchObject({ scope: 'notes:read offline_access' });

    const guessed = imported(folder, oauth({ flow: { scopes } }));
    expect(authIn(guessed)).toMatchObject({ scope: 'orders:read notes:read offline_access' });
    expect(guessed.definition?.text).toContain('pkce, scope, without orders:write # guessed');

    const one = imported(
      folder,
      oauth({ flow: { scopes: { everything: 'Read and write', refresh_token: '' } } }),
    );
    expect(authIn(one)).toMatchObject({ scope: 'everything refresh_token' });
  });

  it('serves on another device where the file has the address', ({ folder }) => {
    const device = {
      deviceAuthorizationUrl: 'https://corner-shop.example/device',
      tokenUrl: flow['tokenUrl'],
    };
    const withDevice = imported(folder, oauth({ flows: { deviceAuthorization: device } }));
    expect(authIn(withDevice)).toMatchObject({ deviceUrl: 'https://corner-shop.example/device' });
    const elsewhere = { ...device, tokenUrl: 'https://other.example/token' };
    expect(authIn(imported(folder, oauth({ flows: { deviceAuthorization: elsewhere } })))).not.toHaveProperty(
      'deviceUrl',
    );
  });

  it('is read from the OpenAPI file of a service, with the scopes that its operations require', ({
    folder,
  }) => {
    const schema = { type: 'array', items: { type: 'object', required: ['id'], properties: { id: text } } };
    const answer = {
      responses: { '200': { description: 'OK', content: { 'application/json': { schema } } } },
    };
    const page = [
      { name: 'page', in: 'query', schema: { type: 'integer' } },
      { name: 'limit', in: 'query', schema: { type: 'integer' } },
    ];
    const path = join(folder, 'openapi.yaml');
    const { refreshUrl: _same, ...stated } = flow;
    writeFileSync(
      path,
      JSON.stringify({
        openapi: '3.2.0',
        info: { title: 'Help Desk', version: '2' },
        servers: [{ url: 'https://desk.example/api' }],
        components: { securitySchemes: { App: { type: 'oauth2', flows: { authorizationCode: stated } } } },
        security: [{ App: ['everything'] }],
        paths: {
          '/tickets': { get: { ...answer, parameters: page, security: [{ App: ['tickets.read'] }] } },
        },
      }),
    );
    const service = plainService(readPlainFile(path), ['/tickets']);
    const written = importService(service, 'direct');
    expect(authIn(written)).toMatchObject({
      kind: 'authorizationCode',
      tokenUrl: 'https://api.corner-shop.example/oauth/token',
      scope: 'tickets.read',
    });
    expect(Object.keys(writtenIn(written)['upstream'] as Json)).toContain('auth');
  });

  const refused: readonly (readonly [string, Json, RegExp])[] = [
    [
      'renewed elsewhere',
      oauth({ flow: { refreshUrl: 'https://other.example/token' } }),
      /renewed at another address/,
    ],
    ['without an address', oauth({ flow: { authorizationUrl: undefined } }), /no plain https address/],
    [
      'over http',
      oauth({ flow: { authorizationUrl: 'http://corner-shop.example/oauth' } }),
      /no plain https address/,
    ],
    [
      'at a computed address',
      oauth({ flow: { authorizationUrl: 'https://{{ shop | lower }}.example' } }),
      /no plain https/,
    ],
    [
      'at an account that nothing names',
      oauth({ flow: { authorizationUrl: 'https://{shop}.example/oauth' } }),
      /has a name that no/,
    ],
    [
      'whose client serves alone',
      oauth({
        config: {
          required: ['client_id', 'client_secret'],
          properties: { client_id: text, client_secret: text },
          auth_mapping: { client_id: '${client_id}', client_secret: '${client_secret}' },
        },
      }),
      /already serve without a person \(App\)/,
    ],
    [
      'whose token is in a header of its own',
      oauth({
        config: {
          properties: { refresh_token: text, access_token: text, client_id: text, client_secret: text },
          auth_mapping: {
            refresh_token: '${refresh_token}',
            access_token: '${access_token}',
            client_id: '${client_id}',
            client_secret: '${client_secret}',
          },
          additional_headers: { 'X-Shop-Token': '{{ access_token }}' },
        },
      }),
      /its header X-Shop-Token has the token in it/,
    ],
  ];
  it.for(refused)('is left out with the reason where it is %s', ([, scheme, why], { folder }) => {
    expect(whyNot(imported(folder, scheme))).toMatch(why);
  });
});
