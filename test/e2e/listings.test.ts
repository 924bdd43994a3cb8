import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import {
  keyedService,
  type DescribedOptions,
  type DescribedService,
} from '../support/described/described-service.ts';
import { startHostileServer } from '../support/hostile-server.ts';
import { type HostileCall, success } from '../support/hostile/replies.ts';
import { it } from '../support/it.ts';
import { openMcpClient } from '../support/mcp-client.ts';
import { serveUi } from '../support/page/served-ui.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { seededRandom } from '../support/seeded-random.ts';

interface Item {
  readonly id: string;
  readonly at: string;
  readonly text: string;
}

const size = 30;
const item = (number: number, minute = number, text = 'first'): Item => ({
  id: `i-${String(number).padStart(4, '0')}`,
  // Three in a minute: what is cut off may have the time of what is shown.
  at: new Date(Date.UTC(2026, 0, 1, 0, Math.floor(minute / 3))).toISOString(),
  text,
});
const items = (count: number): Item[] => Array.from({ length: count }, (_none, number) => item(number));
const whole = items(250);

const pagings = {
  token: `{ kind: pageToken, tokenParam: cursor, sizeParam: limit, maxSize: ${size}, tokenKeys: [next] }`,
  offset: `{ kind: offset, offsetParam: offset, sizeParam: limit, maxSize: ${size}, totalKeys: [total] }`,
  page: `{ kind: page, pageParam: page, first: 1, sizeParam: limit, maxSize: ${size}, totalKeys: [total] }`,
};
type Paging = keyof typeof pagings;

interface Service {
  rows: Item[];
  /** Records that a listing shows at most. */
  cap: number;
  /** Whether an answer says so; else a page behind the limit is refused. */
  saysSo?: boolean;
  namesTotal?: boolean;
  ignoresSort?: boolean;
}

/** An answer of the service; null: refused. */
function answer(service: Service, asked: Readonly<Record<string, unknown>>) {
  const { rows, cap, saysSo = true, namesTotal = false, ignoresSort = false } = service;
  const isDown = asked['sort'] === 'desc' && !ignoresSort;
  const order = (a: Item, b: Item): number => (a.at === b.at ? (a.id < b.id ? -1 : 1) : a.at < b.at ? -1 : 1);
  const sorted = rows.toSorted((a, b) => (isDown ? order(b, a) : order(a, b)));
  const limit = Number(asked['limit'] ?? size);
  const start = Number(asked['cursor'] ?? asked['offset'] ?? (Number(asked['page'] ?? 1) - 1) * limit);
  if (!saysSo && start + limit > Math.max(cap, limit) && start >= cap) return null;
  const end = Math.min(start + limit, cap, sorted.length);
  const isEnd = end === Math.min(cap, sorted.length);
  return {
    items: sorted.slice(start, end),
    next: isEnd ? null : String(end),
    ...(namesTotal ? { total: rows.length } : {}),
    ...(isEnd && saysSo && sorted.length > cap ? { status: { type: 'incomplete' } } : {}),
  };
}

const entities = (paging: Paging, cut: string, incremental: string): string => `
entities:
  things:
    fields: { id: string, at: string, text: string }
    key: [id]
    actions: { list: { params: { cursor: string, offset: integer, page: integer, limit: integer, sort: string } } }
    pagination: ${pagings[paging]}
    order: { field: at, params: { sort: asc } }
    cut: ${cut}
${incremental}`;
const newestFirst =
  '    incremental: { kind: newestFirst, field: at, params: { sort: desc }, lookbackMs: 60000 }\n';

const sign = 'sign: { key: status.type, is: incomplete }';
const reversed = 'reversed: { sort: desc }';

async function open(service: Service, paging: Paging, cut: string, incremental = '') {
  const respond: DescribedOptions['respond'] = ({ query }) => {
    const body = answer(service, Object.fromEntries(query));
    return body === null ? { status: 400, body: { error: 'too far' } } : { body };
  };
  const described = await keyedService({
    entities: entities(paging, `{ ${cut} }`, incremental),
    requests:
      '{ things: { list: { path: /things, records: items, metadata: { next: next, status: status, total: total } } } }',
    respond,
  });
  return { ...described, ...readable(described) };
}

