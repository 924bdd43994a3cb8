import { describe, expect, it } from 'vitest';
import { describedService, hostedAnswers } from '../support/described/described-service.ts';
import { jsonLines } from '../support/run-cli.ts';
import type { ReceivedRequest } from '../support/third-party/start-third-party.ts';

const single = '{ kind: single }';
const limits = 'limits: { concurrency: 4, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }';

/** A service with a key, whose entities are given, and their requests. */
const keyed = (entities: string, requests: string, more = ''): string => `
credentials: [{ title: Key, fields: { api_key: {}, account_id: { required: false }, zone: { required: false } } }]
entities:
${entities}
upstream:
  baseUrl: $ORIGIN
  auth: { Key: { kind: bearer, token: { field: api_key } } }
  check: { path: /me, identity: id }
  ${limits}
  message: [error]
${more}
  entities:
${requests}
`;

const things = (requests: string, more = '', entity = ''): string =>
  keyed(
    `  things: { fields: { id: string, name: string }, key: [id], actions: { list: {} }, pagination: ${single}${entity} }`,
    `    things: ${requests}`,
    more,
  );

const isCheck = ({ path: asked }: ReceivedRequest): boolean => asked === '/me';

describe('headers made of credentials', () => {
  const headers =
    "  headers: { X-Account: { field: account_id }, X-Zone: { field: zone, afterLast: '-' }, X-Version: '7' }";
  const definition = things(
    "{ list: { path: /things, records: '' }, headers: { X-Key: { field: api_key } } }",
    headers,
  );

  it('are sent with every request, one without a value is not, and no text or file has them', async () => {
    const secrets = { api_key: 'planted-key-31415926', account_id: 'planted-account-5358979' };
    const service = await describedService({
      definition,
      credentials: secrets,
      respond: (request) =>
        isCheck(request) ? { body: { id: 'a' } } : { status: 400, body: { error: echo(request) } },
    });
    const failed = await service.cli('sync');
    expect(failed.code).not.toBe(0);
    const [check, list] = service.requests;
    expect(check?.headers).toMatchObject({ 'x-account': secrets.account_id, 'x-version': '7' });
    expect(check?.headers).not.toHaveProperty('x-zone');
    expect(check?.headers).not.toHaveProperty('x-key');
    expect(list?.headers).toMatchObject({ 'x-account': secrets.account_id, 'x-key': secrets.api_key });
    for (const text of [failed.stdout, failed.stderr, ...service.files()]) {
      for (const secret of Object.values(secrets)) expect(text).not.toContain(secret);
    }
    expect(failed.stdout + failed.stderr).toContain('the service says');
  });

  it('hide the part of a secret that they are made of', async () => {
    const service = await describedService({
      definition,
      credentials: { api_key: 'k', zone: 'abc-planted-part-93238462' },
      respond: (request) =>
        isCheck(request) ? { body: { id: 'a' } } : { status: 400, body: { error: echo(request) } },
    });
    const { stdout, stderr } = await service.cli('sync');
    expect(service.requests[0]?.headers['x-zone']).toBe('93238462');
    expect(stdout + stderr).toContain('the service says');
    expect(stdout + stderr).not.toContain('93238462');
  });
});

function echo({ headers }: ReceivedRequest): string {
  return `the service says ${String(headers['x-account'])} ${String(headers['x-key'])} ${String(headers['x-zone'])}`;
}

describe('records below others', () => {
  it('are found by a key inside of an object, and not by an empty text or null', async () => {
    const owners = [{ id: 'a' }, { id: '' }, { id: null }, {}, { id: 'b' }];
    const service = await describedService({
      definition: keyed(
        `  groups: { fields: { id: string, owner: object }, key: [id], actions: { list: {} }, pagination: ${single} }
  members:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { owner: { type: string, required: true } } } }
    pagination: ${single}
    parents: [{ entity: groups, params: { owner: owner.id }, when: [{ kind: present, field: owner }] }]`,
        `    groups: { list: { path: /groups, records: '' } }
    members: { list: { path: '/owners/{owner}', records: '' } }`,
      ),
      credentials: { api_key: 'k' },
      respond: (request) => {
        if (isCheck(request)) return { body: { id: 'a' } };
        if (request.path === '/groups') return { body: owners.map((owner, at) => ({ id: `g${at}`, owner })) };
        return { body: [{ id: request.path }] };
      },
    });
    await service.sync();
    expect([...service.rows('members').values()].map(({ columns }) => columns['id'])).toEqual([
      '/owners/a',
      '/owners/b',
    ]);
  });
});

