import { once } from 'node:events';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { endless, resetAfterHeaders, stallInBody } from '../support/hostile/broken-replies.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { revisingAccount, type RevisingAccount } from '../support/revising-account.ts';
import { sampleSeed } from '../support/sample-service.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import {
  bentBody,
  cutBody,
  edgePage,
  errorInside200,
  gzipBomb,
  gzippedUnasked,
  instead,
  nested,
  onPath,
  redirectTo,
  slowBody,
  withHeaders,
} from '../support/upstream/faults.ts';
import { type FakeMailchimp, startFakeMailchimp } from '../support/upstream/mailchimp/fake-mailchimp.ts';
import { mailchimpFaults } from '../support/upstream/mailchimp/mailchimp-errors.ts';
import { type FakeNotion, startFakeNotion } from '../support/upstream/notion/fake-notion.ts';
import { notionFaults } from '../support/upstream/notion/notion-errors.ts';

let mailing: RevisingAccount;
let mailchimp: FakeMailchimp;
let notion: FakeNotion;

beforeAll(async () => {
  mailing = revisingAccount({ definitionName: 'email-marketing', seed: sampleSeed, size: 'tiny' });
  mailchimp = await startFakeMailchimp({ account: mailing });
  const notes = createSampleAccount({ definitionName: 'workspace-notes', seed: sampleSeed, size: 'tiny' });
  notion = await startFakeNotion({ account: notes });
});
afterAll(async () => {
  await mailchimp[Symbol.asyncDispose]();
  await notion[Symbol.asyncDispose]();
});
afterEach(() => {
  mailchimp.heal();
  notion.heal();
  notion.shorten({});
});

const basic = (key = mailchimp.apiKey) => ({
  authorization: `Basic ${Buffer.from(`any:${key}`).toString('base64')}`,
});
const askMailchimp = (path: string, init: RequestInit = {}) =>
  fetch(`${mailchimp.baseUrl}${path}`, { redirect: 'manual', headers: basic(), ...init });
const askNotion = (path: string, body?: JsonObject) =>
  fetch(`${notion.baseUrl}${path}`, {
    headers: {
      authorization: `Bearer ${notion.token}`,
      'notion-version': '2025-09-03',
      'content-type': 'application/json',
    },
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
  });
const jsonOf = async (answer: Promise<Response>): Promise<JsonObject> =>
  (await (await answer).json()) as JsonObject;

describe('a scripted fault', () => {
  it('happens to the requests it is for, as often as it is to, after those it lets pass', async () => {
    mailchimp.script({ on: onPath('/lists'), after: 1, times: 2, effect: mailchimpFaults.tooManyRequests });
    const statuses: number[] = [];
    for (const path of ['/lists', '/campaigns', '/lists', '/lists', '/lists']) {
      statuses.push((await askMailchimp(path)).status);
    }
    expect(statuses).toEqual([200, 200, 429, 429, 200]);
  });

  it.each([
    ['429 without Retry-After', mailchimpFaults.tooManyRequests, 429, null],
    ['429 with Retry-After', mailchimpFaults.tooManyRequestsRetryAfter('7'), 429, '7'],
    ['the page of a network in front', edgePage(403), 403, null],
    ['403 for simultaneous connections', mailchimpFaults.simultaneousConnections, 403, null],
    ['another data center', mailchimpFaults.wrongDatacenter, 403, null],
    ['a disabled user', mailchimpFaults.userDisabled, 403, null],
    ['compliance', mailchimpFaults.compliance, 503, null],
    ['an error in a 200', errorInside200('invalid_token'), 200, null],
    ['another origin', redirectTo('http://127.0.0.1:9/lists'), 302, null],
    ['a gateway that gave up', mailchimpFaults.gatewayTimeout, 504, null],
  ])('answers with %s', async (_what, effect, status, retryAfter) => {
    mailchimp.script({ effect });
    const answer = await askMailchimp('/lists');
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([status, retryAfter]);
    expect(Object.keys(await jsonOf(askMailchimp('/lists')))).toContain('lists');
  });

  it('changes what the right answer says', async () => {
    mailchimp.script({ effect: bentBody(({ lists: _left, ...rest }) => rest) });
    mailchimp.script({ effect: withHeaders({ 'x-left': '0' }) });
    mailchimp.script({ effect: nested(5_000) });
    expect(Object.keys(await jsonOf(askMailchimp('/lists')))).not.toContain('lists');
    const right = await askMailchimp('/lists');
    expect(right.headers.get('x-left')).toBe('0');
    expect(Object.keys(await jsonOf(Promise.resolve(right)))).toContain('lists');
    expect(await (await askMailchimp('/lists')).text()).toMatch(/^\[{5000}\]{5000}$/);
    notion.script({ effect: notionFaults.incomplete });
    const walk = await jsonOf(askNotion('/search', { page_size: 1 }));
    expect(walk).toMatchObject({ has_more: false, request_status: { type: 'incomplete' } });
  });

  it('compresses an answer without a request for compression, and lets a small one grow', async () => {
    mailchimp.script({ effect: gzippedUnasked });
    mailchimp.script({ effect: gzipBomb(5_000_000) });
    const [small, bomb] = [await rawAnswer('/lists'), await rawAnswer('/lists')];
    expect([small.encoding, bomb.encoding]).toEqual(['gzip', 'gzip']);
    expect(bomb.bytes).toBeLessThan(20_000);
  });

  it.each([
    ['cut by its length', cutBody('length')],
    ['cut in its chunks', cutBody('chunks')],
    ['reset', instead(resetAfterHeaders)],
  ])('breaks a body off: %s', async (_how, effect) => {
    mailchimp.script({ effect });
    await expect(askMailchimp('/lists').then((answer) => answer.text())).rejects.toThrow();
    expect((await askMailchimp('/lists')).status).toBe(200);
  });

  it('sends a body slowly, never to its end, or without one', async () => {
    mailchimp.script({ effect: slowBody(400, 1) });
    expect(Object.keys(await jsonOf(askMailchimp('/lists')))).toContain('lists');
    for (const reply of [stallInBody, endless]) {
      mailchimp.script({ effect: instead(reply) });
      const leaving = new AbortController();
      const answer = await askMailchimp('/lists', { signal: leaving.signal });
      leaving.abort();
      await expect(answer.text()).rejects.toThrow();
    }
    expect((await askMailchimp('/lists')).status).toBe(200);
  });

  it.each([
    ['a stale cursor', notionFaults.staleCursor, 400, 'validation_error'],
    ['a limit without Retry-After', notionFaults.rateLimited(null), 429, 'rate_limited'],
    ['a missing capability', notionFaults.restricted, 403, 'restricted_resource'],
    ['an overload', notionFaults.serviceOverload, 529, 'service_overload'],
    ['a conflict', notionFaults.conflict, 409, 'conflict_error'],
  ])('makes Notion answer with %s', async (_what, effect, status, code) => {
    notion.script({ effect });
    const answer = await askNotion('/users');
    expect([answer.status, ((await answer.json()) as JsonObject)['code']]).toEqual([status, code]);
  });
});

