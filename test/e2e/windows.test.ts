import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { formatProblem } from '../../src/core/problems.ts';
import { parseDefinition } from '../../src/definitions/load-definitions.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { describedService, hostedAnswers, keyedService } from '../support/described/described-service.ts';
import type { ReceivedRequest, Reply } from '../support/third-party/start-third-party.ts';

const dayMs = 86_400_000;

let aheadMs = 0;

beforeEach(() => {
  const realNow = Date.now;
  aheadMs = Date.parse('2026-03-04T12:00:00Z') - realNow();
  vi.spyOn(Date, 'now').mockImplementation(() => realNow() + aheadMs);
});
afterEach(() => {
  vi.restoreAllMocks();
});

function passDays(days: number): void {
  aheadMs += days * dayMs;
}

const reports = `entities:
  clicks:
    fields: { day: string, ad: string, clicks: integer }
    key: none
    inject: { day: from }
    actions: { list: { params: { from: string, to: string, cursor: string } } }
    pagination: { kind: pageToken, tokenParam: cursor, tokenKeys: [next] }
    incremental:
      kind: windows
      fromParam: from
      toParam: to
      isToIncluded: true
      format: '%Y-%m-%d'
      step: { days: 1 }
      lookbackMs: 172800000
      first: '2026-02-28'
`;
const oneListing = (path: string, entity = 'clicks'): string =>
  `{ ${entity}: { list: { path: ${path}, records: data, metadata: { next: next } } } }`;

/** The clicks of ads by day, and what was asked. */
function adService() {
  const days = new Map<string, Record<string, number>>();
  const asked: string[] = [];
  const answer = (params: { readonly from: string | null; readonly to: string | null }) => {
    asked.push(`${params.from}..${params.to}`);
    const data = Object.entries(days.get(params.from ?? '') ?? {}).map(([ad, clicks]) => ({ ad, clicks }));
    return { data, next: null };
  };
  return {
    days,
    /** The windows that were asked for since the last time. */
    asked: () => asked.splice(0),
    answer,
    respond: ({ query }: ReceivedRequest): Reply => ({
      body: answer({ from: query.get('from'), to: query.get('to') }),
    }),
  };
}

type Rows = ReadonlyMap<string, { readonly columns: Readonly<Record<string, unknown>> }>;

const live = (rows: Rows) => [...rows.values()].map(({ columns }) => columns);
const clicksIn = (rows: Rows): readonly string[] =>
  live(rows)
    .map((row) => `${String(row['day'])} ${String(row['ad'])} ${String(row['clicks'])}`)
    .toSorted();
const eachDay = (...days: readonly string[]): readonly string[] => days.map((day) => `${day}..${day}`);

async function adWorld(entities = reports) {
  const service = adService();
  const world = await keyedService({
    entities,
    requests: oneListing('/clicks'),
    respond: service.respond,
  });
  return { ...service, ...world, asked: () => service.asked().toSorted() };
}

