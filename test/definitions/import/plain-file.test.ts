import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { importService } from '../../../src/definitions/import/import-service.ts';
import { plainService, readPlainFile } from '../../../src/definitions/import/plain-file.ts';
import { it } from '../../support/it.ts';
import { outcomeOf, writtenIn } from '../../support/import/miniature.ts';

type Json = Readonly<Record<string, unknown>>;

const text = { type: 'string' };
const number = { type: 'integer' };
const record = { type: 'object', required: ['id'], properties: { id: text, title: text } };
const listOf = (schema: Json): Json => ({ type: 'array', items: schema });
const query = (name: string, schema: Json = text): Json => ({ name, in: 'query', schema });

/** A GET whose answers have this schema. */
function get(schema: Json, parameters: readonly Json[] = [], more: Json = {}): Json {
  const content = { 'application/json': { schema } };
  return { get: { parameters, responses: { '200': { description: 'OK', content } }, ...more } };
}

const cursored = get(
  {
    type: 'object',
    properties: { data: listOf(record), meta: { type: 'object', properties: { next_cursor: text } } },
  },
  [query('cursor'), query('limit', { type: 'integer', maximum: 50 })],
);

function file(folder: string, paths: Json, more: Json = {}): string {
  const path = join(folder, 'openapi.yaml');
  const document = {
    openapi: '3.0.3',
    info: { title: 'The Help Desk API', version: '2', license: { name: 'MIT' } },
    servers: [{ url: 'https://desk.example/api' }],
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
    paths,
    ...more,
  };
  writeFileSync(path, JSON.stringify(document));
  return path;
}

function imported(folder: string, paths: Json, more: Json = {}) {
  const listings = Object.keys(paths).filter((path) => !/\}\/?$/.test(path));
  const service = plainService(readPlainFile(file(folder, paths, more)), listings);
  return importService(service, 'direct');
}

