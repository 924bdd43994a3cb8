import { hash } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject } from '../../src/core/json.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { seededRandom } from '../support/seeded-random.ts';
import {
  errorWithOk,
  type FakeDesk,
  type FakeDeskOptions,
  startFakeDesk,
} from '../support/upstream/made-up/fake-desk.ts';
import { deskRows } from '../support/upstream/made-up/desk-rows.ts';

const desks: FakeDesk[] = [];
async function openDesk(options: FakeDeskOptions = {}): Promise<FakeDesk> {
  const desk = await startFakeDesk(options);
  desks.push(desk);
  return desk;
}
afterEach(async () => {
  for (const desk of desks.splice(0)) await desk[Symbol.asyncDispose]();
});

const ask = (desk: FakeDesk, path: string, init: RequestInit = {}) =>
  fetch(path.startsWith('http') ? path : `${desk.baseUrl}${path}`, {
    redirect: 'manual',
    ...init,
    headers: { authorization: `Bearer ${desk.key}`, ...(init.headers as Record<string, string>) },
  });

interface Page {
  readonly rows: readonly JsonObject[];
  readonly body: JsonObject | readonly JsonObject[];
  readonly headers: Headers;
}

async function pageOf(desk: FakeDesk, path: string, init: RequestInit = {}): Promise<Page> {
  const answer = await ask(desk, path, init);
  const body = (await answer.json()) as JsonObject | readonly JsonObject[];
  const arrays = Array.isArray(body)
    ? [body]
    : Object.values(body as JsonObject).flatMap((one) => (isJsonObject(one) ? Object.values(one) : [one]));
  const rows = arrays.find((one): one is readonly JsonObject[] => Array.isArray(one)) ?? [];
  return { rows, body, headers: answer.headers };
}

const membersOf = ({ body }: Page): JsonObject => body as JsonObject;

/** Each kind of paging, walked as its documentation would say. Gives the next page's request, or null at the end. */
const walks: Readonly<
  Record<string, (page: Page | null, seen: number) => readonly [string, RequestInit?] | null>
> = {
  agents: (page, seen) => {
    const isEnd = page !== null && seen >= Number(page.headers.get('x-total-count'));
    return isEnd ? null : [`/agents?per_page=7&page=${seen / 7 + 1}`];
  },
  tickets: (page) => {
    if (page !== null && membersOf(page)['has_more'] !== true) return null;
    const after = page === null ? '' : `&starting_after=${textOf(page.rows.at(-1)?.['id'])}`;
    return [`/tickets?limit=7${after}`];
  },
  customers: (page) => {
    const { next } = (page === null ? { next: '/customers?size=7' } : membersOf(page)['links']) as JsonObject;
    return typeof next === 'string' ? [next] : null;
  },
  events: (page) => {
    if (page === null) return ['/events?limit=7'];
    const next = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    return next === undefined ? null : [next];
  },
  articles: (page) => {
    const next = page === null ? null : textOf((membersOf(page)['page'] as JsonObject)['next']);
    if (next === '') return null;
    const body = JSON.stringify({ page: { size: 7, ...(next === null ? {} : { after: next }) } });
    return ['/articles/query', { method: 'POST', headers: { 'content-type': 'application/json' }, body }];
  },
  invoices: (page, seen) =>
    page !== null && seen >= Number(membersOf(page)['total'])
      ? null
      : [`/invoices?maxResults=7&startAt=${seen}`],
  reviews: (page) => {
    const next = page === null ? '/api/reviews?limit=7' : membersOf(page)['next_page_uri'];
    return typeof next === 'string' ? [next.slice('/api'.length)] : null;
  },
  parcels: (page) => {
    const next = page === null ? '/api/parcels?limit=7' : membersOf(page)['next'];
    return typeof next === 'string' ? [next.slice('/api'.length)] : null;
  },
  messages: (page) => {
    if (page !== null && page.headers.get('x-has-more') !== 'true') return null;
    const cursor = page === null ? '' : `?cursor=${page.headers.get('x-next-cursor')}`;
    return [`/messages${cursor}`, { headers: { 'x-page-size': '7' } }];
  },
};

async function walk(desk: FakeDesk, entity: string): Promise<readonly JsonObject[]> {
  const found: JsonObject[] = [];
  let page: Page | null = null;
  for (let pages = 0; pages < 50; pages += 1) {
    const next: readonly [string, RequestInit?] | null = walks[entity]?.(page, found.length) ?? null;
    if (next === null) return found;
    page = await pageOf(desk, ...next);
    found.push(...page.rows);
  }
  throw new Error('the walk did not end');
}