describe('a report without a key that is read by day', () => {
  it('replaces the rows of a day that it reads again, and leaves days that ended long ago', async () => {
    const world = await adWorld();
    const { days, asked } = world;
    days.set('2026-02-28', { a: 1 }).set('2026-03-03', { a: 3, b: 3 }).set('2026-03-04', { a: 4 });
    await world.sync();
    expect(asked()).toEqual(eachDay('2026-02-28', '2026-03-01', '2026-03-02', '2026-03-03', '2026-03-04'));
    days.set('2026-02-28', { a: 100 }).set('2026-03-03', { a: 33, c: 3 }).set('2026-03-04', { a: 44 });
    await world.sync();
    expect(asked()).toEqual(eachDay('2026-03-02', '2026-03-03', '2026-03-04'));
    expect(clicksIn(world.rows('clicks'))).toEqual([
      '2026-02-28 a 1',
      '2026-03-03 a 33',
      '2026-03-03 c 3',
      '2026-03-04 a 44',
    ]);
    const [key = ''] = [...world.rows('clicks')].flatMap(([text, { columns }]) =>
      columns['day'] === '2026-02-28' ? [text.slice(2, -2)] : [],
    );
    const explained = await world.cli('explain', 'mine/clicks', '--key', `record_hash=${key}`);
    expect(explained.stdout).toContain('{"from":"2026-02-28","to":"2026-02-28"}');
    expect(explained.stdout).toContain('its window ended too long ago to change');
    passDays(1);
    await world.sync();
    expect(asked()).toEqual(eachDay('2026-03-02', '2026-03-03', '2026-03-04', '2026-03-05'));
    await world.sync();
    expect(asked()).toEqual(eachDay('2026-03-03', '2026-03-04', '2026-03-05'));
    await world.sync('--full');
    expect(asked()).toHaveLength(6);
    expect(clicksIn(world.rows('clicks'))).toContain('2026-02-28 a 100');
  });

  it('takes few lines in reports, and is tried by its newest day', async () => {
    const world = await adWorld(reports.replace('2026-02-28', '2025-09-28'));
    const { stdout } = await world.cli('sync');
    expect(stdout).toMatch(/clicks +0 .* 158 +158 +yes/);
    expect(stdout.split('\n').length).toBeLessThan(8);
    expect((await world.cli('status', 'mine')).stdout.split('\n').length).toBeLessThan(8);
    expect((await world.cli('definitions', 'show', 'described', 'clicks')).stdout).toMatch(
      /in windows of 1 day \(from and to\), each again until it ended 2d ago\n +deletes +a window that is read to its end replaces its rows/,
    );
    const tried = ['definitions', 'try', 'described', 'clicks', '--connector', 'mine'];
    expect((await world.cli(...tried)).stdout).toContain('?from=2026-03-04&to=2026-03-04');
    const older = await world.cli(...tried, '--param', 'from=2026-03-01', '--param', 'to=2026-03-01');
    expect(older.stdout).toContain('?from=2026-03-01&to=2026-03-01');
  });

  it('loses no rows by a day that comes back empty once, nor by one that shows a few of them', async () => {
    const world = await adWorld();
    const ads = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`ad-${index}`, index]));
    const changed = Object.fromEntries(Object.keys(ads).map((ad) => [ad, 1_000]));
    world.days.set('2026-03-04', ads);
    await world.sync();
    world.days.set('2026-03-04', changed);
    const report = await world.sync();
    expect(JSON.stringify(report)).toContain('"deleted":60');
    expect(live(world.rows('clicks'))).toHaveLength(60);
    world.days.set('2026-03-04', {});
    await world.cli('sync');
    expect(live(world.rows('clicks'))).toHaveLength(60);
    world.days.set('2026-03-04', { 'ad-0': 7 });
    const few = await world.cli('sync');
    expect(few.stdout).toMatch(/withheld|kept/);
    expect(live(world.rows('clicks')).length).toBeGreaterThanOrEqual(60);
    world.days.set('2026-03-04', changed);
    await world.sync();
    expect(clicksIn(world.rows('clicks')).filter((row) => row.endsWith(' 1000'))).toHaveLength(60);
  });

  it('that was cut short resumes at the page of the day that it has reached', async () => {
    const service = adService();
    let isDown = true;
    const cursors: (string | null)[] = [];
    const world = await keyedService({
      entities: reports.replace('[next] }', '[next], lifetimeMs: 86400000 }'),
      requests: oneListing('/clicks'),
      respond: (request) => {
        if (request.query.get('from') !== '2026-03-02') return service.respond(request);
        const cursor = request.query.get('cursor');
        cursors.push(cursor);
        if (cursor === null) return { body: { data: [{ ad: 'a', clicks: 1 }], next: 'more' } };
        if (isDown) return { status: 401, body: { error: 'no' } };
        return { body: { data: [{ ad: 'b', clicks: 2 }], next: null } };
      },
      settings: '    concurrency: 1\n',
    });
    service.days.set('2026-03-03', { a: 3 });
    expect((await world.cli('sync')).code).not.toBe(0);
    expect(service.asked()).toEqual(eachDay('2026-02-28', '2026-03-01'));
    isDown = false;
    // Another day has begun, and is read as well.
    passDays(0.6);
    await world.sync();
    expect(service.asked()).toEqual(eachDay('2026-03-03', '2026-03-04', '2026-03-05'));
    expect(new Set(cursors)).toEqual(new Set([null, 'more']));
    expect(cursors.filter((cursor) => cursor === null)).toHaveLength(1);
    expect(clicksIn(world.rows('clicks'))).toEqual(['2026-03-02 a 1', '2026-03-02 b 2', '2026-03-03 a 3']);
  });

  it('keeps every row where its deletes are never', async () => {
    const world = await adWorld(reports.replace('key: none', 'key: none\n    deletes: never'));
    world.days.set('2026-03-04', { a: 4 });
    await world.sync();
    world.days.set('2026-03-04', { a: 44 });
    await world.sync();
    expect(clicksIn(world.rows('clicks'))).toEqual(['2026-03-04 a 4', '2026-03-04 a 44']);
  });
});