describe('the made-up Mailchimp', () => {
  it('notes what was asked and whether with the right key, and no key', async () => {
    mailchimp.takeRequests();
    await askMailchimp('/lists?count=3&apikey=secret-in-the-query');
    await askMailchimp('/lists', { headers: basic('wrong-us1') });
    await askMailchimp('/lists', { headers: {} });
    const taken = mailchimp.takeRequests();
    expect(taken.map(({ credential, status }) => [credential, status])).toEqual([
      ['right', 200],
      ['wrong', 401],
      ['none', 401],
    ]);
    expect(taken[0]).toMatchObject({
      method: 'GET',
      path: '/3.0/lists',
      query: [
        ['count', '3'],
        ['apikey', '(hidden)'],
      ],
    });
    const printed = JSON.stringify(taken);
    for (const secret of ['secret-in-the-query', mailchimp.apiKey, 'wrong-us1', ...Object.values(basic())]) {
      expect(printed).not.toContain(secret);
    }
  });

  it('takes ten records for a page by default, and never more than a thousand', async () => {
    const [list] = sampleTruth(mailchimp.account, 'lists');
    const members = async (query: string) => {
      const body = await jsonOf(askMailchimp(`/lists/${textOf(list?.record['id'])}/members${query}`));
      return [(body['members'] as readonly unknown[]).length, body['total_items']];
    };
    expect(await members('')).toEqual([10, 23]);
    expect(await members('?count=5000')).toEqual([23, 23]);
    expect(await members('?count=5&offset=20')).toEqual([3, 23]);
    expect(await members('?count=0')).toEqual([0, 23]);
  });

  it('sends the fields that are asked for, and all but those that are not wanted', async () => {
    const chosen = await jsonOf(askMailchimp('/lists?fields=lists.id,lists.stats.member_count,total_items'));
    expect(Object.keys(chosen)).toEqual(['lists', 'total_items']);
    expect(chosen['lists']).toEqual(
      [...sampleTruth(mailchimp.account, 'lists')].map(({ record }) => ({
        id: record['id'],
        stats: { member_count: (record['stats'] as JsonObject)['member_count'] },
      })),
    );
    const rest = await jsonOf(askMailchimp('/lists?exclude_fields=lists._links,_links'));
    expect(JSON.stringify(rest)).not.toContain('_links');
  });

  it('refuses the eleventh connection at a time', async () => {
    const release = mailchimp.hold();
    const first = mailchimp.requests.length;
    const calls = Array.from({ length: 11 }, async () => (await askMailchimp('/ping')).status);
    await mailchimp.arrived(first + 11);
    release();
    const statuses = await Promise.all(calls);
    expect(statuses.filter((status) => status !== 200)).toEqual([429]);
    expect(mailchimp.peak()).toBe(11);
  });

  it('goes from revision to revision between two calls', async () => {
    const names = async () =>
      JSON.stringify((await jsonOf(askMailchimp('/lists?fields=lists.name')))['lists']);
    const before = await names();
    mailing.moveTo(9);
    expect(await names()).not.toBe(before);
    mailing.moveTo(0);
    expect(await names()).toBe(before);
  });

  it('survives a client that disconnects in the middle of an answer', async () => {
    const release = mailchimp.hold();
    const count = mailchimp.requests.length;
    const call = httpRequest(`${mailchimp.baseUrl}/lists`, { headers: basic() });
    call.on('error', () => undefined);
    call.end();
    await mailchimp.arrived(count + 1);
    const closed = new Promise((resolve) => call.once('close', resolve));
    call.destroy();
    await closed;
    release();
    expect((await askMailchimp('/lists')).status).toBe(200);
  });

  it('tells an app by its token where the account lives, and answers a wrong one with 200', async () => {
    const asked = (token: string) =>
      jsonOf(fetch(`${mailchimp.origin}/oauth2/metadata`, { headers: { authorization: `OAuth ${token}` } }));
    expect(await asked(mailchimp.accessToken)).toMatchObject({ dc: 'us1' });
    expect(await asked('wrong')).toEqual({ error: 'invalid_token' });
  });
});

