import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Trouble } from '../../src/app/connector-health.ts';
import { readConnector } from '../../src/app/connector-history.ts';
import { watchSinks } from '../../src/app/watch-sinks.ts';
import { instant, systemClock } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../src/core/names.ts';
import { noCounts } from '../../src/core/records.ts';
import { changeBars, runBars } from '../../src/page/bars.ts';
import { connectorPage, progressSection } from '../../src/page/connector-page.ts';
import { timeline } from '../../src/page/timeline.ts';
import { troubleReason } from '../../src/page/trouble-text.ts';
import { connectorNamed } from '../../src/settings/choices.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import type { RunSummary } from '../../src/sinks/ledger-reader.ts';
import type { NotedAction } from '../../src/sinks/requests.ts';
import { expectConsole, usePage } from '../support/page/expect-console.ts';
import { findChromium, howToGetChromium } from '../support/page/find-chromium.ts';
import { pageWorld } from '../support/page/page-world.ts';
import { clockAhead, serveUi } from '../support/page/served-ui.ts';
import { openStatusWorld, type StatusWorld } from '../support/page/status-world.ts';

const token = 'token-of-anna-0123';
const program = findChromium();
if (program === null) console.warn(howToGetChromium);

/** A part of a page as a person reads it, on one line. */
function textOf(body: string): string {
  const text = body.replace(/<title>.*?<\/title>|<[^>]*>/g, ' ').replace(/\s+/g, ' ');
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').trim();
}

const linesOf = (body: string, tag: 'li' | 'tr'): readonly string[] =>
  [...body.matchAll(new RegExp(`<${tag}[ >][\\s\\S]*?</${tag}>`, 'g'))].map(([line]) => textOf(line));

