import { describe, expect } from 'vitest';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describedService, hostedAnswers, keyedService } from '../support/described/described-service.ts';
import { jsonLines, callCli } from '../support/run-cli.ts';
import {
  type ReceivedRequest,
  type Reply,
  startThirdParty,
} from '../support/third-party/start-third-party.ts';
import { loadDefinition } from '../../src/definitions/load-definitions.ts';
import { servedAt, serviceText, type Listing } from '../support/import/miniature.ts';
import { it } from '../support/it.ts';
import { sqliteRows } from '../support/expected-rows.ts';

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

const definition = `entities:
  sites:
    fields: { id: string }
    key: [id]
    actions: { list: {} }
    pagination: { kind: single }
  visits:
    fields: { site_id: string, day: string, count: integer, rank: integer, links: array }
    key: none
    ignored: [request_id]
    volatile: [rank, 'links.*.token']
    actions: { list: { params: { site: { type: string, required: true }, page: string } } }
    pagination: { kind: pageToken, tokenParam: page, tokenKeys: [next] }
    parents: [{ entity: sites, params: { site: id }, inject: { site_id: site } }]
    deletes: never
`;

describe('a listing without a key', () => {
  it('is stored by what its records say, and never deleted', async () => {
    let requests = 0;
    let visits = [
      { day: '2026-05-01', count: 4, more: { a: 1, b: 2 } },
      { day: '2026-05-02', count: 7 },
    ];
    const service = await describedService({
      definition,
      respond: hostedAnswers(({ entity }) => {
        if (entity === 'sites') return { result: [{ id: 's1' }, { id: 's2' }] };
        requests += 1;
        const changing = { request_id: requests, rank: requests, links: [{ token: `t${requests}` }] };
        return {
          result: visits.map((visit) => ({ ...visit, ...changing })),
          connector_metadata: { next: null },
        };
      }),
    });
    await service.sync();
    const rows = (): readonly string[] =>
      [...service.rows('visits').values()]
        .map(({ columns }) => JSON.stringify([columns['site_id'], columns['day'], columns['count']]))
        .toSorted();
    const before = [
      '["s1","2026-05-01",4]',
      '["s1","2026-05-02",7]',
      '["s2","2026-05-01",4]',
      '["s2","2026-05-02",7]',
    ];
    expect(rows()).toEqual(before);
    for (const { columns } of service.rows('visits').values()) {
      expect(columns['record_hash']).toMatch(/^[0-9a-f]{32}$/);
    }
    // The same records in another order, and with other names first, are the same rows.
    visits = [
      { count: 7, day: '2026-05-02' },
      { more: { b: 2, a: 1 }, count: 4, day: '2026-05-01' },
    ];
    expect(countsOf(await service.sync('--full'))).toMatchObject({ inserted: 0, deleted: 0 });
    expect(rows()).toEqual(before);
    // One that changes is another row; none is deleted.
    visits = [{ day: '2026-05-02', count: 8 }];
    expect(countsOf(await service.sync('--full'))).toMatchObject({ inserted: 2, deleted: 0 });
    expect(rows()).toEqual([...before, '["s1","2026-05-02",8]', '["s2","2026-05-02",8]'].toSorted());
    const text = 'without a key: visits (a record that changes is another row, and none counts as deleted)';
    expect((await service.cli('status')).stdout).toContain(text);
    expect((await service.cli('check')).stdout).toContain(text);
  });
});

function countsOf(report: Record<string, unknown>): object {
  // `as`: the program's own report.
  const entities = report['entities'] as readonly { entity: string; deleted: number; counts: object }[];
  const found = entities.find(({ entity }) => entity === 'visits');
  return { ...found?.counts, deleted: found?.deleted };
}