const orders = `entities:
  shops: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }
  orders:
    fields: { id: string, shop: string, placed: string, month: string, total: integer }
    key: [shop, id]
    inject: { month: after }
    deletes: confirm
    actions: { list: { params: { shop: { type: string, required: true }, after: { type: integer, required: true }, before: integer } } }
    pagination: { kind: single }
    parents: [{ entity: shops, params: { shop: id }, inject: { shop: shop } }]
    incremental:
      kind: windows
      fromParam: after
      toParam: before
      format: unix
      step: { months: 1 }
      lookbackMs: 86400000
      first: '2025-01-15'
      last: now
      field: placed
`;
const ofShops = `{ shops: { list: { path: /shops, records: '' } }, orders: { list: { path: '/shops/{shop}/orders', records: '' } } }`;

/** Shops with orders, by the time they were placed. */
async function shopWorld(isDeaf = false) {
  const placed = new Map<string, number>([
    ['2025-01-20T10:00:00Z', 1],
    ['2025-03-30T01:30:00Z', 2],
    ['2026-02-28T23:59:59Z', 3],
    ['2026-03-04T08:00:00Z', 4],
  ]);
  const asked: string[] = [];
  const world = await keyedService({
    entities: orders,
    requests: ofShops,
    respond: ({ path, query }) => {
      if (path === '/shops') return { body: [{ id: 's1' }, { id: 's2' }] };
      const [after, before] = ['after', 'before'].map((name) => Number(query.get(name)) * 1_000);
      if (after === undefined || before === undefined || before > Date.now()) {
        return { status: 400, body: { error: 'a time to come' } };
      }
      asked.push(`${path} ${new Date(after).toISOString()} ${new Date(before).toISOString()}`);
      const found = [...placed].filter(
        ([at]) => isDeaf || (Date.parse(at) >= after && Date.parse(at) < before),
      );
      return { body: found.map(([at, total]) => ({ id: `o${total % 100}`, placed: at, total })) };
    },
  });
  return { ...world, placed, asked: () => asked.splice(0).toSorted() };
}

describe('orders below shops that are read by month', () => {
  it('come from each month of a year, the last of which ends now, and late ones from months that are read again', async () => {
    const world = await shopWorld();
    await world.sync();
    const first = world.asked();
    expect(first).toHaveLength(2 * 15);
    expect(first[0]).toBe('/shops/s1/orders 2025-01-01T00:00:00.000Z 2025-02-01T00:00:00.000Z');
    // The clocks of Europe change in between.
    expect(first[2]).toBe('/shops/s1/orders 2025-03-01T00:00:00.000Z 2025-04-01T00:00:00.000Z');
    expect(first[14]).toMatch(/^\/shops\/s1\/orders 2026-03-01T00:00:00.000Z 2026-03-04T12:0/);
    expect(live(world.rows('orders'))).toHaveLength(8);
    expect(world.rows('orders').get('["s1","o2"]')).toMatchObject({
      columns: { month: String(Date.UTC(2025, 2) / 1_000) },
    });
    world.placed.delete('2026-03-04T08:00:00Z');
    world.placed.set('2026-03-03T08:00:00Z', 104).set('2025-01-21T10:00:00Z', 5);
    await world.sync();
    expect(world.asked()).toHaveLength(2);
    expect(live(world.rows('orders'))).toHaveLength(8);
    expect(world.rows('orders').get('["s2","o4"]')).toMatchObject({ columns: { total: 104 } });
    // A full read, after a week, finds what has come into an old month.
    passDays(8);
    await world.sync();
    expect(world.asked()).toHaveLength(2 * 15);
    expect(live(world.rows('orders'))).toHaveLength(10);
  });

  it('are refused where the service ignores the months', async () => {
    const world = await shopWorld(true);
    const { code, stdout } = await world.cli('sync');
    expect(code).not.toBe(0);
    expect(stdout).toContain('the service seems to ignore after');
    expect(live(world.rows('orders'))).toEqual([]);
  });
});

