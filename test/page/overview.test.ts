import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { nextRunOf } from '../../src/app/connector-states.ts';
import { instant } from '../../src/core/clock.ts';
import type { Schedule } from '../../src/settings/settings.ts';
import type { Pause } from '../../src/sinks/lease.ts';
import type { ConnectorOverview } from '../../src/sinks/sink-access.ts';
import type { RunFacts } from '../../src/sinks/ledger-reader.ts';
import { nextRunText } from '../../src/page/overview-page.ts';
import { timesText } from '../../src/page/trouble-text.ts';
import { openActor } from '../support/page/actor.ts';
import { openManyWorld, type ManyWorld } from '../support/page/many-world.ts';
import { clockAhead, serveUi } from '../support/page/served-ui.ts';
import { openStatusWorld, script, type StatusWorld } from '../support/page/status-world.ts';
import { openProgram } from '../support/program.ts';
import { cliSecret } from '../support/cli-world.ts';
import { serveSamples } from '../support/serve-samples.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';

type Ui = Awaited<ReturnType<typeof serveUi>>;

/** What a person reads of a part of a page, on one line. */
function textOf(body: string): string {
  const text = body.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').trim();
}

interface Row {
  readonly health: string;
  readonly name: string;
  readonly why: string;
  readonly age: string;
  readonly next: string;
}

function rowsOf(body: string): readonly Row[] {
  return [...(body.split('<tbody>')[1] ?? '').matchAll(/<tr[^>]*>([\s\S]*?)<\/tr>/g)].map(([, row = '']) => {
    const cells = row.split(/<\/t[dh]>/).map(textOf);
    const [health = '', named = '', why = '', age = '', , , next = ''] = cells;
    return { health, name: named.split(' ')[0] ?? '', why, age, next };
  });
}

const namesOf = (body: string): readonly string[] => rowsOf(body).map(({ name }) => name);

function sectionOf(body: string, id: string): string {
  return new RegExp(`<section aria-labelledby="${id}"[\\s\\S]*?</section>`).exec(body)?.[0] ?? '';
}