describe('clients', () => {
  const definition = `
credentials: [{ title: Client, fields: { id: {}, secret: {}, account: { required: false } } }]
entities:
  things: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }
upstream:
  baseUrl: $ORIGIN
  auth:
    Client:
      kind: clientCredentials
      clientId: { field: id }
      clientSecret: { field: secret }
      tokenUrl: $ORIGIN/token
      style: basic
      format: form
      scope: read:things read:me
      params: { audience: things }
      keeps: { account: account.id }
  headers: { X-Account: { field: account } }
  check: { path: /me, identity: id }
  limits: { concurrency: 1, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  entities: { things: { list: { path: /things, records: '' } } }
`;
  const credentials = { id: 'client-1', secret: 'planted-secret-14142135' };

  /** A service whose token holds for so many calls. */
  function serving(holds: number): (request: ReceivedRequest) => Reply {
    let issued = 0;
    let left = 0;
    return ({ path, headers }) => {
      if (path === '/token') {
        issued += 1;
        left = holds;
        return { body: { access_token: `planted-token-${issued}-17320508`, account: { id: 'acct-7' } } };
      }
      left -= 1;
      const isTaken = left >= 0 && headers.authorization === `Bearer planted-token-${issued}-17320508`;
      if (!isTaken) return { status: 401, body: { error: 'the token has ended' } };
      return { body: path === '/me' ? { id: 'acct-7' } : [{ id: '1' }] };
    };
  }

  describe('a connector whose credentials are those of a client', () => {
    it('asks for a token before the first call, and sends what came with it', async () => {
      const service = await describedService({ definition, credentials, respond: serving(10) });
      await service.sync();
      const [token, ...calls] = service.requests;
      expect(token).toMatchObject({
        path: '/token',
        method: 'POST',
        headers: { authorization: `Basic ${btoa(`client-1:${credentials.secret}`)}` },
      });
      expect(Object.fromEntries(new URLSearchParams(token?.body))).toEqual({
        grant_type: 'client_credentials',
        scope: 'read:things read:me',
        audience: 'things',
      });
      expect(calls.map(({ path, headers }) => [path, headers['x-account']])).toEqual([
        ['/me', 'acct-7'],
        ['/things', 'acct-7'],
      ]);
      expect(service.rows('things').size).toBe(1);
    });

    it('asks for another one when it has ended, and stores none', async () => {
      const service = await describedService({ definition, credentials, respond: serving(1) });
      const result = await service.cli('sync');
      expect(result.code).toBe(0);
      expect(service.requests.map(({ path }) => path)).toEqual([
        '/token',
        '/me',
        '/things',
        '/token',
        '/things',
      ]);
      for (const text of [result.stdout, result.stderr, ...service.files()]) {
        expect(text).not.toContain('17320508');
        expect(text).not.toContain('14142135');
      }
    });

    it('ends where the client gets no token, in the words of the service', async () => {
      const service = await describedService({
        definition,
        credentials,
        respond: () => ({
          status: 401,
          body: { error: 'invalid_client', error_description: `no ${credentials.secret}` },
        }),
      });
      const { code, stdout, stderr } = await service.cli('sync');
      expect(code).toBe(4);
      expect(stdout + stderr).toContain('gives no access token (invalid_client: no [secret])');
      expect(service.requests.map(({ path }) => path)).toEqual(['/token']);
    });
  });
});