describe('windows of an entity of an API', () => {
  it('are read in the same way, from the default of a setting on', async () => {
    const service = adService();
    const world = await describedService({
      definition: `settings: { start: { title: First day, default: '2026-03-02' } }\n${reports.replace("'2026-02-28'", '{ field: start }')}`,
      respond: hostedAnswers(({ params }) => {
        const { data, next } = service.answer({ from: textOf(params['from']), to: textOf(params['to']) });
        return { result: data, connector_metadata: { next } };
      }),
    });
    service.days.set('2026-03-03', { a: 3 });
    await world.sync();
    service.days.set('2026-03-03', { a: 33 });
    await world.sync();
    expect(service.asked().toSorted()).toEqual(
      ['2026-03-02', '2026-03-02', '2026-03-03', '2026-03-03', '2026-03-04', '2026-03-04'].map(
        (day) => `${day}..${day}`,
      ),
    );
    expect(clicksIn(world.rows('clicks'))).toEqual(['2026-03-03 a 33']);
  });
});

const direct = (entities: string): string => `
settings: { start: { title: First day, required: false } }
credentials: [{ title: Key, fields: { api_key: {} } }]
${entities}
upstream:
  baseUrl: https://api.example
  auth: { Key: { kind: bearer, token: { field: api_key } } }
  check: { path: /me, identity: id }
  limits: { concurrency: 4, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  entities: ${oneListing('/clicks')}
`;

/** The problems of the report above with one change. */
function problemsWith(change: string, to: string): string {
  const text = `name: d\ntitle: D\nid: 3f2a6c8e-5b7d-4e1f-9a0c-2d4e6f8a1b3c\nrateLimit: { requestsPerSecond: 1, concurrency: 1 }\n${direct(reports)}`;
  if (!text.includes(change)) throw new Error(`nothing to change: ${change}`);
  return parseDefinition('d.yaml', text.replace(change, to)).problems.map(formatProblem).join('\n');
}

describe('a definition with windows', () => {
  it.each([
    ['kind: windows', 'kind: window', 'expected kind: keyset, since, newestFirst or windows'],
    ['fromParam: from', 'fromParam: form', 'incremental.fromParam: no such list parameter: "form"'],
    ['toParam: to', 'toParam: from', 'expected two parameters, got from for both bounds'],
    ['toParam: to', 'toParam: cursor', 'cursor is set elsewhere: it cannot have two values'],
    ['      toParam: to\n', '', 'incremental.toParam: is missing: isToIncluded and last are about it'],
    ["'%Y-%m-%d'", "'%Y-%m'", 'expected a format with days, as the step has, got %Y-%m'],
    ["'%Y-%m-%d'", "'%Y-%D'", 'incremental.format: expected iso, unix, unixMs or a pattern'],
    ['{ days: 1 }', '{ days: 0 }', 'incremental.step.days: expected at least 1, got 0'],
    ['{ days: 1 }', '{ weeks: 1 }', 'incremental.step: expected { days: 1 } to { days: 366 }'],
    ["'2026-02-28'", '{ field: start }', 'expected start to be required, or to have a default'],
    ['day: from }', 'day: cursor }', 'inject.day: no such parameter of each or of windows: "cursor"'],
    ['day: from }', 'dya: from }', 'no such field: "dya"'],
    ['key: none', 'key: [day]', 'deletes: expected never, or confirm: a record whose time changes moves'],
    ['key: none', 'key: none\n    deletes: confirm', 'expected never beside key: none (got confirm)'],
    ['key: none', 'key: none\n    window: { since: from, before: to }', 'window: expected none'],
  ])('has the problem: %s → %s', (change, to, expected) => {
    expect(problemsWith(change, to)).toContain(expected);
  });

  it('is not read where there would be too many of them', async () => {
    const world = await adWorld(reports.replace('2026-02-28', '1990-01-01'));
    const { code, stderr, stdout } = await world.cli('sync');
    expect(code).not.toBe(0);
    expect(stdout + stderr).toContain(
      'clicks: from 1990-01-01T00:00:00.000Z on there are 13212 windows, at most 10000 are read',
    );
    expect(world.asked()).toEqual([]);
  });
});
