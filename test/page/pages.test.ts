import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Trouble } from '../../src/app/connector-health.ts';
import { watchSinks } from '../../src/app/watch-sinks.ts';
import { instant, systemClock } from '../../src/core/clock.ts';
import { noCounts } from '../../src/core/records.ts';
import { progressSection, readConnectorPage, timeline } from '../../src/page/connector-page.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { problemPage, troubleText } from '../../src/page/layout.ts';
import { pageWorld } from '../support/page/page-world.ts';
import { openStatusWorld, script, type StatusWorld } from '../support/page/status-world.ts';
import { clockAhead, serveUi } from '../support/page/served-ui.ts';

let world: StatusWorld;
let ui: Awaited<ReturnType<typeof serveUi>>;

beforeAll(async () => {
  world = await openStatusWorld();
  // Every sync was 47 minutes ago.
  ui = await serveUi({ config: world.config, clock: clockAhead(47 * 60_000) });
});
afterAll(async () => {
  await ui[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

async function page(path: string, status = 200): Promise<string> {
  const answer = await ui.get(path);
  expect([path, answer.status]).toEqual([path, status]);
  expect(answer.headers['content-type']).toBe('text/html; charset=utf-8');
  return answer.body;
}

/** What a person reads of a part of a page, on one line. */
function textOf(body: string): string {
  const text = body.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').trim();
}

function rowsOf(body: string): readonly string[] {
  return [...(body.split('<tbody>')[1] ?? '').matchAll(/<tr>([\s\S]*?)<\/tr>/g)].map(([, row = '']) =>
    textOf(row),
  );
}

const names = (body: string): readonly string[] => rowsOf(body).map((row) => row.split(' ')[0] ?? '');

describe('the page of a connector', () => {
  it('shows what status says of its entities, below those that lead to them', async () => {
    const body = await page('/connectors/members');
    expect(names(body).slice(0, 2)).toEqual(['lists', 'list_members']);
    expect(body).toContain('class="depth-1" href="../data/members/list_members"');
    expect(rowsOf(body)[1]).toMatch(/^list_members 23 23 2 /);
    expect(textOf(body)).toContain(
      'list_members: 23 rows look deleted and are kept: the listing came back empty',
    );
  });

  it('shows failures, undeclared fields, the pause and the targets', async () => {
    expect(textOf(await page('/connectors/team-notes'))).toContain(
      'FORBIDDEN: list comments was answered with 403',
    );
    expect(textOf(await page('/connectors/leads'))).toContain('automations tier string undeclared');
    expect(textOf(await page('/connectors/archive'))).toMatch(
      /Paused since \S+ \S+ UTC by \S+@\S+: The account moves/,
    );
    expect(await page('/connectors/newsletter')).toContain('<a href="../targets/lake">lake</a>');
    expect(textOf(await page('/targets/lake'))).toMatch(/Newest publication number \d+, .*State up to date/);
  });

  it('has one timeline of runs, what people did, and fields that were new', async () => {
    const lines = async (name: string): Promise<readonly string[]> => {
      const body = await page(`/connectors/${name}`);
      const table = /aria-label="Timeline"([\s\S]*?)<\/table>/.exec(body)?.[1] ?? '';
      return rowsOf(table).map((row) => row.replace(/^\S+ ago \S+ \S+ UTC /, ''));
    };
    expect((await lines('archive'))[0]).toMatch(/^pause \S+@\S+ reason: The account moves <script/);
    const newest = (await lines('crm')).slice(0, 2).join('\n');
    expect(newest).toMatch(/^failed .* AUTH_FAILED$/m);
    expect(newest).toMatch(/^read-in-full \S+@\S+ run$/m);
    expect((await lines('leads')).join()).toMatch(/schema automations: undeclared fields: /);
  });

  it('shows more of a long timeline on demand', () => {
    const action = { action: 'pause', connector: null, entity: null, detail: {}, run: null } as const;
    const actions = Array.from({ length: 60 }, (_, id) => {
      return { ...action, id, at: instant(Date.UTC(2026, 0, 1) - id), who: 'anna' };
    });
    const past = {
      runs: [],
      counts: [],
      actions,
      drift: [],
    };
    const few = String(timeline({ past, shown: 50 }, Date.UTC(2026, 0, 2)));
    expect(rowsOf(few).length).toBe(50);
    expect(few).toContain('href="?shown=200#timeline"');
    expect(String(timeline({ past, shown: 200 }, 0))).not.toContain('Show older');
  });

  it('counts down a pause of the service, and says which deletes wait for later runs', () => {
    const how = { program: 'connector-sync', nowMs: Date.UTC(2026, 0, 1) };
    const until = instant(how.nowMs + 12 * 60_000);
    const text = (trouble: Trouble, nowMs = how.nowMs): string =>
      textOf(String(troubleText(trouble, 'crm', { ...how, nowMs })));
    const throttled = { kind: 'throttled', until, word: null, isForPerson: false } as const;
    expect(text(throttled)).toContain('until 2026-01-01T00:12Z, in 12m; the next run resumes.');
    expect(text(throttled, Date.parse(until) + 1)).toContain('00:12Z; the next run resumes.');
    const pending = { kind: 'pending', rows: 2, entities: [], word: null, isForPerson: false } as const;
    expect(text(pending)).toBe('2 rows may be deleted; later runs check them.');
  });

  it('says how much a run in progress has read and written', async () => {
    const settings = loadSettings({ file: world.config, env: {} });
    await using watched = watchSinks([...settings.connectors.values()], systemClock);
    const name = [...settings.connectors.keys()].find((one) => one === 'archive');
    const connector = name === undefined ? undefined : settings.connectors.get(name);
    if (connector === undefined) throw new Error('no archive');
    const data = await readConnectorPage(settings, connector, watched, { nowMs: Date.now(), shown: 50 });
    if (data.kind !== 'read' || data.past.runs[0] === undefined) throw new Error('nothing was read');
    const [run] = data.past.runs;
    const [entity] = connector.entities.keys();
    if (entity === undefined) throw new Error('no entity');
    const counts = [{ ...noCounts, entity, fetched: 3210, duplicate: 10, inserted: 3200 }];
    const section = textOf(String(progressSection({ run, counts, isLost: false }, data)));
    expect(section).toMatch(/UTC \. .* 3,200 3,200 /);
  });

  it('is 503 with the reason where its sink cannot be read, and 404 where there is none of the name', async () => {
    expect(textOf(await page('/connectors/warehouse', 503))).toContain('127.0.0.1:1');
    for (const path of [
      '/connectors/nope',
      '/connectors/..%2f..',
      '/runs/nope',
      '/targets/nope',
      '/nope',
      '/a/b/c',
    ]) {
      expect(textOf(await page(path, 404))).toContain('There is no such page');
    }
  });
});

// Proves promise 10.3
it('shows texts from outside as text, on every page', async () => {
  const [noted = ''] = await world.runsOf('team-notes');
  const shown: readonly (readonly [string, number])[] = [
    ['/', 200],
    ['/connectors/team-notes', 200],
    ['/connectors/leads', 200],
    ['/connectors/archive', 200],
    ['/actions', 200],
    [`/runs/${noted}`, 200],
    [`/find?find=${encodeURIComponent(script)}`, 200],
    [`/data/newsletter/lists?key.id=${encodeURIComponent(script)}`, 200],
    [`/?q=${encodeURIComponent(script)}`, 200],
    [`/connectors/${encodeURIComponent(script)}`, 404],
  ];
  for (const [path, status] of shown) {
    const body = await page(path, status);
    expect([path, body.includes('alert(1)')]).toEqual([path, true]);
    const scripts = [...body.matchAll(/<script[^>]*>/g)].map(([tag]) => tag);
    expect(
      scripts.filter((tag) => !/^<script src="\.\.?\/live\.js" data-live="\.\.?\/live" defer>$/.test(tag)),
    ).toEqual([]);
  }
});

it('says on every page what is wrong with the whole process, and not to who is to log in first', () => {
  const world = { ...pageWorld, problem: `first\n${script}` };
  const shown = problemPage('./', 'There is no such page', 'Nothing.', { ...world, config: 'sync.yaml' });
  expect(shown).toMatch(/role="alert">\s*<p>first<\/p><p>&lt;script src/);
  expect(problemPage('./', 'Log in', 'Please.', { ...world, config: null })).not.toContain('first');
});

it('asks nothing of other origins, has nothing inline, and works below any path', async () => {
  const [run = ''] = await world.runsOf('newsletter');
  for (const path of [
    '/',
    '/connectors/newsletter',
    `/runs/${run}`,
    '/data/newsletter/lists',
    '/actions',
    '/targets/lake',
  ]) {
    const { body, headers } = await ui.get(path);
    expect(headers['content-security-policy']).toBe(
      "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    );
    expect(body).not.toMatch(/<[^>]+ (?:style|on\w+)=|<style|<script>/);
    const addresses = [...body.matchAll(/ (?:href|src|action|data-live)="([^"]*)"/g)].map(
      ([, address = '']) => address,
    );
    expect(addresses.filter((address) => !/^[.\w]/.test(address) || address.includes(':'))).toEqual([]);
  }
  expect((await ui.get('/robots.txt')).body).toContain('Disallow: /');
  for (const file of ['/style.css', '/live.js', '/icon.svg']) expect((await ui.get(file)).status).toBe(200);
  expect((await ui.get('/style.css')).body).not.toMatch(/url\(|@import|https?:/);
});

it('says of a purged record by whom and when', async () => {
  await world.cli('purge', 'newsletter/lists', '--key', 'id=forgotten');
  expect(textOf(await page('/data/newsletter/lists?key.id=forgotten'))).toMatch(
    /It was purged at \S+ by \S+; syncs do not store it again\./,
  );
});