function readable(described: DescribedService) {
  return {
    texts: () =>
      new Map([...described.rows('things').values()].map(({ columns: { id, text } }) => [id, text])),
    read: async (...options: readonly string[]) => {
      const { code, ...result } = await described.cli('sync', '--json', ...options);
      // `as`: the program's own report.
      const { report } = jsonLines({ code, ...result }).find(({ kind }) => kind === 'run-report') as {
        readonly report: RunReport;
      };
      const [things] = report.entities;
      const [missing] = report.partMissing;
      return { code, things, doubt: missing?.doubt ?? null };
    },
  };
}

describe('a listing that the service cuts, and says so', () => {
  // Proves promise 3.3
  it.each<[Paging, string]>([
    ['token', newestFirst],
    ['token', ''],
    ['offset', ''],
    ['page', ''],
  ])('by %s is read from its other end, and is unconfirmed where both meet', async (paging, incremental) => {
    const service = { rows: whole, cap: 200 };
    const { read, texts } = await open(service, paging, `${sign}, ${reversed}`, incremental);
    const first = await read();
    expect(first).toMatchObject({
      code: 0,
      doubt: null,
      things: { completeness: 'unconfirmed', deleted: 0 },
    });
    expect(texts().size).toBe(250);
    service.rows = [...whole.slice(1), item(0, 760, 'edited'), item(999, 770, 'new')];
    expect(await read()).toMatchObject({ code: 0, things: { deleted: 0 } });
    expect([texts().get('i-0000'), texts().get('i-0999'), texts().size]).toEqual(['edited', 'new', 251]);
  });

  // Proves promise 3.3
  it.each<[Paging, string]>([
    ['token', newestFirst],
    ['token', ''],
    ['offset', ''],
    ['page', ''],
  ])(
    'by %s has a part missing where its ends do not meet, and later edits arrive',
    async (paging, incremental) => {
      const service = { rows: whole, cap: 100 };
      const { read, texts } = await open(service, paging, `${sign}, ${reversed}`, incremental);
      const doubt = { kind: 'cut', by: 'status.type: incomplete' };
      expect(await read()).toMatchObject({
        code: 0,
        doubt,
        things: { completeness: 'part-missing', setAside: 0 },
      });
      expect(texts().size).toBe(200);
      // One of the oldest, one of the middle that was never shown, and a new one: the oldest end shows one more.
      const left = whole.filter(({ id }) => id !== 'i-0003' && id !== 'i-0120');
      service.rows = [...left, item(3, 760, 'edited'), item(120, 763, 'edited'), item(999, 770, 'new')];
      expect(await read('--full')).toMatchObject({ code: 0, doubt, things: { deleted: 0 } });
      expect(['i-0003', 'i-0120', 'i-0999'].map((id) => texts().get(id))).toEqual([
        'edited',
        'edited',
        'new',
      ]);
      expect(texts().size).toBe(203);
    },
  );

  it('has a part missing where the service has no other order, or ignores it', async () => {
    for (const [cut, ignoresSort] of [
      [sign, false],
      [`${sign}, ${reversed}`, true],
    ] as const) {
      const { read, texts } = await open({ rows: whole, cap: 100, ignoresSort }, 'token', cut);
      expect(await read()).toMatchObject({ code: 0, doubt: { kind: 'cut' }, things: { setAside: 0 } });
      expect(texts().size).toBe(100);
    }
  });

  it('is resumed at the end that was read', async () => {
    const { read, texts } = await open({ rows: whole, cap: 200 }, 'token', `${sign}, ${reversed}`);
    for (let run = 0; run < 4; run += 1) await read('--max-calls', '3');
    expect(texts().size).toBe(250);
  });
});

