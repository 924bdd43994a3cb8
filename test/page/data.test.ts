import Database from 'better-sqlite3';
import pg from 'pg';
import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DataWorld, longText, masked, openDataWorld, seen } from '../support/page/data-world.ts';
import { type Actor, openActor } from '../support/page/actor.ts';
import { expectConsole, usePage } from '../support/page/expect-console.ts';
import { findChromium } from '../support/page/find-chromium.ts';
import { clockAhead, serveUi } from '../support/page/served-ui.ts';
import { callCli } from '../support/run-cli.ts';
import { askPostgres, type PrivatePostgres, startPostgres } from '../support/postgres.ts';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { querySqliteSink } from '../../src/sinks/sqlite/readers.ts';

let server: PrivatePostgres;
let world: DataWorld;
let ui: Awaited<ReturnType<typeof serveUi>>;
let anna: Actor;
let bob: Actor;

beforeAll(async () => {
  server = await startPostgres();
  world = await openDataWorld(server.url);
  ui = await serveUi({ config: world.config });
  [anna, bob] = [await openActor(ui, 'token-of-anna-0123'), await openActor(ui, 'token-of-bob-012345')];
});
afterAll(async () => {
  await ui[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  await server.stop();
});

const hostileKey = new URLSearchParams({
  'key.id': `a/b <script src="https://evil.example/x.js">alert(1)</script>'"`,
}).toString();

const signs = new Map([
  ['quot', '"'],
  ['#39', "'"],
  ['lt', '<'],
  ['gt', '>'],
  ['amp', '&'],
]);
const textOf = (html: string): string =>
  html
    .replace(/<(?:"[^"]*"|[^>"])*>/g, ' ')
    .replace(/\s+/g, ' ')
    .replace(/&(quot|#39|lt|gt|amp);/g, (_, sign: string) => signs.get(sign) ?? '');
const read = async (address: string): Promise<string> => textOf(await anna.read(address));
/** The rows of the first table, each its cells. */
const rowsAt = async (address: string): Promise<readonly (readonly string[])[]> => {
  const [, body = ''] = /<tbody>([\s\S]*?)<\/tbody>/.exec(await anna.read(address)) ?? [];
  return [...body.matchAll(/<tr[\s\S]*?<\/tr>/g)].map(([row]) =>
    [...row.matchAll(/<t[hd][\s\S]*?<\/t[hd]>/g)].map(([cell]) => textOf(cell).trim()),
  );
};
const namesAt = async (address: string): Promise<readonly string[]> =>
  (await rowsAt(address)).map(([name = '']) => name);

describe.each(['shop', 'files', 'house'])('rows of %s', (connector) => {
  const lists = `/data/${connector}/lists`;

  it('show their values, and the deleted, missing and changed ones apart', async () => {
    expect(await rowsAt(lists)).toContainEqual(expect.arrayContaining(['first', '10', `${seen} after`]));
    expect((await namesAt(lists)).length).toBe(4);
    // Newest first, though the other one arrived later.
    expect(await namesAt(`${lists}?rows=deleted`)).toEqual(['late', 'gone']);
    expect(await namesAt(`${lists}?rows=missing`)).toEqual(['fading']);
    expect((await namesAt(`${lists}?rows=changed`)).length).toBe(4);
    expect(await read(`${lists}?rows=refused`)).toContain('the record has no id');
  });

  it('are found by words, by comparisons and by the language of searches', async () => {
    for (const [filter, found] of [
      ['SEEN after', ['first']],
      ['web_id > 10 and web_id <= 30', [expect.stringContaining('a/b'), 'long']],
      ['name = long', ['long']],
      ['{"in":{"id":["fading"]}}', ['fading']],
      ['stats.member_count = 3', [expect.stringContaining('a/b')]],
      ["name = '", []],
      ['name = long and web_id = 30', ['long']],
      ['name = long and wide', []],
    ] as const) {
      expect([filter, await namesAt(`${lists}?filter=${encodeURIComponent(filter)}`)]).toEqual([
        filter,
        found,
      ]);
    }
    expect(await namesAt(`${lists}?sort=web_id:desc`)).toEqual([
      'fading',
      'long',
      expect.anything(),
      'first',
    ]);
  });

  it('are counted with the filter, and of how many', async () => {
    expect(await read(`${lists}?filter=web_id+%3E+10`)).toContain(
      '3 of 4 rows, in the order of their arrival',
    );
    expect(await read(`${lists}?filter=web_id+%3E+100`)).toContain('0 of 4 rows.');
    expect(await read(`${lists}?filter=web_id+%3E+10`)).toContain('All of 4');
    expect(await read(lists)).toContain('4 rows, in the order of their arrival');
    expect(await read(`${lists}?rows=deleted`)).toContain('2 rows, newest first');
  });

  it('have the state that the page of the connector has', async () => {
    const shown = await read(lists);
    expect(shown).toContain('Deletes wait');
    expect(await read(`/connectors/${connector}`)).toContain('lists Deletes wait');
    expect(await read(`/data/${connector}/list_members`)).toContain('Complete');
  });

  it('have the columns that are chosen', async () => {
    const body = await anna.read(`${lists}?column=web_id&column=stats`);
    expect(textOf(body)).toContain('{"member_count":3');
    expect(textOf(/<thead>[\s\S]*<\/thead>/.exec(body)?.[0] ?? '').trim()).toBe(
      'id web_id stats changed here',
    );
    expect(body).not.toContain('value="_seq"');
  });

  it('say what is wrong with a filter', async () => {
    for (const [query, said] of [
      ['filter={"eq":', 'begins with { but is no JSON'],
      ['filter={"like":{"nope":"x"}}', 'expected a searchable field, got "nope"'],
      ['filter=web_id = many', 'web_id: expected a number, got "many"'],
      ['filter=webid = 3', 'no such column of lists: "webid"; did you mean "web_id"? (columns: id, '],
      ['filter=name == long', 'name: expected one of = != '],
      ['filter=name =', 'name =: expected a value behind it'],
      ['filter=name = long and web_id > ', 'expected a value behind it, or null'],
      ['filter=> 3', 'expected a comparison such as id = 5'],
      ['sort=nope:asc', 'nope'],
      ['cursor=forged', 'begin without it'],
      ['column=nope', 'nope'],
    ] as const) {
      const address = `${lists}?${query}`.replaceAll(' ', '+');
      const { status, text } = await anna.ask(address);
      expect([query, status, text.includes('role') || text]).toEqual([
        query,
        400,
        expect.stringContaining(said),
      ]);
    }
  });
});

describe('a record', () => {
  it('shows its values and what they were before', async () => {
    for (const connector of ['shop', 'house']) {
      const text = await read(`/data/${connector}/lists?key.id=first`);
      expect(text).toContain(`name ${seen} before → ${seen} after`);
      expect(text).toContain('notify_on_subscribe masked in the config');
      expect(text).toContain('2 list_members');
    }
    expect(await read('/data/files/lists?key.id=first')).toContain(`name ${seen} after`);
    const member = await anna.read('/data/shop/list_members?key.list_id=first&key.id=m1');
    expect(member).toContain('href="../../data/shop/lists?key.id=first"');
  });

  it('says why it is deleted or looks deleted, and keeps its values', async () => {
    const deleted = await read('/data/shop/lists?key.id=gone');
    expect(deleted).toContain('Why it is deleted');
    expect(deleted).toContain(
      'its listing was read in full without it, and the service answered 404 for it. The values are the last ones seen.',
    );
    expect(deleted).toContain(`name ${seen} gone`);
    expect(await read('/data/shop/lists?key.id=fading')).toMatch(
      /Delete waits .*Why it looks deleted waits for a person since \S+ : it vanished, and 1 full read did not find it\./,
    );
    expect(await read('/data/shop/lists?key.id=never')).toContain('No record with this key is stored.');
    expect((await anna.ask('/data/shop/list_members?key.id=m1')).text).toContain('missing: list_id');
  });

  it('has a statement that gives it in its sink', async () => {
    const sqlAt = async (address: string): Promise<string> => {
      const [, code = ''] =
        /<code id="record-sql" class="unseen">([\s\S]*?)<\/code>/.exec(await anna.read(address)) ?? [];
      return textOf(code);
    };
    const sqlite = await sqlAt(`/data/shop/lists?${hostileKey}`);
    expect(querySqliteSink(world.database, sqlite).map((row) => row['web_id'])).toEqual([20]);
    const postgres = await sqlAt(`/data/house/lists?${hostileKey}`);
    expect((await askPostgres(server.url, postgres)).map((row) => row['web_id'])).toEqual(['20']);
  });

  it('cuts a long value, and gives all of it as text', async () => {
    for (const connector of world.names) {
      const body = await anna.read(`/data/${connector}/lists?key.id=long`);
      expect(body.length).toBeLessThan(60_000);
      expect(body).toContain('&whole=subscribe_url_long');
      expect(await anna.read(`/data/${connector}/lists?key.id=long&whole=subscribe_url_long`)).toBe(longText);
    }
  });
});

it('shows texts from outside as texts', async () => {
  for (const address of [
    '/data/shop/lists',
    '/data/house/lists?column=stats',
    '/data/shop/lists?rows=refused',
    `/data/shop/lists?${hostileKey}`,
    '/data/shop/lists?filter=<script>alert(1)</script>',
    '/find?find=<script>alert(1)</script>',
    '/find?find=script',
  ]) {
    const body = await anna.read(address);
    expect([address, body.match(/<script/g)?.length]).toEqual([address, 1]);
  }
});

// Proves promise 10.3
it('shows no value to who may not see values, and says which right is missing', async () => {
  for (const address of [
    '/',
    '/data',
    '/data/shop/lists',
    '/data/shop/lists?key.id=first',
    '/data/shop/lists?rows=refused',
    '/data/shop/lists?rows=deleted',
    '/data/files/lists?filter=seen',
    '/data/house/lists?key.id=long&whole=subscribe_url_long',
    '/find?find=seen',
    '/find?find=m1',
    '/connectors/shop',
    '/actions',
  ]) {
    const { status, text } = await bob.ask(address);
    expect([address, status]).toEqual([address, 200]);
    for (const value of [seen, 'm1@example', 'long long']) {
      expect([address, value, text.includes(value)]).toEqual([address, value, false]);
    }
    if (address.startsWith('/data/')) expect(text).toContain('lacks the right data');
  }
  expect(await anna.read('/data/shop/lists')).toContain(seen);
  await using open = await serveUi({ config: world.open });
  expect((await open.get('/data/shop/lists')).body).toContain(seen);
});

it('shows no value behind a mask, whatever is stored', async () => {
  await using unmasked = await serveUi({ config: world.open });
  for (const address of [
    'lists',
    'lists?column=notify_on_subscribe',
    'lists?key.id=first',
    'lists?rows=refused',
  ]) {
    expect((await unmasked.get(`/data/files/${address}`)).body).not.toContain(masked);
    expect(await anna.read(`/data/shop/${address}`)).not.toContain(masked);
  }
  const whole = await unmasked.get('/data/files/lists?key.id=first&whole=notify_on_subscribe');
  expect([whole.status, whole.body.includes(masked)]).toEqual([404, false]);
  const filter = encodeURIComponent(`notify_on_subscribe = ${masked}`);
  expect((await unmasked.get(`/data/files/lists?filter=${filter}`)).status).toBe(400);
});

// Proves promise 10.3
it('shows no value and no key on any page to a visitor without the right to see values', async () => {
  const known = [
    '/find?find=departed',
    '/data?rows=refused',
    '/data/shop/lists?rows=refused',
    '/data/shop/lists?key.id=first',
    '/data/shop/lists?key.id=first&whole=name',
    '/data/house/lists?rows=deleted',
    '/data/files/lists?filter=id%20=%20x',
  ];
  const waiting = ['/', ...known];
  const read = new Set<string>();
  for (let at = waiting.shift(); at !== undefined && read.size < mostCrawled; at = waiting.shift()) {
    const { pathname, search } = new URL(at, 'http://here');
    const address = `${pathname}${search}`;
    if (read.has(address)) continue;
    read.add(address);
    const body = await bob.read(address);
    for (const value of [seen, masked, 'm1@example', 'long long']) {
      expect([address, value, body.includes(value)]).toEqual([address, value, address.includes(value)]);
    }
    const links = [...body.matchAll(/ href="([^"#]+)/g)].map(([, href = '']) =>
      href.replaceAll('&amp;', '&'),
    );
    waiting.push(...links.map((href) => new URL(href, `http://here${address}`).href));
  }
  expect(read.size).toBeGreaterThan(40);
  // The same are there for a visitor who may see them.
  expect(await anna.read('/data?rows=refused')).toContain(`refused ${seen}`);
});

const mostCrawled = 400;

it('lists the refused records of all connectors, and says in the deleted list why each is deleted', async () => {
  const refused = await read('/data?rows=refused');
  expect(refused).toMatch(/\d+ records refused .*shop\/lists.*key-missing/);
  for (const name of world.names) expect(refused).toContain(`${name}/lists`);
  expect(await read('/data?rows=refused&connector=shop')).not.toContain('house/lists');
  expect(await anna.read('/')).toContain('href="data?rows=refused"');
  const [deleted] = (await rowsAt('/data/shop/lists?rows=deleted')).filter(([key]) => key === 'gone');
  expect(deleted?.at(-1)).toBe(
    'its listing was read in full without it, and the service answered 404 for it',
  );
  expect((await rowsAt('/data/shop/lists'))[0]?.join(' ')).not.toContain('its listing');
});

it('shows the beginning of a record of 10 MB, and leads to all of it', async () => {
  const huge = `begin ${'long '.repeat(2_000_000)}`;
  const change = (to: string): void => {
    const db = new Database(world.database);
    db.prepare("UPDATE shop__lists SET subscribe_url_long = ? WHERE id = 'long'").run(to);
    db.close();
  };
  change(huge);
  for (const address of [
    '/data/shop/lists',
    '/data/shop/lists?key.id=long',
    '/data/shop/lists?filter=long',
  ]) {
    const { length } = await anna.read(address);
    expect([address, length < 200_000]).toEqual([address, true]);
  }
  expect(await anna.read('/data/shop/lists?key.id=long&whole=subscribe_url_long')).toBe(huge);
  change(longText);
});

it('ends a search that takes too long, and says so', { timeout: 60_000 }, async () => {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  try {
    await client.query('BEGIN; LOCK TABLE raw.house__lists IN ACCESS EXCLUSIVE MODE');
    const { status, text } = await anna.ask('/data/house/lists?filter=seen');
    expect([status, text]).toEqual([503, expect.stringContaining('The search took longer than 8000 ms.')]);
  } finally {
    await client.end();
  }
  expect((await anna.ask('/data/house/lists?filter=seen')).status).toBe(200);
});

it('finds connectors by name, records by key and by word', async () => {
  const leads = async (text: string) =>
    (await ui.get(`/find?find=${text}`, { headers: anna.headers })).headers.location;
  expect(await leads('shop')).toBe('connectors/shop');
  expect(await namesAt('/find?find=m1')).toEqual(['first · m1', 'first · m1', 'first · m1']);
  expect(await namesAt('/find?find=gone')).toEqual(['gone', 'gone', 'gone']);
  expect(await namesAt('/find?find=after')).toEqual(['first', 'first', 'first']);
  expect(await read('/find?find=nothing-like-it')).toContain('Nothing found for “nothing-like-it”');
  expect(await read('/find?find=ho')).toContain('Connectors shop house');
  expect(await read('/find?find=LAK')).toContain('Targets lake');
});

it('finds deleted records, and marks them', async () => {
  expect(
    (await rowsAt('/find?find=departed')).toSorted((one, other) =>
      (one[1] ?? '') < (other[1] ?? '') ? -1 : 1,
    ),
  ).toEqual(
    ['files', 'house', 'shop'].map((name) => [
      'late',
      `${name}/lists`,
      expect.stringMatching(/^deleted \d\d:\d\d .*departed/),
    ]),
  );
  expect(await read('/find?find=departed')).toContain('Looked in 7 of 7 entities.');
});

it('says where it could not look, and why', async () => {
  const config = join(world.folder, 'broken.yaml');
  const text = readFileSync(world.open, 'utf8')
    .replace('sinks:\n', 'sinks:\n  broken: { type: sqlite, path: ./broken.db }\n')
    .replace(
      'connectors:\n  shop: {',
      'connectors:\n  away: { definition: email-marketing, id: c-away, include: [lists], sink: broken }\n  shop: {',
    );
  writeFileSync(config, text);
  writeFileSync(join(world.folder, 'broken.db'), 'no database');
  await using broken = await serveUi({ config });
  const said = textOf((await broken.get('/find?find=departed')).body);
  expect(said).toContain('Looked in 7 of 8 entities. Not in away/lists: ');
  expect(said).toContain('deleted');
});

describe('a target', () => {
  it('has the histories of its entities, and says how old its data are, how old they may be and why', async () => {
    await world.cli('publish', 'lake');
    const list = await read('/targets');
    expect(list).toContain('1 target, nothing in the way');
    expect(await rowsAt('/targets')).toEqual([
      [
        'lake files',
        'Up to date',
        'after each sync',
        expect.stringMatching(/^\d+ \w+ ago$/),
        expect.stringMatching(/^\d+ \w+$/),
        expect.any(String),
        'Publish now…',
      ],
    ]);
    const text = await read('/targets/lake');
    expect(text).toContain('lists__history');
    expect(text).not.toContain('no longer in the config');
    expect(text).toMatch(
      /Newest publication no\. \d+, \d+ (?:s|min) old, of [\d:]+ ; promised: after each sync/,
    );
    await world.cli('schedule', 'pause', 'shop', '--reason', 'the year ends');
    expect(await read('/targets/lake')).toMatch(
      /Data age \d+ (?:s|min) , because of shop \/campaigns(__history)? \(limit \d+ \w+\)\. Paused .*since [\d:]+ : the year ends/,
    );
  });

  it('says since when it is late, and offers to publish', async () => {
    const config = join(world.folder, 'late-target.yaml');
    const text = readFileSync(world.open, 'utf8').replace('[shop] }', '[shop], when: { every: 10m } }');
    const http = 'http: { tokens: { anna: { token: token-of-anna-0123, may: [pages, act] } } }';
    writeFileSync(config, `${http}\n${text}`);
    // With this config: with the other one a sync publishes too.
    const sync = ['sync', 'shop', '--full', '--allow-deletes', '--config', config];
    await callCli(sync, { cwd: world.folder });
    await using late = await serveUi({ config, clock: clockAhead(3 * 3_600_000) });
    const actor = await openActor(late, 'token-of-anna-0123');
    const body = await actor.read('/targets/lake');
    expect(textOf(body)).toMatch(/lake Late .*Late since .*\d\d:\d\d : promised every 10 min\./);
    expect(body).toContain('act/publish-now?target=lake');
  });

  it('says once and first in plain words what refuses a publication, and does not offer one', async () => {
    const folder = join(world.folder, 'lake');
    const file = readdirSync(folder, { recursive: true, encoding: 'utf8' }).find((name) =>
      name.endsWith('.parquet'),
    );
    rmSync(join(folder, file ?? ''));
    await expect
      .poll(async () => await read('/targets'), { timeout: 20_000 })
      .toContain('1 of 1 target is behind');
    const why = `In target lake, ${file ?? ''} is missing.`;
    for (const address of ['/targets', '/targets/lake']) {
      const text = await read(address);
      expect([address, text.split(why).length]).toEqual([address, 2]);
      expect([address, text.includes('Publish now')]).toEqual([address, false]);
    }
    expect(await read('/targets/lake')).toContain(`It is not published ${why}`);
  });
});

it('answers each of many requests at once, if only with "try again"', async () => {
  const answers = await Promise.all(
    Array.from({ length: 60 }, async () => await anna.ask('/data/shop/lists?filter=seen')),
  );
  for (const { status, text } of answers) {
    expect(text).toContain(status === 200 ? `${seen} after` : 'Try again in a moment');
  }
  expect(answers.some(({ status }) => status === 200)).toBe(true);
  expect((await anna.ask('/data/shop/lists')).status).toBe(200);
});

const program = findChromium();

describe.skipIf(program === null)('in a browser', { timeout: 180_000 }, () => {
  let open: Awaited<ReturnType<typeof serveUi>>;
  let browser: Browser;
  beforeAll(async () => {
    open = await serveUi({ config: world.open });
    browser = await chromium.launch({ executablePath: program ?? '', args: ['--no-sandbox'] });
  });
  afterAll(async () => {
    await browser.close();
    await open[Symbol.asyncDispose]();
  });

  it.each([
    '/data/shop/lists',
    `/data/shop/lists?${hostileKey}`,
    '/data/house/lists?rows=refused',
    '/find?find=after',
  ])(
    'keeps to the rules of the console (%s)',
    async (address) => {
      await usePage(browser, {}, async (page) => {
        await page.goto(`${open.url}${address}`);
        const at = address.startsWith('/data') ? 'Data' : null;
        await expectConsole(page, { at, values: 'td, th, dd, ins, del, .record h1' });
      });
    },
    120_000,
  );
});