describe('records inside of others', () => {
  it.each<[string, string, unknown]>([
    [
      'each an element of a list',
      "'list[*].thing'",
      { list: [{ thing: { id: '1', name: 'a' }, card: {} }, { thing: { id: '2' } }] },
    ],
    [
      'each an element of the answer',
      "'[*].thing'",
      [{ thing: { id: '1', name: 'a' } }, { thing: { id: '2' } }],
    ],
    [
      'arrays in the elements of a list',
      "'data.boards[*].items'",
      { data: { boards: [{ items: [{ id: '1', name: 'a' }] }, { items: [] }, { items: [{ id: '2' }] }] } },
    ],
  ])('are read where they are: %s', async (_where, records, body) => {
    const service = await describedService({
      definition: things(`{ list: { path: /things, records: ${records} } }`),
      credentials: { api_key: 'k' },
      respond: (request) => ({ body: isCheck(request) ? { id: 'a' } : body }),
    });
    await service.sync();
    expect([...service.rows('things').values()].map(({ columns }) => columns)).toEqual([
      { id: '1', name: 'a' },
      { id: '2', name: null },
    ]);
  });

  it('go to quarantine with their place where they are no objects, and take no other with them', async () => {
    const service = await describedService({
      definition: things("{ list: { path: /things, records: 'list[*].thing' } }"),
      credentials: { api_key: 'k' },
      respond: (request) => ({
        body: isCheck(request) ? { id: 'a' } : { list: [{ thing: { id: '1' } }, { other: {} }] },
      }),
    });
    const result = await service.cli('sync', '--json');
    expect(jsonLines(result).find(({ kind }) => kind === 'run-report')).toMatchObject({
      report: { entities: [{ counts: { fetched: 2, quarantined: 1, inserted: 1 } }] },
    });
    expect([...service.rows('things').keys()]).toHaveLength(1);
    expect(service.files().join()).toContain('expected an object, got null, in place 2 of 2 of its page');
  });

  it('may be one object, which is a list of one', async () => {
    let answer: unknown = { stats: { id: '1', name: 'a' } };
    const service = await describedService({
      definition: things('{ list: { path: /stats/, records: { path: stats, one: true } } }'),
      credentials: { api_key: 'k' },
      respond: (request) => ({ body: isCheck(request) ? { id: 'a' } : answer }),
    });
    await service.sync();
    expect(service.requests.map(({ path: asked }) => asked)).toEqual(['/me', '/stats/']);
    expect([...service.rows('things').values()].map(({ columns }) => columns)).toEqual([
      { id: '1', name: 'a' },
    ]);
    answer = { stats: [] };
    const result = await service.cli('sync');
    expect(result.stdout + result.stderr).toContain(
      'expected one record at stats, got stats is an array of 0',
    );
  });
});

describe('a listing that the definition has in one answer', () => {
  type Answer = { readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> };
  const one = [{ id: '1', name: 'a' }];
  let reply: Answer = {};
  const read = async (entity = '') => {
    const service = await describedService({
      definition: things('{ list: { path: /things, records: data.things } }').replace(
        single,
        entity || single,
      ),
      credentials: { api_key: 'k' },
      respond: (request) => (isCheck(request) ? { body: { id: 'a' } } : reply),
    });
    return async (answer: Answer) => {
      reply = { ...answer, body: answer.body ?? { data: { things: one } } };
      const { code, stdout } = await service.cli('sync', '--json');
      return { code, told: stdout, rows: service.rows('things').size };
    };
  };

  // Proves promise 3.1
  it('fails where the answer says that more follows, and keeps what came', async () => {
    const synced = await read();
    const more: readonly (readonly [string, Answer])[] = [
      ['has_more', { body: { data: { things: one }, has_more: true } }],
      ['page_info.has_next_page', { body: { data: { things: one, pageInfo: { hasNextPage: true } } } }],
      ['paging.next', { body: { data: { things: one }, paging: { next: { after: '2' } } } }],
      ['next_page_token', { body: { data: { things: one }, nextPageToken: 'abc' } }],
      ['next', { headers: { link: '</things?page=2>; rel="next"' } }],
    ];
    for (const [sign, answer] of more) {
      const { code, told, rows } = await synced(answer);
      expect([code === 0, rows], sign).toEqual([false, 1]);
      expect(told).toContain(`the answer says by ${sign} that more records follow`);
    }
  });

  it('is complete where the answer says that nothing follows, or the definition that its names mean something else', async () => {
    const synced = await read();
    const none: readonly Answer[] = [
      { body: { data: { things: one }, has_more: false, next_cursor: 'last' } },
      { body: { data: { things: one }, links: { next: null }, paging: {}, next_page: 0 } },
      { headers: { link: '</things?page=1>; rel="prev"' } },
    ];
    for (const answer of none) expect(await synced(answer)).toMatchObject({ code: 0 });
    const silent = await read('{ kind: single, flagKeys: [] }');
    expect(await silent({ body: { data: { things: one }, has_more: true } })).toMatchObject({ code: 0 });
  });
});