describe('a listing that shows a known number of results at most', () => {
  // Proves promise 3.3
  it.each<[Paging, string, number, string | null]>([
    ['token', 'maxResults: 100', 100, 'maxResults: 100'],
    ['offset', 'maxResults: 100', 100, 'maxResults: 100'],
    ['page', 'maxResults: 90', 90, 'maxResults: 90'],
    ['offset', `maxResults: 100, ${reversed}`, 200, 'maxResults: 100'],
    ['offset', `maxResults: 200, ${reversed}`, 250, null],
  ])('by %s is read up to there with %s', async (paging, cut, rows, by) => {
    const cap = Number(/\d+/.exec(cut)?.[0]);
    const { read, texts } = await open({ rows: whole, cap, saysSo: false }, paging, cut);
    const doubt = by === null ? null : { kind: 'cut', by };
    expect(await read()).toMatchObject({ code: 0, doubt, things: { setAside: 0 } });
    expect(texts().size).toBe(rows);
  });

  it('is whole where its total says that there are no more', async () => {
    const service = { rows: items(90), cap: 90, saysSo: false, namesTotal: true };
    const { read } = await open(service, 'offset', 'maxResults: 90');
    expect(await read()).toMatchObject({ code: 0, doubt: null, things: { isProven: true, unordered: 0 } });
  });
});

// Proves promise 4.2
it('a listing that shrinks very far stays in doubt, and nothing is deleted, until it is reset', async () => {
  let rows = 5_500;
  let cap = 1_000;
  const described = await keyedService({
    entities: `entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { offset: integer, limit: integer } } }
    pagination: { kind: offset, offsetParam: offset, sizeParam: limit, maxSize: 1000 }
`,
    requests: '{ things: { list: { path: /things, records: items } } }',
    respond: ({ query }) => {
      const start = Number(query.get('offset') ?? 0);
      const length = Math.max(0, Math.min(cap, rows - start));
      return { body: { items: Array.from({ length }, (_none, at) => ({ id: String(start + at) })) } };
    },
  });
  const after = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout } = await described.cli(...args);
    const isDoubted = stdout.includes('more rows of it are stored than came');
    const isAdvised = stdout.includes('"connector-sync reset" of things');
    return `${code}, ${described.rows('things').size} rows${isDoubted ? ', in doubt' : ''}${isAdvised ? ', advised' : ''}`;
  };
  expect(await after('sync')).toBe('0, 5500 rows');
  rows = 20;
  cap = 10;
  expect(await after('sync', '--full', '--allow-deletes')).toBe('0, 5500 rows, in doubt, advised');
  await described.cli('reset', 'mine/things', '--yes');
  expect(await after('sync')).toBe('6, 5500 rows');
  expect(await after('sync', '--allow-deletes')).toBe('0, 20 rows');
}, 120_000);

const ids = (count: number): { readonly id: string }[] =>
  Array.from({ length: count }, (_none, at) => ({ id: String(at) }));

describe('a sync of a service that numbers its pages', () => {
  // Proves promise 3
  it('is not proven by a page that comes again otherwise, and advises what to say', async () => {
    const rows = ids(57);
    const service = await keyedService({
      entities: `entities:
  agents:
    fields: { id: string }
    key: [id]
    growsOnly: true
    deletes: never
    actions: { list: { params: { page: integer, count: integer } } }
    pagination: { kind: page, pageParam: page, first: 1, sizeParam: count, maxSize: 20 }
`,
      requests: "{ agents: { list: { path: /agents, records: '' } } }",
      respond: ({ query }) => {
        // Its last page comes behind the last page, too.
        const page = Math.min(Number(query.get('page')), Math.ceil(rows.length / 20));
        return { body: rows.slice((page - 1) * 20, page * 20) };
      },
    });
    const { code, stdout } = await service.cli('sync');
    expect({ code, stored: service.rows('agents').size }).toEqual({ code: 0, stored: 57 });
    expect(stdout).toMatch(/^ *agents .*\bpart missing\b/m);
    expect(stdout).toContain('if the service ignores the parameter of the page, the rest is missing');
  });
});