describe('times', () => {
  const things = (list: string): string => `{ things: { list: ${list} } }`;
  const isCheck = ({ path }: ReceivedRequest): boolean => path === '/me';
  const dayMs = 86_400_000;
  const dateAt = (days: number): string => new Date(Date.now() + days * dayMs).toISOString().slice(0, 10);

  describe('a listing that demands a span of time', () => {
    const entity = `entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { start: { type: string, required: true }, end: string, at: integer, page: string } } }
    pagination: { kind: pageToken, tokenParam: page, tokenKeys: [next] }
    fixedParams:
      start: { days: -30, format: date }
      end: { days: 1, format: compactHour }
      at: { days: 0, format: unix }
    deletes: never
`;
    const requests =
      "{ path: /things, records: items, params: { start: { as: 'filter[from]' } }, paging: { kind: cursor, token: next } }";

    it('is asked for one that ends with the clock, the same on every page', async () => {
      const service = await keyedService({
        entities: entity,
        requests: things(requests),
        respond: (request) => {
          const isFirst = request.query.get('page') === null;
          return { body: { items: [{ id: isFirst ? '1' : '2' }], next: isFirst ? 'p2' : null } };
        },
      });
      const before = Date.now();
      const [earliest, latest] = [dateAt(-30), dateAt(1)];
      await service.sync();
      const [first, second] = service.requests
        .filter((request) => !isCheck(request))
        .map(({ query }) => Object.fromEntries(query));
      expect([earliest, dateAt(-30)]).toContain(first?.['filter[from]']);
      expect(first?.['end']).toMatch(/^\d{8}T\d{2}$/);
      expect([latest, dateAt(1)].map((date) => date.replaceAll('-', ''))).toContain(
        first?.['end']?.slice(0, 8),
      );
      expect(Number(first?.['at'])).toBeGreaterThanOrEqual(Math.floor(before / 1_000) - 2);
      expect(Number(first?.['at'])).toBeLessThanOrEqual(Date.now() / 1_000 + 1);
      expect(second).toEqual({ ...first, page: 'p2' });
      expect(service.rows('things').size).toBe(2);
      const listed = await service.cli('list', 'mine/things', '--json');
      expect(JSON.parse(listed.stdout)).toMatchObject({ records: [{ id: '1' }] });
      expect((await service.cli('check')).stdout).toContain('answered as the definition says');
    });

    it('is asked for it through an API too, and by a run that resumes with the time of its walk', async () => {
      const asked: Record<string, unknown>[] = [];
      const answer = hostedAnswers(({ params }) => {
        asked.push(params);
        const page = Number(params['page'] ?? '1');
        const next = page < 4 ? String(page + 1) : null;
        return { result: [{ id: String(page) }], connector_metadata: { next } };
      });
      let date = 'Fri, 01 May 2026 10:00:00 GMT';
      const service = await describedService({
        definition: entity,
        respond: async (request, index) => {
          const reply = await answer(request, index);
          return typeof reply === 'function' ? reply : { ...reply, headers: { date } };
        },
      });
      await service.cli('sync', '--max-calls', '2');
      expect(asked).toHaveLength(2);
      date = 'Sat, 02 May 2026 12:00:00 GMT';
      await service.sync();
      expect(asked.map(({ start, end, at }) => [start, end, at])).toEqual(
        Array.from({ length: 4 }, () => ['2026-04-01', '20260502T10', 1_777_629_600]),
      );
      await service.sync();
      expect(asked.at(-1)).toMatchObject({ start: '2026-04-02', end: '20260503T12' });
      expect(service.rows('things').size).toBe(4);
    });
  });

  describe('a change field that holds a number', () => {
    const requests = things("{ path: /things, records: '', params: { since: { as: 'updated[gte]' } } }");
    const entities = (type: string, format: string, param: string, more = ''): string => `entities:
  things:
    fields: { id: string, changed: ${type} }
    key: [id]
    actions: { list: { params: { since: ${param} } } }
    pagination: { kind: single }
    incremental: { kind: since, field: changed, format: ${format}, sinceParam: since, lookbackMs: 1000${more} }
`;
    const seconds = Math.floor(Date.now() / 1_000) - 1_000;

    it.each<[string, string, string, string, unknown, unknown, string]>([
      ['seconds', 'integer', 'unix', 'integer', seconds, seconds + 10, String(seconds - 2)],
      [
        'milliseconds',
        'integer',
        'unixMs',
        'string',
        seconds * 1_000,
        seconds * 1_000 + 5,
        `${seconds - 2}000`,
      ],
      [
        'seconds in a text',
        'string',
        'unix',
        'string',
        `${seconds}.000100`,
        `${seconds + 3}.5`,
        String(seconds - 2),
      ],
    ])(
      'of %s is asked for from the highest one on',
      async (_what, type, format, param, first, second, since) => {
        let rows = [{ id: '1', changed: first }];
        const respond = () => ({ body: rows });
        const service = await keyedService({ entities: entities(type, format, param), requests, respond });
        await service.sync();
        rows = [{ id: '2', changed: second }];
        await service.sync();
        const asked = service.requests.filter((request) => !isCheck(request));
        const [atFirst, then] = asked.map(({ query }) => query.get('updated[gte]'));
        expect(atFirst).toBeNull();
        expectAbout(then, since, format === 'unix' ? 1 : 1_000);
        // What was not listed is no deleted record.
        expect(service.rows('things').size).toBe(2);
        const explained = await service.cli('explain', 'mine/things', '--key', 'id=2');
        expect(explained.stdout).toContain(
          new Date(Number(second) * (format === 'unix' ? 1_000 : 1)).toISOString(),
        );
      },
    );
  });

  /** Up to a second earlier where the answers were slow: the service's clock is known less well then. */
  function expectAbout(asked: string | null | undefined, since: string, second: number): void {
    expect(asked).toMatch(/^\d+$/);
    const earlier = Number(since) - Number(asked);
    expect([0, second]).toContain(earlier);
  }
});