describe('the made-up Notion', () => {
  it('refuses what it does not know in a query or body, and a sort without its timestamp', async () => {
    const refused = [
      await askNotion('/users?colour=red'),
      await askNotion('/users?page_size=101'),
      await askNotion('/search', { start_cursor: null }),
      await askNotion('/search', { limit: 3 }),
      await askNotion('/search', { sort: { direction: 'ascending' } }),
      await askNotion('/pages/not-an-id'),
    ];
    expect(refused.map(({ status }) => status)).toEqual([400, 400, 400, 400, 400, 400]);
    expect((await askNotion('/search', {})).status).toBe(200);
  });

  it('refuses more requests than its limit, and says how long to wait', async () => {
    const account = createSampleAccount({
      definitionName: 'workspace-notes',
      seed: sampleSeed,
      size: 'tiny',
    });
    await using busy = await startFakeNotion({ account, limit: { requests: 2, perMs: 60_000 } });
    const me = () =>
      fetch(`${busy.baseUrl}/users/me`, {
        headers: { authorization: `Bearer ${busy.token}`, 'notion-version': '2025-09-03' },
      });
    const answers = [await me(), await me(), await me()];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(answers[2]?.headers.get('retry-after')).toBe('60');
  });

  it('gives cursors for one listing, and expires them on request', async () => {
    const first = await jsonOf(askNotion('/search', { page_size: 2 }));
    const cursor = textOf(first['next_cursor']);
    expect((await askNotion('/search', { page_size: 5, start_cursor: cursor })).status).toBe(200);
    expect((await askNotion(`/users?start_cursor=${cursor}`)).status).toBe(400);
    notion.expireCursors();
    expect(await jsonOf(askNotion('/search', { start_cursor: cursor }))).toMatchObject({
      code: 'validation_error',
      message: expect.stringContaining('start_cursor provided is invalid') as unknown,
    });
  });

  it('shortens pages and leaves some empty, with more to come, and still shows every record once', async () => {
    notion.shorten({ atMost: 2, isEveryOtherEmpty: true });
    const found: unknown[] = [];
    let cursor: unknown = undefined;
    let empty = 0;
    for (let more = true; more;) {
      const page = await jsonOf(
        askNotion('/search', cursor === undefined ? {} : { start_cursor: cursor as string }),
      );
      const results = page['results'] as readonly JsonObject[];
      if (results.length === 0) empty += 1;
      found.push(...results.map(({ id }) => id));
      ({ next_cursor: cursor, has_more: more } = page as { next_cursor: unknown; has_more: boolean });
    }
    const all = ['pages', 'data_sources'].flatMap((entity) => [...sampleTruth(notion.account, entity)]);
    expect(found).toHaveLength(all.length);
    expect(new Set(found)).toEqual(new Set(all.map(({ record }) => record['id'])));
    expect(empty).toBeGreaterThan(1);
  });

  it('gives an app a new pair of tokens for its refresh token, once', async () => {
    const { oauth } = notion;
    const { refreshToken } = oauth.tokens();
    const refresh = () =>
      fetch(`${notion.baseUrl}/oauth/token`, {
        method: 'POST',
        headers: {
          authorization: `Basic ${Buffer.from(`${oauth.clientId}:${oauth.clientSecret}`).toString('base64')}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ grant_type: 'refresh_token', refresh_token: refreshToken }),
      });
    oauth.expireAccessTokens();
    const renewed = await jsonOf(refresh());
    expect(renewed['refresh_token']).not.toBe(refreshToken);
    expect(oauth.takes(textOf(renewed['access_token']))).toBe(true);
    expect(await jsonOf(refresh())).toMatchObject({ error: 'invalid_grant' });
  });
});

/** Without fetch, which asks for compression and undoes it. */
async function rawAnswer(path: string): Promise<{ readonly encoding: string; readonly bytes: number }> {
  const call = httpRequest(`${mailchimp.baseUrl}${path}`, { headers: basic() });
  call.end();
  const [response] = (await once(call, 'response')) as [IncomingMessage];
  let bytes = 0;
  for await (const chunk of response) bytes += (chunk as Buffer).length;
  return { encoding: response.headers['content-encoding'] ?? '', bytes };
}