describe('a sync of a service by offset, without a total', () => {
  /** `answer`: the records from `start` on, or the status that refuses them, to the call of this number. */
  async function sync(answer: (start: number, calls: number) => readonly unknown[] | number, said = '') {
    const service = await keyedService({
      entities: `entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { offset: integer, limit: integer } } }
    pagination: { kind: offset, offsetParam: offset, sizeParam: limit, maxSize: 20${said} }
`,
      requests: '{ things: { list: { path: /things, records: items } } }',
      respond: ({ query }, calls) => {
        const answered = answer(Number(query.get('offset') ?? 0), calls);
        return typeof answered === 'number'
          ? { status: answered, body: { error: 'out of range' } }
          : { body: { items: answered } };
      },
    });
    const { code, stdout, stderr } = await service.cli('sync');
    const asked = service.requests.flatMap(({ path: at, query }) =>
      at === '/things' ? [Number(query.get('offset') ?? 0)] : [],
    );
    return { code, said: stdout + stderr, stored: service.rows('things').size, asked };
  }

  // Proves promise 3
  it('takes an error 500 behind its end for an empty page, once its first page shows that it is up', async () => {
    const { code, said, stored, asked } = await sync((start) =>
      start >= 50 ? 500 : ids(50).slice(start, start + 20),
    );
    expect({ code, stored, asked }).toEqual({ code: 0, stored: 50, asked: [0, 16, 32, 47, 67, 0, 67, 87] });
    expect(said).toContain('8 calls, 0 retries');
    expect(said).not.toContain('part missing');
  });

  it('says beside the rows that it has stored that it has not seen the end', async () => {
    const { code, said, stored } = await sync((start) =>
      start + 20 > 52 ? 416 : ids(52).slice(start, start + 20),
    );
    expect({ code, stored }).toEqual({ code: 1, stored: 52 });
    expect(said).toContain('no listing could be read to its end');
    expect(said).not.toContain('nothing could be read');
  });

  // Proves promise 3
  it('is part missing where it changes its order from call to call, and reports that', async () => {
    const { said } = await sync((start, calls) => {
      const random = seededRandom(calls + 1);
      const moved = ids(200).map((one, place) => ({ one, place: place + 10 * random() }));
      const shuffled = moved.toSorted((a, b) => a.place - b.place);
      return shuffled.slice(start, start + 20).map(({ one }) => one);
    });
    expect(said).toMatch(/^ *things .*\bpart missing\b/m);
    expect(said).toContain('the service changes their order from call to call');
  });
});

const service = async (members: (group: number) => unknown): Promise<DescribedService> =>
  await keyedService({
    entities: `entities:
  groups: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }
  members:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { group: { type: string, required: true } } } }
    pagination: { kind: single }
    parents: [{ entity: groups, params: { group: id } }]
`,
    requests:
      "{ groups: { list: { path: /groups, records: items } }, members: { list: { path: '/groups/{group}/members', records: items } } }",
    respond: ({ path }) => {
      if (path === '/groups') {
        return { body: { items: Array.from({ length: 40 }, (_none, at) => ({ id: String(at) })) } };
      }
      return { body: { items: members(Number(path.split('/')[2])) } };
    },
  });

const reported = async (described: DescribedService, ...options: readonly string[]) => {
  const result = await described.cli('sync', '--json', ...options);
  // `as`: the program's own report.
  const { report } = jsonLines(result).find(({ kind }) => kind === 'run-report') as {
    readonly report: {
      readonly error: unknown;
      readonly entities: readonly { readonly entity: string; readonly unordered: number }[];
      readonly failures: readonly unknown[];
    };
  };
  return {
    ...report,
    code: result.code,
    members: report.entities.find(({ entity }) => entity === 'members'),
  };
};

const three = (group: number): unknown => [1, 2, 3].map((at) => ({ id: `${group}-${at}` }));

// Proves promise 8.1
it('fails the listings alone that answer with no listing, however many there are before the first good one', async () => {
  const described = await service((group) => (group < 30 ? false : three(group)));
  const { code, error, failures } = await reported(described);
  expect({ code, error }).toEqual({ code: 3, error: null });
  expect(failures).toHaveLength(30);
  expect(described.rows('members').size).toBe(30);
});

// Proves promise 4
it('takes null for an empty listing, and for a weak proof where rows of the listing are stored', async () => {
  let empty = 30;
  const described = await service((group) => (group < empty ? null : three(group)));
  expect(await reported(described)).toMatchObject({ code: 0, members: { isProven: true, unordered: 0 } });
  expect(described.rows('members').size).toBe(30);
  empty = 31;
  const second = await reported(described, '--full');
  expect(second).toMatchObject({ code: 0, members: { unordered: 1, deleted: 0 } });
  const third = await reported(described, '--full');
  expect(third).toMatchObject({ members: { deleted: 3 } });
});