const total = 23;
const largest = 5;
const records = Array.from({ length: total }, (_, at) => ({
  id: `r${String(at).padStart(2, '0')}`,
  displayName: `Number ${at}`,
}));
const record = { id: { type: 'string' }, displayName: { type: 'string' } };
const size = { schema: { type: 'integer', maximum: largest } };
const nullable = { type: ['string', 'null'] };
const token = { meta: { next: '$.next' }, answer: { next: nullable } } as const;
const onePage = { 'x-airbyte-no-pagination': 'All of them come in a single response.' };

/** The service's own description: how it pages is written a second time below, by hand. */
const listings: Readonly<Record<string, Listing>> = {
  by_cursor: {
    record,
    params: { cursor: 'string', limit: size },
    meta: { c: '$.next_cursor' },
    answer: { next_cursor: nullable },
  },
  by_body: {
    record,
    method: 'post',
    ...token,
    meta: { next_token: '$.nextToken' },
    answer: { nextToken: nullable },
    more: {
      requestBody: {
        content: {
          'application/json': {
            schema: {
              properties: { nextToken: { type: 'string' }, limit: { type: 'integer', maximum: largest } },
            },
          },
        },
      },
    },
  },
  by_page: {
    record,
    extractor: '$',
    params: { page: { schema: { type: 'integer', default: 1 } }, per_page: size },
    meta: { next: '@link.next' },
  },
  by_offset: {
    record,
    params: { offset: { schema: { type: 'integer', default: 0 } }, count: size },
    answer: { total_items: { type: 'integer' } },
  },
  by_address: {
    record,
    params: { 'page[cursor]': 'string' },
    meta: { next: '$.links.next' },
    answer: { links: { properties: { next: nullable } } },
  },
  by_header: { record, extractor: '$', params: { cursor: 'string' }, meta: { next: '@link.next' } },
  by_last: {
    record,
    params: { starting_after: { description: 'An object id', schema: { type: 'string' } }, limit: size },
    meta: { has_more: '$.has_more' },
    answer: { has_more: { type: 'boolean' } },
  },
  wrapped: {
    extractor: '$.items[*].thing',
    more: onePage,
    answer: {},
    record: { thing: { type: 'object', properties: record } },
  },
  children: { record, path: '/by_cursor/{by_cursor_id}/children', more: onePage },
};

/** How the made-up service answers, whatever its description says. */
function answer({ path, query, body }: ReceivedRequest, origin: string): Reply {
  const given = body === '' ? {} : (JSON.parse(body) as Record<string, unknown>);
  const most = (name: string): number => Math.min(largest, Number(query.get(name) ?? given[name] ?? 3));
  const from = (at: number, count: number) => records.slice(at, at + count);
  const after = (at: number): string | null => (at < total ? String(at) : null);
  if (path.endsWith('/children')) return { body: { items: from(0, 2) } };
  switch (path) {
    case '/by_cursor': {
      const at = Number(query.get('cursor') ?? 0);
      const count = most('limit');
      return { body: { items: from(at, count), next_cursor: after(at + count) } };
    }
    case '/by_body': {
      const at = Number(given['nextToken'] ?? 0);
      const next = after(at + most('limit'));
      return { body: { items: from(at, most('limit')), ...(next === null ? {} : { nextToken: next }) } };
    }
    case '/by_page':
      return { body: from((Number(query.get('page') ?? 1) - 1) * most('per_page'), most('per_page')) };
    case '/by_offset':
      return { body: { items: from(Number(query.get('offset') ?? 0), most('count')), total_items: total } };
    case '/by_address': {
      const at = Number(query.get('page[cursor]') ?? 0);
      const next = at + 4 < total ? `${origin}/by_address?page%5Bcursor%5D=${at + 4}&sort=x` : null;
      return { body: { items: from(at, 4), links: { next } } };
    }
    case '/by_header': {
      const at = Number(query.get('cursor') ?? 0);
      const link = at + 4 < total ? { Link: `<${origin}/by_header?cursor=${at + 4}>; rel="next"` } : {};
      return { headers: link, body: from(at, 4) };
    }
    case '/by_last': {
      const last = query.get('starting_after');
      const at = last === null ? 0 : records.findIndex(({ id }) => id === last) + 1;
      return { body: { items: from(at, most('limit')), has_more: at + most('limit') < total } };
    }
    case '/wrapped':
      return { body: { items: records.map((thing) => ({ thing })) } };
    default:
      return { status: 404, body: { error: `there is no ${path}` } };
  }
}