describe('the first page', () => {
  let world: StatusWorld;
  let ui: Ui;

  beforeAll(async () => {
    world = await openStatusWorld();
    // Every sync was 47 minutes ago.
    ui = await serveUi({ config: world.config, clock: clockAhead(47 * 60_000) });
  });
  afterAll(async () => {
    await ui[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });
  const read = async (path = '/'): Promise<string> => (await ui.get(path)).body;

  it('answers in its heading and title how many connectors need a person', async () => {
    const body = await read();
    expect(textOf(/<h1>[\s\S]*?<\/h1>/.exec(body)?.[0] ?? '')).toBe('4 of 7 connectors need you');
    expect(body).toContain('<title>(4) Connectors · connector-sync</title>');
    expect(textOf(body)).toMatch(
      /Furthest beyond its limit: leads, 4[78] min of 30 min · [\d,]+ rows · next run /,
    );
  });

  it('has one word for each connector, the worst of its parts, and a reason where it is not OK', async () => {
    const rows = rowsOf(await read());
    expect(rows.map(({ health, name }) => [name, health])).toEqual([
      ['crm', 'Failed'],
      ['leads', 'Late'],
      ['members', 'Incomplete'],
      ['team-notes', 'Incomplete'],
      ['archive', 'Paused'],
      ['new-shop', 'New'],
      ['newsletter', 'OK'],
    ]);
    expect(rows.filter(({ why }) => why === '')).toEqual([]);
    const why = Object.fromEntries(rows.map((row) => [row.name, row.why]));
    expect(why).toMatchObject({
      members: '23 rows of list_members look deleted',
      'new-shop': 'Not read yet',
      newsletter: expect.stringMatching(/^\d+ entities (complete|read, \d unconfirmed)$/) as string,
      leads: expect.stringMatching(/^\w+ is 4[789] min old, limit 30 min; it has no schedule$/) as string,
      archive: expect.stringMatching(
        /^Paused by \S+@\S+ since (\d+ \w+ )?\d\d:\d\d: The account moves <script/,
      ) as string,
    });
  });

  it('puts what needs a person first, with the reason', async () => {
    const body = await read();
    const needs = textOf(sectionOf(body, 'needs'));
    expect(needs).toContain('members 23 rows of list_members look deleted. They are kept until you decide.');
    expect(needs).toMatch(
      /Failed crm The API refused the credentials \(401\) since (\d+ \w+ )?\d\d:\d\d : Signed out <script/,
    );
    expect(needs).toMatch(/Late leads \w+ is 4[789] min old, limit 30 min\. It has no schedule\. and 1 more/);
    expect(needs).toContain(
      'team-notes The credentials lack a right for comments . Grant it at the service, then check again.',
    );
    expect(needs).not.toContain('newsletter');
    expect(needs).not.toContain('archive');
    expect(needs).not.toContain('act/');
  });

  it('shows the age of the stalest entity above the share of its limit', async () => {
    const body = await read('/?q=leads');
    expect(rowsOf(body)[0]?.age).toMatch(/^4[789] min$/);
    expect(body).toMatch(/<progress class="o bad" max="30" value="30" aria-label="limit 30 min">/);
  });

  it('shows a new field for 14 days, and nothing of what the first load met', async () => {
    expect(namesOf(await read('/?state=needs-you'))).toContain('leads');
    await using later = await serveUi({ config: world.config, clock: clockAhead(15 * 86_400_000) });
    expect(textOf((await later.get('/?state=needs-you')).body)).not.toContain('new field');
  });

  it('says of a sink that it cannot be read, and shows the connectors of the others', async () => {
    const body = await read();
    expect(textOf(body)).toMatch(
      /Sink away cannot be read 1 connector of it is not shown\. .*127\.0\.0\.1:1/,
    );
    expect(namesOf(body)).not.toContain('warehouse');
  });

  it('counts a target that is in trouble among what needs a person, with its reason', async () => {
    const config = join(world.folder, 'with-target.yaml');
    const target =
      '{ type: postgres, url: "postgresql://sync@127.0.0.1:1/shown", schema: raw, connectors: [leads] }';
    await writeFile(config, `${await world.configText()}  shown: ${target}\n`);
    await using other = await serveUi({ config, clock: clockAhead(47 * 60_000) });
    // Also on a page about something else, and on the first that is read.
    const elsewhere = textOf(
      /<nav aria-label="Pages">[\s\S]*?<\/nav>/.exec((await other.get('/runs')).body)?.[0] ?? '',
    );
    expect(elsewhere).toContain('Targets 1');
    const { body } = await other.get('/');
    expect(textOf(/<h1>[\s\S]*?<\/h1>/.exec(body)?.[0] ?? '')).toBe(
      '4 of 7 connectors and 1 of 2 targets need you',
    );
    expect(body).toContain('<title>(5) Connectors');
    expect(textOf(sectionOf(body, 'needs'))).toMatch(/Not reached shown Target: .* See details/);
    expect(textOf(/<nav aria-label="Pages">[\s\S]*?<\/nav>/.exec(body)?.[0] ?? '')).toContain('Targets 1');
  });

  it('filters by part of a name or type and by state, and sorts, as the address says', async () => {
    expect(namesOf(await read('/?q=NEW'))).toEqual(['new-shop', 'newsletter']);
    expect(namesOf(await read('/?q=workspace'))).toEqual(['team-notes']);
    expect(namesOf(await read('/?state=incomplete'))).toEqual(['members', 'team-notes']);
    const needing = ['crm', 'leads', 'members', 'team-notes'];
    expect(namesOf(await read('/?state=needs-you&sort=name'))).toEqual(needing);
    expect(textOf(await read())).toMatch(
      /All 7 Needs you 4 Failed 1 Late 1 Incomplete 2 Paused 1 New 1 OK 1/,
    );
    expect(namesOf(await read('/?sort=rows'))[6]).toBe('new-shop');
    expect(namesOf(await read('/?sort=age')).slice(0, 6)).not.toContain('newsletter');
    expect(textOf(await read('/?q=nothing-like-it'))).toContain('No connector matches.');
  });

  it('takes what an address has wrong as not given', async () => {
    const usual = namesOf(await read());
    const wrong = 'page=0 page=x page=99 state=constructor sort=toString q=&q=leads q[]=1';
    for (const query of wrong.split(' ')) {
      expect([query, namesOf(await read(`/?${query}`))]).toEqual([query, usual]);
    }
  });

  it('has a bar for each run, which leads to it', async () => {
    const bars = [
      ...(await read('/?q=newsletter')).matchAll(/<a\s+href="\.\/runs\/([^"]+)"\s+tabindex="-1"/g),
    ];
    expect(bars.map(([, run]) => run)).toEqual(await world.runsOf('newsletter'));
  });

  it('shows texts from outside as text', async () => {
    const body = await read(`/?q=${encodeURIComponent(script)}`);
    expect(body).toContain('value="&lt;script');
    expect(`${body}${await read()}`).not.toContain('<script src="https://evil');
  });

  it('has the act that helps beside each reason, for who may act', async () => {
    const config = join(world.folder, 'with-token.yaml');
    await writeFile(config, `http: { token: a-token-of-16-or-more }\n${await world.configText()}`);
    await using closed = await serveUi({ config, clock: clockAhead(47 * 60_000) });
    const anna = await openActor(closed, 'a-token-of-16-or-more');
    const body = await anna.read('/');
    const needs = sectionOf(body, 'needs');
    expect(needs).toContain('act/allow-deletes?connector=members');
    expect(needs).toContain('act/run-now?connector=leads');
    expect(needs).toContain('act/check?connector=crm');
    for (const one of needs.split('<li>').slice(1)) expect(one).toMatch(/class="(btn )?low/);
    expect(body).toContain('href="add">Add connector</a>');
    expect(textOf(body)).toContain('All 7 Run all 7 now… Pause all 7… Resume the 1 paused…');
    expect(await anna.read('/?state=incomplete')).toContain('act/pause?state=incomplete');
  });
});

describe('with many connectors', () => {
  let world: ManyWorld;
  let ui: Ui;

  beforeAll(async () => {
    world = await openManyWorld(120, { needing: 12 });
    ui = await serveUi({ config: world.config });
  });
  afterAll(async () => {
    await ui[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });

  it('names the first eight that need a person, and leads to the others', async () => {
    const { body } = await ui.get('/');
    const needs = sectionOf(body, 'needs');
    expect(needs.match(/<li>/g)?.length).toBe(8);
    const more = body.match(/<h1>(\d+) of 120/)?.[1];
    expect(textOf(needs)).toContain(`and ${Number(more) - 8} more`);
    expect(needs).toContain('href="./?state=needs-you"');
    expect(namesOf((await ui.get('/?state=needs-you')).body).length).toBe(Number(more));
  });

  it('shows fifty on a page, and all of them on three', async () => {
    const pages = await Promise.all([1, 2, 3].map(async (page) => (await ui.get(`/?page=${page}`)).body));
    expect(pages.map((body) => namesOf(body).length)).toEqual([50, 50, 20]);
    expect(pages.flatMap(namesOf).toSorted()).toEqual(world.names.toSorted());
    expect(textOf(pages[1] ?? '')).toContain('Previous Page 2 of 3 Next');
  });

  it('writes the next run as a moment, and never as a schedule', async () => {
    const next = rowsOf((await ui.get('/?sort=next')).body).map((row) => row.next);
    const odd = next.filter(
      (text) => !/^(now|paused|no schedule|(\d{1,2} \w{3} )?\d\d:\d\d( overdue)?)$/.test(text),
    );
    expect(odd).toEqual([]);
    expect(textOf((await ui.get('/')).body)).toMatch(/are tried again by (\d+ \w+ )?\d\d:\d\d : /);
  });

  it('says of what is tried again how often it has failed', () => {
    const runs = (...states: readonly string[]) =>
      states.map((state) => ({ kind: 'sync', state })) as readonly Pick<RunFacts, 'kind' | 'state'>[];
    const seven = Array.from({ length: 7 }, () => 'failed');
    expect(timesText(runs('running', ...seven, 'ok', 'failed'), ' (', ')')).toBe(' (failed 7 times)');
    expect(timesText(runs('degraded', 'degraded', 'failed'), ', ', '')).toBe(', incomplete 2 times');
    expect(timesText(runs('failed', 'ok'), ' (', ')')).toBe('');
    expect(timesText(runs('ok', 'failed'), ' (', ')')).toBe('');
  });

  it('shows no OK among what needs a person', async () => {
    const needs = sectionOf((await ui.get('/?state=needs-you')).body, 'needs');
    expect(needs).not.toContain('state ok');
  });
});

it('shows refused credentials as failed and with an act, also where nothing was ever read', async () => {
  const service = await serveSamples({
    port: 0,
    clientId: 'local',
    clientSecret: cliSecret,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: [
      {
        workspace: 'default',
        connectorId: 'c-one',
        definitionName: 'email-marketing',
        seed: 3,
        size: 'tiny',
      },
    ],
  });
  const settings = (secret: string): string => `http: { token: a-token-of-16-or-more }
api: { baseUrl: "${service.url}", clientId: local, clientSecret: "${secret}" }
sinks: { main: { type: sqlite, path: ./main.db } }
connectors:
  read: { definition: email-marketing, id: c-one, sink: main, include: [lists] }
  fresh: { definition: email-marketing, id: c-one, sink: main }
`;
  await using program = openProgram(settings(cliSecret));
  await program.cli('sync', 'read');
  await writeFile(program.config, settings('another-secret'));
  await program.cli('sync', 'read', 'fresh');
  await service.close();
  await using ui = await serveUi({ config: program.config });
  const anna = await openActor(ui, 'a-token-of-16-or-more');
  const body = await anna.read('/');
  expect(rowsOf(body).map(({ health, name }) => [health, name])).toEqual([
    ['Failed', 'fresh'],
    ['Failed', 'read'],
  ]);
  for (const name of ['fresh', 'read']) {
    expect(textOf(sectionOf(body, 'needs'))).toContain(
      `Failed ${name} The API refused the credentials (401)`,
    );
    expect(sectionOf(body, 'needs')).toMatch(new RegExp(`act/[a-z-]+\\?connector=${name}`));
  }
  const { stdout } = await program.cli('status', 'fresh');
  expect(stdout).toContain('failed');
});

it('leads from nothing to the first sync', async () => {
  await using program = openProgram(
    `http: { token: a-token-of-16-or-more }
api: { baseUrl: "http://127.0.0.1:1", clientId: local, clientSecret: x }
sinks:
  main: { type: sqlite, path: ./main.db }
  away: { type: postgres, url: "postgresql://sync@127.0.0.1:1/warehouse", schema: raw }
connectors: {}
`,
  );
  await using ui = await serveUi({ config: program.config });
  const anna = await openActor(ui, 'a-token-of-16-or-more');
  const body = await anna.read('/');
  expect(textOf(body)).toMatch(/Done Sink main is ready \S+main\.db Failed Sink away cannot be read/);
  expect(body).toContain('<a class="btn primary" href="add">Add connector</a>');
  expect(body).not.toContain('sync@127');
});

describe('the next run of a connector', () => {
  const startedMs = Date.UTC(2026, 2, 1, 10);
  const every: Schedule = { kind: 'every', everyMs: 15 * 60_000, jitterMs: 0, missed: 'once' };
  const cron: Schedule = { kind: 'cron', pattern: '0 4 * * *', timezone: 'UTC', jitterMs: 0, missed: 'once' };
  const text = (
    schedule: Schedule | null,
    nowMs: number,
    { tookMs = 60_000, paused = null as Pause | null, state = 'ok' } = {},
  ): string => {
    const lastRun = { startedAt: instant(startedMs), finishedAt: instant(startedMs + tookMs), state };
    const overview = { lastRun, paused } as ConnectorOverview;
    return textOf(String(nextRunText({ schedule }, overview, nowMs)));
  };

  it('is one interval after the last one began, and the first that it did not take', () => {
    expect(text(every, startedMs + 5 * 60_000)).toBe('10:15');
    expect(text(every, startedMs + 41 * 60_000, { tookMs: 40 * 60_000 })).toBe('10:45');
    expect(text(every, startedMs + 5 * 60_000, { state: 'running' })).toBe('now');
  });

  it('is now while a worker may be about to begin it, then overdue', () => {
    expect(text(every, startedMs + 19 * 60_000)).toBe('now');
    expect(text(every, startedMs + 21 * 60_000)).toBe('10:15 overdue');
    expect(text(cron, startedMs + 60_000)).toBe('2 Mar 04:00');
    expect(text(cron, startedMs + 20 * 3_600_000)).toBe('04:00 overdue');
    expect(text(cron, startedMs + 20 * 3_600_000)).toBe('04:00 overdue');
    expect(text(cron, startedMs + 30_000, { tookMs: 10_000 })).toBe('2 Mar 04:00');
  });

  it('is none without a schedule, and while it is paused', () => {
    const paused = { since: instant(startedMs), reason: 'x' };
    expect(text(every, startedMs + 60_000, { paused })).toBe('paused');
    expect(text(null, startedMs + 60_000)).toBe('no schedule');
    expect(nextRunOf({ schedule: every }, null, startedMs)).toEqual({ kind: 'now' });
    expect(nextRunOf({ schedule: cron }, null, startedMs)).toMatchObject({ kind: 'at' });
  });
});