const mailing = builtInDefinition('email-marketing');

/** A service that has so many lists and counts `total` of them; it answers with at most a thousand. */
function counting(total: number, rows: number) {
  const lists = Array.from({ length: rows }, (_, index): JsonObject => ({ id: `l${index}`, name: 'One' }));
  return startHostileServer({
    connectors: [{ id: 'c1', name: 'One', definitionId: mailing.id }],
    respond: ({ entity, params }: HostileCall) => {
      if (entity !== 'lists') return success([]);
      const { offset, count } = params as { readonly offset: number; readonly count: number };
      const page = lists.slice(offset, offset + Math.min(count, 1_000));
      return success(page, { links: [], total_items: total });
    },
  });
}

describe('a service that counts more records than it shows', () => {
  // Proves promise 3.1
  it('is reported in every run, in status and to programs until the settings say to ignore its totals', async ({
    folder,
  }) => {
    await using server = await counting(8, 3);
    const write = async (entities: string): Promise<void> =>
      await writeFile(
        join(folder, 'sync.yaml'),
        `api: { baseUrl: "${server.baseUrl}", clientId: local, clientSecret: secret-of-a-test }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  news: { definition: email-marketing, id: c1, sink: main, include: [lists, tags], entities: { ${entities} } }
`,
      );
    const cli = async (...args: readonly string[]): Promise<CliResult> =>
      await callCli([...args, '--config', join(folder, 'sync.yaml')], { cwd: folder });
    await write('');
    const note = '! lists: the API counts 8 records and showed 3';
    const advice = '3 runs in a row: if its count is wrong, set "totals: ignore" for lists in the config';
    for (const run of [1, 2, 3]) {
      const { code, stdout } = await cli('sync');
      expect(code).toBe(0);
      expect(stdout).toMatch(/^ {2}lists .+ part missing +1 part missing/m);
      expect(stdout, 'what is found through it').toMatch(/^ {2}tags .+ part missing$/m);
      expect(stdout).toContain(note);
      expect(stdout.includes(advice)).toBe(run === 3);
    }
    const status = await cli('status');
    expect(status.stdout).toMatch(/^ {2}lists +3 .+ part missing +never *$/m);
    expect(status.stdout).toContain(note);
    expect(status.stdout).toContain(advice);
    expect(jsonLines(await cli('sync', '--json')).at(-1)).toMatchObject({
      report: {
        partMissing: [{ entity: 'lists', listings: 1, doubt: { total: 8, shown: 3 }, runs: 4 }],
        entities: [
          { entity: 'lists', completeness: 'part-missing', isProven: false },
          { entity: 'tags', completeness: 'part-missing', isProven: false },
        ],
      },
    });
    const words = async (): Promise<unknown> => {
      const [document = {}] = jsonLines(await cli('status', '--json'));
      const [one] = document['connectors'] as { status: { entities: { completeness: string }[] } }[];
      return one?.status.entities.map(({ completeness }) => completeness);
    };
    expect(await words()).toEqual(['part-missing', 'part-missing']);
    const config = join(folder, 'sync.yaml');
    await using ui = await serveUi({ config });
    const { body } = await ui.get('/connectors/news');
    expect(body.match(/<span class="state warn part">Part missing<\/span>/g)).toHaveLength(2);
    await using agents = await openMcpClient({ config, env: {} });
    expect(await agents.call('list_entities', { name: 'news' })).toMatchObject({
      entities: [
        { entity: 'news/lists', completeness: 'part-missing', complete: false },
        { entity: 'news/tags', completeness: 'part-missing' },
      ],
    });

    await write('lists: { totals: ignore }');
    const ignored = await cli('sync');
    expect(ignored.stdout).toMatch(/^ {2}lists .+ yes/m);
    expect(ignored.stdout).not.toContain('part missing');
    const after = await cli('status');
    expect(after.stdout).not.toMatch(/the API counts|never/);
    expect(await words()).toEqual(['complete', 'complete']);
  });
});