describe('a service whose definition was imported', () => {
  it('is read in full, however it pages', async ({ folder }) => {
    const service: { origin: string } = { origin: '' };
    const { origin, port } = await startThirdParty((request) => answer(request, service.origin));
    service.origin = origin;
    writeFileSync(join(folder, 'connector.yaml'), serviceText({ listings, servers: [{ url: origin }] }));
    const imported = await callCli(
      ['definitions', 'import', 'connector.yaml', '--mode', 'direct', '-o', 'definitions'],
      { cwd: folder },
    );
    expect(imported.stdout).toContain(`${Object.keys(listings).length} converted, 0 with a TODO, 0 refused`);
    const file = join(folder, 'definitions', 'corner-shop-direct.yaml');
    // What the file does not say of this service: it has no limits.
    writeFileSync(
      file,
      servedAt(origin, readFileSync(file, 'utf8')).replaceAll(
        'requestsPerSecond: 2',
        'requestsPerSecond: 1000',
      ),
    );
    writeFileSync(
      join(folder, 'sync.yaml'),
      `definitions: [./definitions]
allowUpstreamHosts: ['127.0.0.1:${port}']
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  mine: { definition: corner-shop-direct, credentials: { api_key: key }, sink: main }
`,
      { mode: 0o600 },
    );
    const synced = await callCli(['sync', '--config', 'sync.yaml'], { cwd: folder });
    expect(synced.code, synced.stdout + synced.stderr).toBe(0);
    const { entities } = loadDefinition(file);
    const counts = [...entities.values()].map(({ name, table }) => {
      const rows = [...sqliteRows(join(folder, 'main.db'), 'mine', table).values()];
      const names = rows.map(({ columns }) => columns['display_name']);
      expect(names).toEqual(names.map(() => expect.stringMatching(/^Number \d/) as string));
      return [name, rows.length];
    });
    expect(Object.fromEntries(counts)).toEqual({
      ...Object.fromEntries(Object.keys(listings).map((name) => [name, total])),
      children: 2 * total,
    });

    const text = readFileSync(file, 'utf8');
    const withTodo = async (above: string, ...args: readonly string[]) => {
      const at = text.indexOf(`\n${above}`) + 1;
      expect(at).toBeGreaterThan(0);
      writeFileSync(file, `${text.slice(0, at)}# TODO write it down: who knows?\n${text.slice(at)}`);
      const { code, stderr } = await callCli(['sync', 'mine', ...args, '--config', 'sync.yaml'], {
        cwd: folder,
      });
      return { code, stderr, line: text.slice(0, at).split('\n').length };
    };
    const open = await withTodo('  by_page:\n', '--select', 'by_cursor', 'by_page');
    expect(open).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        `mine cannot sync by_page: line ${open.line} of the definition corner-shop-direct is a TODO: write it down: who knows?`,
      ) as string,
    });
    expect((await withTodo('  by_page:\n', '--select', 'by_cursor')).code).toBe(0);
    const parent = /^ {4}parents:\n(?:.*\n)*? {8}entity: (?<parent>\w+)|entity: (?<flow>\w+)/m.exec(
      text,
    )?.groups;
    const above = await withTodo(
      `  ${parent?.['parent'] ?? parent?.['flow'] ?? ''}:\n`,
      '--select',
      'children',
    );
    expect(above.code).toBe(2);
    expect((await withTodo('  baseUrl:', '--select', 'by_cursor')).stderr).toContain(
      'mine cannot sync any entity',
    );
  });
});
