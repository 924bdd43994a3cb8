import { afterAll, beforeAll, expect, it } from 'vitest';
import { requestsOf } from '../../src/app/user-actions.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import { actionsPage } from '../../src/page/actions-page.ts';
import { problemPage } from '../../src/page/layout.ts';
import type { NotedAction } from '../../src/sinks/requests.ts';
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

it('is 404 where there is no such page', async () => {
  for (const path of ['/connectors/nope', '/connectors/..%2f..', '/runs/nope', '/targets/nope', '/nope']) {
    expect(textOf(await page(path, 404))).toContain('There is no such page');
  }
  expect(textOf(await page('/a/b/c', 404))).toContain('There is no such page');
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
    expect(scripts.filter((tag) => !/^<script src="(\.\.?\/)+console\.js" defer>$/.test(tag))).toEqual([]);
  }
});

it('says on every page what is wrong with the whole process, and not to who is to log in first', () => {
  const world = { ...pageWorld, problem: `first\n${script}` };
  const shown = problemPage('./', 'There is no such page', 'Nothing.', { ...world, config: 'sync.yaml' });
  expect(shown).toMatch(/role="alert">\s*<p>first<\/p><p>&lt;script src/);
  expect(problemPage('./', 'Log in', 'Please.', { ...world, config: null })).not.toContain('first');
});

it('shows a request for several entities as one line, with the sums of its numbers', () => {
  const action = (id: number, entity: string, records: number): NotedAction => ({
    id,
    at: `2026-11-28T08:00:0${id}.000Z`,
    who: 'anna',
    action: 'purge',
    connector: 'crm' as ConnectorName,
    entity: entity as EntityName,
    detail: { records, canReturn: false },
    run: null,
  });
  // The entity of the last one stands among them already: it was another request.
  const all = [action(4, 'deals', 1), action(3, 'people', 2), action(2, 'notes', 4), action(1, 'deals', 8)];
  const found = { isFiltered: false, isMore: false, isCut: false, unreadable: [] };
  const query = { who: '', q: '', on: '', shown: 100 };
  const shown = textOf(actionsPage({ ...found, actions: [...requestsOf(all)] }, query, pageWorld));
  expect(shown).toMatch(/crm 3 entities: notes, people, deals, records: 7, canReturn: false/);
  expect(shown).toMatch(/crm deals, records: 8, canReturn: false/);
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
    expect(addresses.filter((address) => !/^[.\w#?]/.test(address) || address.includes(':'))).toEqual([]);
  }
  expect((await ui.get('/robots.txt')).body).toContain('Disallow: /');
  for (const file of ['/style.css', '/console.js', '/icon.svg']) {
    expect((await ui.get(file)).status).toBe(200);
  }
  expect((await ui.get('/style.css')).body).not.toMatch(/url\(|@import|https?:/);
});

it('says of a purged record by whom and when', async () => {
  await world.cli('purge', 'newsletter/lists', '--key', 'id=forgotten');
  expect(textOf(await page('/data/newsletter/lists?key.id=forgotten'))).toMatch(
    /It was purged at \S+ by \S+; syncs do not store it again\./,
  );
});