describe('records of an API', () => {
  const hosted = (entity: string): string => `
entities:
  things:
    fields: { thing_id: string, full_name: string }
    key: [thing_id]
    actions: { list: {}, get: { params: { id: { type: string, required: true } }, key: { id: thing_id } } }
    pagination: ${single}
    ${entity}
`;

  it('have the names that the definition gives them, in keys too, and keep what is in their way', async () => {
    const service = await describedService({
      definition: hosted('rename: { thingId: thing_id, fullName: full_name }'),
      respond: hostedAnswers(({ action }) => ({
        result:
          action === 'get'
            ? { thingId: '1', fullName: 'Ann' }
            : [
                { thingId: '1', fullName: 'Ann', other: 1 },
                { thingId: '2', fullName: 'Bob', full_name: 'Robert' },
              ],
      })),
    });
    await service.sync();
    expect([...service.rows('things').values()]).toEqual([
      { columns: { thing_id: '1', full_name: 'Ann' }, extra: { other: 1 } },
      { columns: { thing_id: '2', full_name: 'Robert' }, extra: { fullName: 'Bob' } },
    ]);
    expect(await service.sync()).toMatchObject({ entities: [{ counts: { unchanged: 2, updated: 0 } }] });
    const got = await service.cli('get', 'mine/things', '--param', 'id=1', '--json');
    expect(JSON.parse(got.stdout)).toMatchObject({ record: { thing_id: '1', full_name: 'Ann' } });
  });

  it.each<[string, string, unknown]>([
    ['an object of the result', 'records: data.things', { data: { things: [{ thing_id: '1' }] } }],
    ['elements of a list', "records: 'list[*].thing'", { list: [{ thing: { thing_id: '1' } }] }],
    ['the result, as the only one', "records: { path: '', one: true }", { thing_id: '1' }],
    ['an object, and come as an array all the same', 'records: data.things', [{ thing_id: '1' }]],
  ])('are read in %s', async (_where, entity, result) => {
    const service = await describedService({
      definition: hosted(entity),
      respond: hostedAnswers(() => ({ result })),
    });
    await service.sync();
    expect([...service.rows('things').keys()]).toHaveLength(1);
  });
});

describe('a definition with requests for some entities only', () => {
  const definition = keyed(
    ['things', 'others']
      .map(
        (name) =>
          `  ${name}: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: ${single} }`,
      )
      .join('\n'),
    "    things: { list: { path: /things, records: '' } }",
  );
  const respond = (request: ReceivedRequest) => ({ body: isCheck(request) ? { id: 'a' } : [{ id: '1' }] });

  it('is refused by a direct connector that reads the others', async () => {
    const service = await describedService({ definition, credentials: { api_key: 'k' }, respond });
    const result = await service.cli('sync');
    expect(result.code).not.toBe(0);
    expect(result.stderr).toContain(
      'the connector type described does not say how its service is asked for others: exclude it, or read it through an API',
    );
    expect(service.requests).toEqual([]);
  });

  // Proves specification 4.4.5
  it('is read by a direct connector without them, and by a hosted one with them', async () => {
    const settings = '    exclude: [others]\n';
    const service = await describedService({ definition, credentials: { api_key: 'k' }, respond, settings });
    await service.sync();
    expect(service.rows('things').size).toBe(1);
    const hosted = await describedService({
      definition,
      respond: hostedAnswers(() => ({ result: [{ id: '1' }] })),
    });
    await hosted.sync();
    expect([hosted.rows('things').size, hosted.rows('others').size]).toEqual([1, 1]);
  });
});

describe('a check without identity', () => {
  const entity = (name: string): string =>
    `  ${name}: { fields: { id: string }, key: [id], actions: { list: {}, get: { params: { id: { type: string, required: true } }, key: { id: id } } }, pagination: ${single} }`;
  const definition = keyed(
    entity('things'),
    "    things: { list: { path: /things, records: '' }, get: { path: '/things/{id}' } }",
  ).replace('check: { path: /me, identity: id }', 'check: { path: /me }');
  /** 1,100 records, whose ids begin with the key. */
  const respond = ({ path: asked, headers }: ReceivedRequest) => {
    const key = String(headers.authorization).replace('Bearer ', '');
    if (asked === '/me') return { body: {} };
    const ids = Array.from({ length: 1_100 }, (_, index) => ({ id: `${key}-${index}` }));
    if (asked === '/things') return { body: ids };
    const id = asked.slice('/things/'.length);
    return id.startsWith(`${key}-`) ? { body: { id } } : { status: 404, body: { error: 'no' } };
  };

  it('has no account to name, and another one is noticed by its records', async () => {
    const service = await describedService({ definition, credentials: { api_key: 'one' }, respond });
    await service.sync();
    const check = await service.cli('check');
    expect(check.stdout).toContain('an account of http://127.0.0.1:');
    expect(check.stdout).toContain('credentials of another account there are noticed by its records only');
    service.signIn({ api_key: 'two' });
    const other = await service.cli('sync', '--full');
    expect(other.code).toBe(2);
    expect(other.stdout + other.stderr).toContain('seems to read another account');
    expect([...service.rows('things').values()][0]?.columns['id']).toMatch(/^one-/);
  });
});