describe('the page of a connector', () => {
  let world: StatusWorld;
  let ui: Awaited<ReturnType<typeof serveUi>>;

  beforeAll(async () => {
    world = await openStatusWorld({ runs: 7 });
    // Every sync was 47 minutes ago.
    ui = await serveUi({ config: world.config, clock: clockAhead(47 * 60_000) });
  });
  afterAll(async () => {
    await ui[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });

  async function page(name: string, status = 200): Promise<string> {
    const answer = await ui.get(`/connectors/${name}`);
    expect([name, answer.status]).toEqual([name, status]);
    return answer.body;
  }

  async function read(name: string, maySee = true) {
    const settings = loadSettings({ file: world.config, env: {} });
    await using watched = watchSinks([...settings.connectors.values()], systemClock);
    const connector = connectorNamed(settings, name);
    const nowMs = Date.now();
    const data = await readConnector(settings, connector, watched, { nowMs, maySee, shown: 50 });
    if (data.kind !== 'read') throw new Error(data.problem);
    return { connector, data, nowMs };
  }

  const table = (body: string, name: string): readonly string[] =>
    linesOf(new RegExp(`aria-label="${name}"[\\s\\S]*?</table>`).exec(body)?.[0] ?? '', 'tr').slice(1);

  const events = (body: string): readonly string[] =>
    linesOf(body.slice(body.indexOf('id="timeline"')), 'li').map((line) => line.replace(/^\d\d:\d\d /, ''));

  // Proves promise 10.3
  it('names the key of a failed listing only to who may see values', async () => {
    for (const [maySee, times] of [
      [true, 1],
      [false, 0],
    ] as const) {
      const { data, nowMs } = await read('team-notes', maySee);
      const shown = connectorPage(data, { show: null, shown: 50 }, { ...pageWorld, nowMs });
      expect(shown).toContain('comments');
      expect([maySee, Math.min(1, shown.split('comments of block ').length - 1)]).toEqual([maySee, times]);
    }
  });

  it('begins with the reason, and shows each entity below the one that leads to it, in plain words', async () => {
    const body = await page('members');
    expect(textOf(/<h1>[\s\S]*?<\/h1>/.exec(body)?.[0] ?? '')).toBe('members Incomplete');
    const callout = textOf(/<section class="callout warn"[\s\S]*?<\/section>/.exec(body)?.[0] ?? '');
    expect(callout).toMatch(/^23 rows of list_members look deleted\. They are kept until you decide\./);
    expect(callout).toContain('the listing came back empty');
    expect(callout).toMatch(/See the rows$/);
    expect(body).toContain('href="../data/members/list_members?rows=missing"');
    expect(events(body)[0]).toMatch(/^Done Run .* 23 deletes wait for a person/);
    expect(body.indexOf('23 rows')).toBeLessThan(body.indexOf('Data age'));
    // Where midnight lies between, the changes are not of today.
    const [lists, members] = table(body, 'Entities');
    expect(lists).toMatch(/^lists Complete 2 [45]\d min (2 new|–)$/);
    expect(members).toMatch(
      /^list_members Deletes wait 23 rows look deleted 23 rows look deleted 23 [45]\d min (23 new|–)$/,
    );
    expect(body).toMatch(/<th scope="row" class="in1"><a href="[^"]*members\/list_members"/);
    expect(table(body, 'All numbers of the entities')[1]).toMatch(/^list_members 23 2 [45]\d min$/);
  });

  it('says that a limit of age cannot be kept by its schedule', async () => {
    const { data, nowMs } = await read('newsletter');
    expect(data.tooShort).toBeNull();
    const settings = loadSettings({ file: world.config, env: {} });
    const newsletter = connectorNamed(settings, 'newsletter');
    const [[entity, first] = []] = newsletter.entities;
    if (entity === undefined || first === undefined) throw new Error('nothing is read');
    const connector = {
      ...newsletter,
      entities: new Map([[entity, { ...first, freshWithinMs: 12 * 3_600_000 }]]),
    };
    await using watched = watchSinks([connector], systemClock);
    const late = await readConnector(settings, connector, watched, { nowMs, maySee: true, shown: 50 });
    if (late.kind !== 'read') throw new Error(late.problem);
    const shown = textOf(connectorPage(late, { show: null, shown: 50 }, { ...pageWorld, nowMs }));
    expect(shown).toContain('is to be at most 12 h old, but up to 24 h pass between its runs');
  });

  it('says which part of an entity is missing, and when it is tried again', async () => {
    const body = await page('team-notes');
    const comments = table(body, 'Entities').find((line) => line.startsWith('comments'));
    expect(comments).toMatch(/^comments Part missing \d+ of \d+ listings: list comments was answered/);
    expect(comments).toMatch(/; to be tried again since (\d+ \w+ )?[\d:]{5} , but no worker has begun/);
    const failed = textOf(/<h2>Failed, to be tried again[\s\S]*?<\/section>/.exec(body)?.[0] ?? '');
    expect(failed).toMatch(/comments of block \S+, and 5 more like it : list comments was answered with 403/);
  });

  it('shows age, rows, changes of today, the last and the next run, and where it is published', async () => {
    const body = await page('newsletter');
    const stats = textOf(/<dl class="stats">[\s\S]*?<\/dl>/.exec(body)?.[0] ?? '');
    expect(stats).toMatch(/^Data age [45]\d min of 24 h Rows 234 Today /);
    expect(stats).toMatch(/Last run (\d+ \w+ )?[\d:]{5} took [\d.]+ m?s Next run /);
    expect(body).toContain('<a href="../targets/lake">lake</a>');
    const runs = [...body.matchAll(/<a\s+href="\.\.\/runs\/([^"]+)"\s+tabindex="-1"/g)].map(([, run]) => run);
    expect(runs).toEqual(await world.runsOf('newsletter'));
  });

  it('lists undeclared fields, and the pause with its reason', async () => {
    expect(table(await page('leads'), 'Undeclared fields').join('\n')).toMatch(
      /^automations\.tier string undeclared [45]\d min$/m,
    );
    expect(textOf(await page('archive'))).toMatch(
      /Paused by \S+@\S+ since (\d+ \w+ )?[\d:]{5} : The account moves/,
    );
  });

  it('has one timeline of runs, acts of people and new fields, and each kind by its address', async () => {
    const paused = events(await page('archive'));
    expect(paused[0]).toMatch(/^Person \S+@\S+ paused it: “The account moves <script/);
    const [failed] = events(await page('crm'));
    expect(failed).toMatch(/^Failed Run , asked for by \S+@\S+, list lists was answered with 401/);
    expect(events(await page('leads')).join('\n')).toMatch(/^Fields New field automations\.segment <script/m);
    const people = events(await page('crm?show=people'));
    expect(people.join('\n')).toMatch(/^Person \S+@\S+ read everything again of it Show the run$/);
    expect(events(await page('archive?show=runs')).every((line) => line.startsWith('Done Run '))).toBe(true);
    expect(await page('archive?show=settings')).toContain('Nothing of this kind.');
    expect(events(await page('archive?show=nope'))).toEqual(paused);
  });

  it('folds runs in a row that ended well, but for the newest', async () => {
    const body = await page('newsletter?show=runs');
    const folded = /<details>[\s\S]*?<\/details>/.exec(body)?.[0] ?? '';
    expect(textOf(folded)).toMatch(/^5 more runs, all done, [\d:]{5} to [\d:]{5} /);
    const left = (await world.runsOf('newsletter')).filter((run) => folded.includes(`../runs/${run}"`));
    expect(left).toEqual((await world.runsOf('newsletter')).slice(2));
  });

  it('says until when the service asked for a pause, and which deletes wait for later runs', async () => {
    const { data, nowMs } = await read('archive');
    const of = { ...data, runs: [] };
    const now = { ...pageWorld, nowMs };
    const text = (trouble: Trouble): string => textOf(String(troubleReason(trouble, of, now)));
    const quiet = { word: null, isForPerson: false } as const;
    const until = '2025-01-01T00:12:00.000Z';
    expect(text({ kind: 'throttled', until, ...quiet })).toMatch(
      /^Waits until 1 Jan 2025 , as the service asked\./,
    );
    const entities = [...data.connector.entities.keys()].slice(0, 1);
    const [entity] = entities;
    if (entity === undefined) throw new Error('nothing is read');
    const field = { connector: data.connector.name, entity, field: 'amount', types: ['string'] } as const;
    const misfit = { ...field, kind: 'misfit', since: until, hasColumn: false, isRefused: true } as const;
    const refused = (reason: 'schema-change' | 'key-missing') => [{ entity, records: 3, reasons: [reason] }];
    expect(text({ kind: 'quarantine', of: refused('schema-change'), misfits: [misfit], ...quiet })).toBe(
      '3 records of lists were refused: amount is a text. They are kept apart; stored rows stay as they were.',
    );
    expect(text({ kind: 'quarantine', of: refused('key-missing'), misfits: [], ...quiet })).toContain(
      'refused: the key is missing.',
    );
    const message = 'check was answered with 401 "The key was revoked."; check the credentials';
    const credentials = { kind: 'credentials', code: 'AUTH_FAILED', entities: undefined, message } as const;
    const direct = { kind: 'direct', credentials: new Map(), signIn: null } as const;
    const keyPlaces = [{ kind: 'file', name: './secrets/crm.key' }] as const;
    const ofDirect = { ...of, connector: { ...data.connector, address: direct, keyPlaces } };
    expect(textOf(String(troubleReason({ ...credentials, ...quiet }, ofDirect, now)))).toBe(
      'The API refused the credentials (401): The key was revoked. Put new ones into the file secrets/crm.key , then check again.',
    );
    expect(text({ kind: 'pending', rows: 2, entities, ...quiet })).toBe(
      '2 rows of lists may be deleted. Later runs check them.',
    );
  });

  it('says how much a run in progress has read and written, and that its process has ended', async () => {
    const { connector, data } = await read('archive');
    const [run] = data.past.runs;
    const [entity] = connector.entities.keys();
    if (run === undefined || entity === undefined) throw new Error('nothing was read');
    const counts = [{ ...noCounts, entity, fetched: 3210, duplicate: 10, inserted: 3200 }];
    const section = textOf(String(progressSection({ run, counts, isLost: false }, data)));
    expect(section).toMatch(/^Running since [\d:]{8} : 3,200 records read, 3,200 rows written so far\./);
    expect(section).toMatch(/lists 3,200 3,200 0/);
    const lost = textOf(String(progressSection({ run, counts, isLost: true }, data)));
    expect(lost).toContain('The process of the run has ended');
    expect(lost).toContain('The next run resumes from what it stored.');
  });

  it.skipIf(program === null)(
    'keeps the rules of the console in a browser, for a person who may act',
    { timeout: 180_000 },
    async () => {
      const config = join(world.folder, 'with-token.yaml');
      const tokens = `http: { tokens: { anna: { token: ${token}, may: [pages, data, act] } } }`;
      await writeFile(config, `${tokens}\n${await world.configText()}`);
      await using open = await serveUi({ config, clock: clockAhead(47 * 60_000) });
      const browser = await chromium.launch({ executablePath: program ?? '', args: ['--no-sandbox'] });
      try {
        await usePage(browser, {}, async (page) => {
          await page.goto(open.url);
          await page.getByLabel('Token').fill(token);
          await page.getByRole('button', { name: 'Log in' }).click();
          for (const name of ['members', 'team-notes']) {
            await page.goto(`${open.url}/connectors/${name}`);
            await expectConsole(page, { at: 'Connectors' });
          }
          await page.goto(`${open.url}/connectors/members`);
          await page.getByText('More', { exact: true }).click();
          expect(await page.getByRole('link', { name: 'Remove…' }).isVisible()).toBe(true);
          await page.keyboard.press('Escape');
          await page.getByRole('link', { name: 'People', exact: true }).click();
          await page.getByText('read everything again of it').waitFor();
        });
      } finally {
        await browser.close();
      }
    },
  );

  it('is 503 with the reason where its sink cannot be read', async () => {
    expect(textOf(await page('warehouse', 503))).toContain('127.0.0.1:1');
  });
});

describe('the timeline', () => {
  const noon = Date.UTC(2026, 10, 28, 12);
  const name = 'crm';
  const nothing = { runs: [], actions: [], drift: [], scopeChanges: [] };
  const act = (id: number, change: Partial<NotedAction> = {}): NotedAction => ({
    action: 'pause',
    connector: null,
    entity: null,
    detail: {},
    run: null,
    id,
    who: 'anna',
    at: instant(noon - id * 6e4),
    ...change,
  });

  it('shows more of a long one on demand, of the chosen kind', () => {
    const past = { ...nothing, actions: Array.from({ length: 60 }, (_, id) => act(id)) };
    const few = String(timeline({ name, past, show: 'people', shown: 50 }, noon));
    expect(linesOf(few, 'li').length).toBe(50);
    expect(few).toContain('href="crm?show=people&amp;shown=200#timeline"');
    expect(String(timeline({ name, past, show: null, shown: 200 }, noon))).not.toContain('Show older');
  });

  it('names days, and what a sync read otherwise than before', () => {
    const change = {
      run: 'r1' as RunId,
      isOtherDefinition: true,
      left: [],
      changed: ['lists' as EntityName],
    };
    const scopeChanges = [
      { ...change, startedAt: instant(noon - 86_400_000), added: ['automations' as EntityName] },
    ];
    const past = { ...nothing, scopeChanges, actions: [act(1), act(2, { at: '2025-02-03T08:00:00.000Z' })] };
    const shown = textOf(String(timeline({ name, past, show: null, shown: 50 }, noon)));
    expect(shown).toMatch(/Today, 28 Nov .* Friday, 27 Nov 12:00 Settings .* 3 Feb 2025 08:00 Person/);
    expect(shown).toContain(
      'reads automations too; reads lists with other parameters; has another definition of its type',
    );
  });

  it('says how a schedule was changed, also among settings, and an act on many entities once', () => {
    const detail = { from: 'every 3 h', to: 'every 15 min' };
    const reset = (id: number, entity: string) =>
      act(id, { action: 'reset', entity: entity as EntityName, at });
    const at = instant(noon);
    const actions = [act(1, { action: 'schedule', detail }), reset(3, 'lists'), reset(2, 'campaigns')];
    const shown = (show: 'people' | 'settings') =>
      linesOf(String(timeline({ name, past: { ...nothing, actions }, show, shown: 50 }, noon)), 'li');
    expect(shown('settings').join()).toContain('anna changed the schedule from every 3 h to every 15 min');
    expect(shown('people').join('\n')).toMatch(/discarded the progress of it \( (lists|campaigns) , \w+ \)/);
    expect(shown('people')).toHaveLength(2);
    expect(shown('settings')).toHaveLength(1);
  });

  it('shows no key of a record', () => {
    const detail = { key: '["planted"]' };
    const past = {
      ...nothing,
      actions: [act(1, { action: 'refetch', entity: 'lists' as EntityName, detail })],
    };
    const shown = textOf(String(timeline({ name, past, show: null, shown: 50 }, noon)));
    expect(shown).toContain('anna read a record again of it ( lists )');
    expect(shown).not.toContain('planted');
  });
});

describe('bars', () => {
  const nowMs = Date.UTC(2026, 10, 28, 12);
  const shape = { places: 4, height: 20, width: 4, gap: 2 };
  const run = (id: string, state: RunSummary['state'], tookMs: number) => ({
    run: id as RunId,
    connector: 'crm' as ConnectorName,
    kind: 'sync' as const,
    continues: null,
    state,
    startedAt: instant(nowMs - 6e4),
    finishedAt: instant(nowMs - 6e4 + tookMs),
  });

  it('draw the newest run on the right, a link for each or a path for each outcome', () => {
    const runs = [run('r3', 'failed', 250), run('r2', 'ok', 1_000), run('r1', 'ok', 1_000)];
    const links = String(runBars(runs, shape, nowMs, '../'));
    expect(links).toContain('aria-label="Last 3 runs: 1 failed, 2 done"');
    expect(links).toMatch(/href="\.\.\/runs\/r3"[\s\S]*?11:59, Failed, 250 ms[\s\S]*?d="M20 20v-12"/);
    const paths = String(runBars(runs, shape, nowMs));
    expect(paths).not.toContain('href');
    expect(paths).toMatch(/class="ok"\s+d="M14 20v-20M8 20v-20"/);
  });

  it('draw what changed by day, upon one another, and nothing for a day without runs', () => {
    const days = [undefined, { added: 9, changed: 0, deleted: 0 }, { added: 1, changed: 2, deleted: 1 }];
    const drawn = String(changeBars(days, shape, 'Changes'));
    expect(drawn).toContain('aria-label="Changes in 3 days: 10 new, 2 changed, 1 deleted"');
    expect(drawn).toMatch(/class="ok"\s+d="M8 20v-20M14 20v-3.5"/);
    expect(drawn).toMatch(/class="idle"\s+d="M14 16.5v-6.5"/);
    expect(drawn).toMatch(/class="bad"\s+d="M14 10v-3.5"/);
  });
});