describe('the OpenAPI file of a service', () => {
  it('says what stands for an empty listing where the array of records may be null', ({ folder }) => {
    const emptyOf = (array: Json): unknown => {
      const data = { type: 'object', properties: { data: array } };
      // `as`: what an import writes.
      const written = writtenIn(imported(folder, { '/tags': get(data) })) as {
        readonly upstream: { readonly entities: { readonly tags: { readonly list: Json } } };
      };
      return written.upstream.entities.tags.list['empty'];
    };
    expect(emptyOf({ ...listOf(record), nullable: true })).toEqual([null]);
    expect(emptyOf({ ...listOf(record), type: ['array', 'null'] })).toEqual([null]);
    expect(emptyOf(listOf(record))).toBeUndefined();
  });

  it('shows what it lists, wherever in the answers', ({ folder }) => {
    const deep = {
      type: 'object',
      properties: { result: { type: 'object', properties: { all: listOf(record) } } },
    };
    const { listings, leftOut } = readPlainFile(
      file(folder, {
        '/api/v2/tickets.json': get(listOf(record)),
        '/users/{id}/orders': get(deep),
        '/me': get({ type: 'object', properties: { id: text, teams: listOf(record) } }),
        '/teams/{id}': get({ type: 'object', properties: { members: listOf(record) } }),
        '/old': get(listOf(record), [], { deprecated: true }),
      }),
    );
    expect(leftOut).toEqual([
      { path: '/me', why: 'it answers with one record' },
      { path: '/teams/{id}', why: 'it answers with one record' },
    ]);
    expect(listings).toEqual([
      { path: '/api/v2/tickets.json', entity: 'tickets', records: [''], isDeprecated: false },
      { path: '/users/{id}/orders', entity: 'user_orders', records: ['result.all'], isDeprecated: false },
      { path: '/old', entity: 'old', records: [''], isDeprecated: true },
    ]);
  });

  it('is imported as far as its operations show it', ({ folder }) => {
    const written = imported(folder, {
      '/tickets': cursored,
      '/tickets/{ticket_id}': get({ type: 'object', properties: { ticket: record } }, [
        { name: 'ticket_id', in: 'path', required: true, schema: text },
      ]),
    });
    expect(outcomeOf(written, 'tickets')).toBe('converted');
    expect(writtenIn(written)).toMatchObject({
      name: 'help-desk',
      title: 'The Help Desk API',
      credentials: [{ title: 'token', fields: { token: {} } }],
      entities: { tickets: { key: ['id'], actions: { get: { key: { ticket_id: 'id' } } } } },
      upstream: {
        baseUrl: 'https://desk.example/api',
        auth: { token: { kind: 'bearer', token: { field: 'token' } } },
        entities: {
          tickets: {
            list: {
              path: '/tickets',
              records: 'data',
              paging: { kind: 'cursor', token: 'meta.next_cursor' },
            },
            get: { path: '/tickets/{ticket_id}', record: 'ticket' },
          },
        },
      },
    });
    expect(written.definition?.text).toContain('# License of that file: MIT.\n');
  });

  it('brings the listings along that fill the path of another', ({ folder }) => {
    const path = [{ name: 'id', in: 'path', required: true, schema: text }];
    const flagged = (parameters: readonly Json[]) =>
      get({ type: 'object', properties: { items: listOf(record), has_more: { type: 'boolean' } } }, [
        query('page', number),
        query('per_page', number),
        ...parameters,
      ]);
    const paths = { '/users/': flagged([]), '/users/{id}/orders/': flagged(path) };
    const service = plainService(readPlainFile(file(folder, paths)), ['sales=/users/{id}/orders/']);
    expect(writtenIn(importService(service, 'direct'))).toMatchObject({
      entities: {
        users: { pagination: { kind: 'page', sizeParam: 'per_page' } },
        sales: { key: ['user_id', 'id'], parents: [{ entity: 'users', params: { id: 'id' } }] },
      },
    });
  });

  const optional = { type: 'object', properties: { id: text, email: text } };
  const nullable = { ...record, properties: { id: { type: 'string', nullable: true } } };
  const open: readonly (readonly [string, Json, RegExp])[] = [
    [
      'an id that a record may lack',
      get(listOf(optional), [query('page', number), query('limit', number)]),
      /key .*its field id may be absent/,
    ],
    [
      'an id that may be null',
      get(listOf(nullable), [query('page', number), query('limit', number)]),
      /key .*its field id may be null/,
    ],
    [
      'a page that nothing in the answer goes with',
      get(listOf(record), [query('page', number)]),
      /pagination .*nothing says how it pages/,
    ],
    [
      'a cursor that no answer has',
      get(listOf(record), [query('cursor')]),
      /pagination .*nothing says how it pages, and cursor is declared/,
    ],
    [
      'two lists',
      get({ type: 'object', properties: { data: listOf(record), included: listOf(record) } }),
      /records write which of the lists in an answer has the records: data, included/,
    ],
  ];

  it.for(open)('has a TODO about %s', ([, listing, expected], { folder }) => {
    expect(outcomeOf(imported(folder, { '/things': listing }), 'things')).toMatch(expected);
  });

  const flagged = (name: string, parameters: readonly Json[] = [], more: Json = {}): Json => {
    const flags = { data: listOf(record), [name]: { type: 'boolean' }, iterator: text };
    return get({ type: 'object', properties: flags }, [query('iterator'), ...parameters], more);
  };
  const said = (name: string, description: string, schema: Json = text): Json => ({
    ...query(name, schema),
    description,
  });
  const flag = (value?: boolean): Json => ({
    type: 'boolean',
    ...(value === undefined ? {} : { default: value }),
  });
  const choice = (...choices: readonly string[]): Json => ({ type: 'string', enum: choices });
  const hiding: readonly (readonly [string, Json])[] = [
    ['a bound whose default is a month', said('from', 'Start of the report. The default is 30 days ago.')],
    ['a bound whose default is the current time', said('until', 'Defaults to the current time.')],
    [
      'a time that only the last days have unless it is given',
      said('q', 'Only the last 7 days unless q is set.'),
    ],
    ['another default in words', said('owner', 'Whose things (default: your own).')],
    ['a number of days', query('days', { type: 'integer', default: 30 })],
    ['a flag that leaves archived ones out', query('include_archived', flag(false))],
    ['a flag that includes something', query('include_drafts', flag())],
    ['a flag without a verb', query('archived', flag(false))],
    ['a flag for hidden ones', query('showHidden', flag(false))],
    ['a flag for some only', query('active_only', flag(true))],
    ['a choice', query('state', { ...choice('open', 'closed'), default: 'open' })],
    ['a default of no choice', query('state', { type: 'string', default: 'open' })],
    ['a choice of each element', query('states', { ...listOf(choice('open', 'done')), default: ['open'] })],
    ['the choice all beside no default', query('filter', choice('all'))],
  ];

  it.for(hiding)('asks what to send where a parameter hides records: %s', ([, param], { folder }) => {
    const name = String(param['name']);
    expect(outcomeOf(imported(folder, { '/things': flagged('done', [param]) }), 'things')).toMatch(
      new RegExp(
        `^todo: value write what to send as ${name} ?.*(?:left out|leave records out|hidden|sent by)`,
      ),
    );
  });

  it.for([
    query('include_archived', flag(true)),
    query('archived_only', flag(false)),
    query('excludeDrafts', flag(false)),
    query('with_content', flag(false)),
    query('state', { ...choice('open', 'all'), default: 'all' }),
    said('unit', 'Defaults to day'),
    said('owner', 'Defaults to all owners'),
    said('fields', 'Unless set, only the id is returned'),
  ])('sends the default of %j unasked', (param, { folder }) => {
    expect(outcomeOf(imported(folder, { '/things': flagged('done', [param]) }), 'things')).toBe('converted');
  });

  it.for(['test', 'preview', 'search', 'auto-complete', 'validate', 'dry_run', 'dryRun', 'top.json'])(
    'asks whether a listing whose path ends in %s lists everything',
    (end, { folder }) => {
      const path = `/rules/${end}`;
      const service = plainService(readPlainFile(file(folder, { [path]: cursored })), [`things=${path}`]);
      expect(outcomeOf(importService(service, 'direct'), 'things')).toMatch(
        /^todo: actions remove the entity, unless \/rules\/.* lists all records/,
      );
    },
  );

  it('asks whether a listing of recent records is wanted', ({ folder }) => {
    const paths = { '/things': flagged('done', [], { description: 'Lists things of the last 30 days.' }) };
    expect(outcomeOf(imported(folder, paths), 'things')).toMatch(/^todo: actions .*of the last 30 days/);
  });

  it('takes a flag of the last page beside a token', ({ folder }) => {
    expect(writtenIn(imported(folder, { '/things': flagged('done') }))).toMatchObject({
      entities: { things: { pagination: { tokenParam: 'iterator', doneKeys: ['is_last'] } } },
      upstream: {
        entities: {
          things: {
            list: { metadata: { is_last: 'done' }, paging: { kind: 'cursor', token: 'iterator' } },
          },
        },
      },
    });
    const counted = get(
      { type: 'object', properties: { data: listOf(record), is_last: { type: 'boolean' } } },
      [query('page', number), query('per_page', number)],
    );
    expect(writtenIn(imported(folder, { '/things': counted }))).toMatchObject({
      entities: { things: { pagination: { kind: 'page', doneKeys: ['is_last'] } } },
      upstream: { entities: { things: { list: { metadata: { is_last: 'is_last' } } } } },
    });
  });

  it('asks whether a parameter behind a reference takes the last id', ({ folder }) => {
    const schema = { type: 'object', properties: { data: listOf(record), has_more: { type: 'boolean' } } };
    const parameters = { after: { ...query('after', { $ref: '#/components/schemas/Id' }) } };
    const components = {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      parameters,
      schemas: { Id: { type: 'integer' } },
    };
    const paths = { '/things': get(schema, [{ $ref: '#/components/parameters/after' }]) };
    const made = imported(folder, paths, { components });
    expect(outcomeOf(made, 'things')).toMatch(/^todo: pagination .*after could take the last record's id/);
    expect(writtenIn(made)).toMatchObject({
      entities: {
        things: { pagination: { kind: 'lastRecord', tokenParam: 'after', flagKeys: ['has_more'] } },
      },
    });
  });

  it.for([
    ['code', { code: text }, 'code', /^converted/],
    [
      'code',
      { attributes: { type: 'object', properties: { code: number } } },
      'attributes.code',
      /^converted/,
    ],
    [
      'user_id',
      { user_id: text },
      'user_id',
      /^todo: parents write which field of users fills user_id: user_id or id/,
    ],
    ['login', {}, 'id', /^todo: parents write which field of users fills login: id\?/],
    ['user_id', {}, 'id', /^converted/],
  ] as const)('fills {%s} below a parent with %j by %s', ([param, more, field, expected], { folder }) => {
    const user = { ...record, properties: { ...record.properties, ...more } };
    const users = get({ type: 'object', properties: { data: listOf(user), next_cursor: text } }, [
      query('cursor'),
    ]);
    const made = imported(folder, { '/users': users, [`/users/{${param}}/orders`]: cursored });
    expect(outcomeOf(made, 'user_orders')).toMatch(expected);
    expect(writtenIn(made)).toMatchObject({
      entities: { user_orders: { parents: [{ params: { [param]: field } }] } },
    });
  });

  it.for(['header', 'query'])(
    'asks for no value of a key that the sign-in sends in a %s',
    (place, { folder }) => {
      const securitySchemes = { key: { type: 'apiKey', in: place, name: 'X-Key' } };
      const parameters = [{ name: 'x-key', in: place, required: true, schema: text }];
      const listing = flagged('done', parameters);
      const made = imported(folder, { '/things': listing }, { components: { securitySchemes } });
      expect(outcomeOf(made, 'things')).toBe('converted');
      expect(JSON.stringify(writtenIn(made)['entities'])).not.toMatch(/x-key/i);
    },
  );

  it('guesses the first of several lists', ({ folder }) => {
    const both = { type: 'object', properties: { data: listOf(record), included: listOf(record) } };
    expect(writtenIn(imported(folder, { '/things': get(both) }))).toMatchObject({
      upstream: { entities: { things: { list: { records: 'data' } } } },
    });
  });

  const header = { type: 'apiKey', in: 'header', name: 'X-Key' };
  const flow = { tokenUrl: 'https://desk.example/token', scopes: {} };
  const signIns: readonly (readonly [string, Json, unknown, unknown])[] = [
    [
      'a user and a password',
      { one: { type: 'http', scheme: 'basic' } },
      [{ one: [] }],
      { one: { kind: 'basic' } },
    ],
    ['a key in a header', { one: header }, undefined, { one: { kind: 'header', name: 'X-Key' } }],
    [
      'a key in the query',
      { one: { ...header, in: 'query' } },
      [],
      { one: { kind: 'query', name: 'X-Key' } },
    ],
    [
      'a client',
      { one: { type: 'oauth2', flows: { clientCredentials: flow } } },
      undefined,
      { 'one clientCredentials': { kind: 'clientCredentials' } },
    ],
    [
      'a refresh token',
      { one: { type: 'oauth2', flows: { authorizationCode: flow } } },
      undefined,
      { one: { kind: 'refresh', tokenUrl: flow.tokenUrl } },
    ],
    [
      'the one way of several that the operation takes',
      { one: header, two: { type: 'http', scheme: 'bearer' } },
      [{ two: [] }],
      { two: { kind: 'bearer' } },
    ],
    [
      'two at once',
      { app: header, two: { type: 'http', scheme: 'bearer' } },
      [{ app: [], two: [] }],
      { two: { kind: 'bearer' } },
    ],
  ];

  it.for(signIns)('says how to sign in with %s', ([, securitySchemes, security, auth], { folder }) => {
    const more = { components: { securitySchemes }, ...(security === undefined ? {} : { security }) };
    const written = writtenIn(imported(folder, { '/tickets': cursored }, more));
    expect(written).toMatchObject({ upstream: { auth } });
    const { upstream } = written as { upstream: { auth: Json } };
    expect(Object.keys(upstream.auth)).toEqual(Object.keys(auth as Json));
  });

  it('sends what is asked for beside a token as a header', ({ folder }) => {
    const securitySchemes = { app: header, token: { type: 'http', scheme: 'bearer' } };
    const more = { components: { securitySchemes }, security: [{ token: [], app: [] }] };
    expect(writtenIn(imported(folder, { '/tickets': cursored }, more))).toMatchObject({
      credentials: [{ fields: { token: {}, app: {} } }],
      upstream: { headers: { 'X-Key': { field: 'app' } } },
    });
  });

  const servers: readonly (readonly [string, readonly Json[], string, unknown])[] = [
    ['no address', [], 'https://{address}', { address: { from: [{ field: 'address', origin: true }] } }],
    ['half an address', [{ url: '/v3/' }], 'https://{address}/v3', { address: {} }],
    [
      'two addresses',
      [{ url: 'https://a.example/v1' }, { url: 'https://b.example/v1' }],
      'https://{address}/v1',
      { address: { pattern: String.raw`a\.example|b\.example` } },
    ],
    [
      'a name in the path',
      [
        {
          url: 'https://{team}.desk.example/{base}',
          variables: { team: { default: 'x' }, base: { default: 'v9' } },
        },
      ],
      'https://{team}.desk.example/v9',
      { team: {} },
    ],
  ];

  const free = { address: { pattern: expect.not.stringContaining('|') as string } };
  const doubtful: typeof servers = [
    ['http:', [{ url: 'http://desk.example/v1' }], 'https://{address}/v1', free],
    ['the address of a demo', [{ url: 'https://demo.desk.example' }], 'https://{address}', free],
    [
      'an address that is an example by its description',
      [{ url: 'https://desk.example', description: 'An example; use your own' }],
      'https://{address}',
      free,
    ],
    [
      'http: beside https:',
      [{ url: 'http://desk.example', description: 'Demo' }, { url: 'https://desk.example' }],
      'https://{address}',
      free,
    ],
    [
      'a name in place of the scheme',
      [{ url: '{scheme}://{host}/v1', variables: { scheme: { default: 'http' }, host: { default: 'x' } } }],
      'https://{host}/v1',
      { host: {} },
    ],
  ];

  it.for([
    [
      [{ url: 'https://a.example/v1' }, { url: 'https://b.example/v2' }],
      'https://{address}/v1',
      /\/v1, .*v2/,
    ],
    [
      [
        {
          url: 'https://a.example/{kind}',
          variables: { kind: { enum: ['open', 'admin'], default: 'open' } },
        },
      ],
      'https://a.example/open',
      /stands for kind \(such as open, admin\)/,
    ],
  ] as const)('asks which address of %j it is', ([urls, baseUrl, question], { folder }) => {
    const made = imported(folder, { '/tickets': cursored }, { servers: urls });
    expect(made.baseUrl).toBe(baseUrl);
    expect(made.definition?.text).toMatch(/# TODO write the address of the service/);
    expect(made.definition?.text.replaceAll(/\n +# /g, ' ')).toMatch(question);
  });

  it.for([...servers, ...doubtful])(
    'with %s leaves it to the credentials',
    ([, urls, baseUrl, host], { folder }) => {
      expect(writtenIn(imported(folder, { '/tickets': cursored }, { servers: urls }))).toMatchObject({
        upstream: { baseUrl, host },
      });
    },
  );

  it.for([
    ['https://desk.example/{x}', '../..//elsewhere.example'],
    ['https://desk.example/{x}', '@elsewhere.example/'],
    ['https://desk.example/{x}', '{x}$`$&'],
    ['https://{x}.desk.example/{x}', 'elsewhere.example/'],
    ['{x}://desk.example/{x}', 'elsewhere.example/'],
  ] as const)('is called at %s alone, whatever the default %s says', ([url, value], { folder }) => {
    const servers = [{ url, variables: { x: { default: value } } }];
    const made = imported(folder, { '/tickets': cursored }, { servers });
    const { hostname } =
      made.definition === null ? {} : new URL((made.baseUrl ?? '').replace(/\{\w+\}/, 'x'));
    expect(hostname ?? 'desk.example').toMatch(/^(?:x\.)?desk\.example$/);
  });

  it('is refused as Swagger 2.0, and without ways to sign in', ({ folder }) => {
    const path = join(folder, 'swagger.json');
    writeFileSync(path, JSON.stringify({ swagger: '2.0', info: {}, paths: {} }));
    expect(() => readPlainFile(path)).toThrow(/this is Swagger 2\.0, expected OpenAPI 3/);
    const unsigned = imported(folder, { '/tickets': cursored }, { components: {} });
    expect(outcomeOf(unsigned, 'tickets')).toMatch(/^refused: no way to sign in can be used/);
  });

  it('refuses a path that it does not list, and two of one name', ({ folder }) => {
    const plain = readPlainFile(file(folder, { '/tickets': cursored, '/v2/tickets': cursored }));
    expect(() => plainService(plain, ['/ticket'])).toThrow(/no GET "\/ticket" .*did you mean "\/tickets"/);
    expect(() => plainService(plain, ['/tickets', '/v2/tickets'])).toThrow(/would both be tickets/);
    expect(plainService(plain, ['/tickets', 'more=/v2/tickets']).operations).toHaveLength(2);
  });

  it('is read through references into lists and with percent-encoded names', ({ folder }) => {
    const parts = { 'A page': { allOf: [{ type: 'object', properties: { data: listOf(record) } }] } };
    const schema = { $ref: '#/components/schemas/A%20page/allOf/0' };
    const components = { securitySchemes: { token: { type: 'http', scheme: 'bearer' } }, schemas: parts };
    const { listings } = readPlainFile(file(folder, { '/tickets': get(schema) }, { components }));
    expect(listings).toMatchObject([{ path: '/tickets', records: ['data'] }]);
    for (const bad of ['#/components/schemas/A%20page/allOf/1', '#/paths/%zz']) {
      const wrong = file(folder, { '/tickets': get({ $ref: bad }) }, { components });
      expect(() => readPlainFile(wrong)).toThrow(/there is no #/);
    }
  });

  it('names an entity by the end of a path that is too long for a name', ({ folder }) => {
    const path = '/organization_memberships/{a}/notification_preferences/{b}/history';
    const { listings } = readPlainFile(file(folder, { [path]: get(listOf(record)) }));
    expect(listings).toMatchObject([{ entity: 'notification_preference_history' }]);
  });

  it('fills a place of the path that the file does not declare', ({ folder }) => {
    const made = imported(folder, { '/users': cursored, '/users/{user_id}/orders': cursored });
    expect(writtenIn(made)).toMatchObject({
      entities: { user_orders: { parents: [{ entity: 'users', params: { user_id: 'id' } }] } },
    });
    const alone = imported(folder, { '/shops/{shop}/orders': cursored });
    expect(outcomeOf(alone, 'shop_orders')).toMatch(/^todo: value write what to send as shop/);
  });

  it('does not follow keys of ours in it', ({ folder }) => {
    const paths = {
      '/tickets': { get: { ...(cursored['get'] as Json), 'x-airbyte-path-override': { path: '/x' } } },
    };
    expect(writtenIn(imported(folder, paths))).toMatchObject({
      upstream: { entities: { tickets: { list: { path: '/tickets' } } } },
    });
  });
});