describe('the made-up help desk', () => {
  it.each(Object.keys(walks))('lists its %s page by page', async (entity) => {
    const desk = await openDesk();
    expect(await walk(desk, entity)).toEqual(desk.rows(entity));
  });

  it.each(['tickets', 'customers', 'events', 'articles', 'messages', 'reviews', 'parcels'])(
    'shows every one of the %s that stays, while others come and go between the pages',
    async (entity) => {
      for (const seed of [1, 2, 3]) {
        const random = seededRandom(seed);
        const staying = deskRows(entity, 40);
        let rows = [...staying];
        let made = 0;
        const desk = await openDesk({
          rows: () => {
            const extra = (row: JsonObject): boolean => !staying.includes(row);
            rows = rows.filter((row) => !extra(row) || random() < 0.6);
            for (let count = Math.floor(random() * 4); count > 0; count -= 1) {
              const row = { id: `new_${(made += 1)}`, title: 'passing by' };
              rows.splice(Math.floor(random() * (rows.length + 1)), 0, row);
            }
            return [...rows];
          },
        });
        const found = new Set((await walk(desk, entity)).map(({ id }) => id));
        expect(staying.filter(({ id }) => !found.has(id ?? null))).toEqual([]);
      }
    },
  );

  it('takes its key in a header, in the query, by basic authentication and as a token', async () => {
    const desk = await openDesk();
    const basic = Buffer.from(`${desk.user}:${desk.key}`).toString('base64');
    const ways: readonly (readonly [string, Record<string, string>])[] = [
      ['', { 'x-desk-key': `Key ${desk.key}` }],
      [`?apikey=${desk.key}`, {}],
      ['', { authorization: `Basic ${basic}` }],
      ['', { authorization: `Bearer ${desk.key}` }],
      ['', { authorization: `Bearer ${desk.oauth.tokens().accessToken}` }],
    ];
    for (const [query, headers] of ways) {
      const answer = await fetch(`${desk.baseUrl}/account${query}`, { headers });
      expect(await answer.json()).toMatchObject({ account: { id: desk.accountId } });
    }
    expect((await fetch(`${desk.baseUrl}/account`)).status).toBe(401);
    expect(JSON.stringify(desk.requests)).not.toContain(desk.key);
  });

  it('ends access tokens, and renews them for a form with the right client', async () => {
    const { oauth, origin, baseUrl } = await openDesk();
    const { accessToken, refreshToken } = oauth.tokens();
    oauth.expireAccessTokens();
    const withToken = (token: string) =>
      fetch(`${baseUrl}/account`, { headers: { authorization: `Bearer ${token}` } });
    expect((await withToken(accessToken)).status).toBe(401);
    const refresh = (secret: string) =>
      fetch(`${origin}/oauth/token`, {
        method: 'POST',
        body: new URLSearchParams({
          grant_type: 'refresh_token',
          refresh_token: refreshToken,
          client_id: oauth.clientId,
          client_secret: secret,
        }),
      });
    expect((await refresh('wrong')).status).toBe(401);
    const renewed = (await (await refresh(oauth.clientSecret)).json()) as JsonObject;
    expect((await withToken(textOf(renewed['access_token']))).status).toBe(200);
    expect(oauth.refreshes()).toBe(1);
  });

  it('keeps its files behind redirects, and notes whether a credential came along', async () => {
    const desk = await openDesk();
    const [attachment] = desk.rows('attachments');
    const id = textOf(attachment?.['id']);
    const moved = await ask(desk, `/attachments/${id}/content`);
    const location = moved.headers.get('location') ?? '';
    expect([moved.status, new URL(location).origin]).toEqual([302, desk.origin]);
    const bytes = Buffer.from(await (await fetch(location)).arrayBuffer());
    expect(hash('sha256', bytes)).toBe(attachment?.['checksum']);
    expect(desk.fileRequests().map(({ credential }) => credential)).toEqual(['none', 'none']);
    await fetch(location, { headers: { 'x-desk-key': 'Key of another' } });
    expect(desk.fileRequests().at(-1)?.credential).toBe('right');
    const { file } = (await (await ask(desk, `/attachments/${id}/link`)).json()) as { file: JsonObject };
    expect(file['href']).toBe(location);
  });

  it('reports errors inside a 200', async () => {
    const desk = await openDesk();
    desk.script({ effect: errorWithOk('ratelimited') });
    const answer = await ask(desk, '/account');
    expect([answer.status, await answer.json()]).toEqual([200, { ok: false, error: 'ratelimited' }]);
  });
});
