import { expect, it } from 'vitest';
import {
  cutBody,
  errorInside200,
  gzipBomb,
  edgePage,
  instead,
  redirectTo,
} from '../../support/upstream/faults.ts';
import { text } from '../../support/hostile/replies.ts';
import type { Effect } from '../../support/upstream/fake-server.ts';
import { mailchimpFaults } from '../../support/upstream/mailchimp.ts';
import { notionFaults } from '../../support/upstream/notion.ts';
import { opened, refusalOf, serveWorlds } from '../../support/upstream/served-world.ts';
import { mailchimpWorld, notionWorld } from '../../support/upstream/upstream-world.ts';

/** Status, error code, words of the text, Retry-After. */
type Row = readonly [title: string, Effect, number, string, RegExp, (string | null)?];

const mailing: readonly Row[] = [
  [
    '400 Bad Request of the network',
    mailchimpFaults.edgeMalformed,
    429,
    'upstream_throttled',
    /network in front of/,
    '60',
  ],
  [
    '400 Invalid Resource',
    mailchimpFaults.invalidResource,
    400,
    'upstream_refused',
    /is no member of this list/,
  ],
  [
    '401',
    mailchimpFaults.keyInvalid,
    401,
    'upstream_unauthorized',
    /does not take the credentials of this connector: The API key/,
  ],
  [
    '403 Wrong Datacenter',
    mailchimpFaults.wrongDatacenter,
    401,
    'upstream_unauthorized',
    /another data center/,
  ],
  ['403 User Disabled', mailchimpFaults.userDisabled, 401, 'upstream_unauthorized', /deactivated/],
  ['403 Forbidden', mailchimpFaults.forbidden, 403, 'upstream_forbidden', /role of this user.*billing would/],
  [
    '403 about connections',
    mailchimpFaults.simultaneousConnections,
    429,
    'upstream_throttled',
    /simultaneous connections/,
  ],
  [
    '403 in HTML',
    edgePage(403),
    429,
    'upstream_throttled',
    /^refused by the network in front of 127.0.0.1:\d+ \(HTTP 403\)$/,
    '60',
  ],
  ['404', mailchimpFaults.notFound, 404, 'upstream_not_found', /could not be found/],
  ['405', mailchimpFaults.methodNotAllowed, 400, 'upstream_refused', /cannot be read/],
  ['414', mailchimpFaults.nestingTooDeep, 400, 'upstream_refused', /too many levels/],
  ['422', mailchimpFaults.requestedFieldsInvalid, 400, 'upstream_refused', /No such field/],
  ['426', mailchimpFaults.upgradeRequired, 400, 'upstream_refused', /newer TLS/],
  ['429 without Retry-After', mailchimpFaults.tooManyRequests, 429, 'upstream_throttled', /10 simultaneous/],
  [
    '429 with Retry-After',
    mailchimpFaults.tooManyRequestsRetryAfter('1.2'),
    429,
    'upstream_throttled',
    /Wait/,
    '2',
  ],
  [
    '429 for a day',
    mailchimpFaults.tooManyRequestsRetryAfter('86400'),
    429,
    'upstream_throttled',
    /Wait/,
    '3600',
  ],
  ['429 in bare text', mailchimpFaults.tooManyRequestsText, 429, 'upstream_throttled', /HTTP 429/],
  ['500', mailchimpFaults.internalError, 502, 'upstream_unavailable', /Something went wrong/],
  [
    '503 Compliance Related',
    mailchimpFaults.compliance,
    403,
    'upstream_forbidden',
    /switched off for the account/,
  ],
  ['503', mailchimpFaults.unavailable, 502, 'upstream_unavailable', /Try again later/],
  ['503 in HTML', edgePage(503), 429, 'upstream_throttled', /network in front of/, '60'],
  ['504', mailchimpFaults.gatewayTimeout, 504, 'upstream_timeout', /HTTP 504/],
  [
    'a redirect',
    redirectTo('http://127.0.0.2/elsewhere'),
    502,
    'upstream_unusable',
    /redirects to another address/,
  ],
  [
    'an answer that is no JSON',
    instead(text(200, '<html>secret-of-the-page</html>')),
    502,
    'upstream_unavailable',
    /JSON/,
  ],
  ['a cut body', cutBody('length'), 502, 'upstream_unavailable', /without a complete answer/],
  ['a body without end', gzipBomb(80_000_000), 502, 'upstream_too_large', /expected/],
  [
    'no array of records',
    errorInside200('invalid_token'),
    502,
    'upstream_unavailable',
    /expected an array of records/,
  ],
];

// Proves promise 17.1
it('answers for each failure of a mailing service with its own status, code and text, and no secret', async () => {
  const world = await opened(mailchimpWorld());
  const differences: unknown[] = [];
  for (const [title, effect, ...expected] of mailing) {
    // One service for each: what one failure slows down does not hold up the next.
    const served = await serveWorlds([world]);
    const id = await served.connect(world);
    world.fake.takeRequests();
    world.fake.script({ effect, times: 9 });
    const answer = await served.execute(id, { entity: 'lists', action: 'list', params: { count: 5 } });
    world.fake.heal();
    differences.push(...differenceOf(title, refusalOf(answer), expected));
    // The client tries again, and no layer below; but for a connection that breaks, once.
    expect([title, world.fake.takeRequests().length]).toEqual([title, title === 'a cut body' ? 2 : 1]);
    const shown = JSON.stringify([answer.body, [...answer.headers]]);
    expect([title, shown]).toEqual([
      title,
      expect.not.stringMatching(
        `${world.fake.apiKey}|secret-of-the-page|member@example|b79e1a05afb8|127.0.0.2`,
      ),
    ]);
    expect(served.failures).toEqual([]);
    await served.service.close();
  }
  expect(differences).toEqual([]);
});

const notes: readonly Row[] = [
  [
    '400 stale cursor',
    notionFaults.staleCursor,
    400,
    'upstream_stale_token',
    /start_cursor provided is invalid/,
  ],
  ['400 ai_block', notionFaults.aiBlock, 400, 'upstream_refused', /Block type ai_block is not supported/],
  ['400 unsupported', notionFaults.unsupportedBlock, 400, 'upstream_refused', /Block type unsupported/],
  ['400 archived', notionFaults.archivedBlock, 400, 'upstream_refused', /The block is archived/],
  ['400 invalid_json', notionFaults.invalidJson, 400, 'upstream_refused', /Error parsing JSON/],
  ['400 invalid_request', notionFaults.invalidRequest, 400, 'upstream_refused', /not supported/],
  [
    '401',
    notionFaults.unauthorized,
    401,
    'upstream_unauthorized',
    /credentials of this connector: API token is invalid/,
  ],
  ['403 restricted', notionFaults.restricted, 403, 'upstream_forbidden', /Insufficient permissions/],
  ['403 of the network', notionFaults.edge, 429, 'upstream_throttled', /network in front of/, '60'],
  ['404', notionFaults.notShared, 404, 'upstream_not_found', /Could not find block/],
  ['409', notionFaults.conflict, 502, 'upstream_unavailable', /data collision/],
  ['429', notionFaults.rateLimited('90'), 429, 'upstream_throttled', /rate limited/, '90'],
  ['429 without Retry-After', notionFaults.rateLimited(null), 429, 'upstream_throttled', /rate limited/],
  ['529', notionFaults.serviceOverload, 429, 'upstream_throttled', /overloaded/],
  ['500', notionFaults.internalError, 502, 'upstream_unavailable', /Something went wrong/],
  ['502', notionFaults.badGateway, 502, 'upstream_unavailable', /could not be completed/],
  ['503', notionFaults.unavailable, 502, 'upstream_unavailable', /is unavailable/],
  ['503 database', notionFaults.databaseUnavailable, 502, 'upstream_unavailable', /database/],
  ['504', notionFaults.gatewayTimeout, 504, 'upstream_timeout', /took too long/],
];

it('answers for each failure of a notes service likewise', async () => {
  const world = await opened(notionWorld());
  const differences: unknown[] = [];
  for (const [title, effect, ...expected] of notes) {
    const served = await serveWorlds([world]);
    const id = await served.connect(world);
    world.fake.takeRequests();
    world.fake.script({ effect, times: 9 });
    const answer = await served.execute(id, { entity: 'users', action: 'list' });
    world.fake.heal();
    differences.push(...differenceOf(title, refusalOf(answer), expected));
    expect([title, world.fake.takeRequests().length]).toEqual([title, 1]);
    expect(JSON.stringify([answer.body, [...answer.headers]])).not.toContain(world.fake.token);
    await served.service.close();
  }
  expect(differences).toEqual([]);
});

it('answers 404 to a get of what is not there', async () => {
  const world = await opened(notionWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world);
  const user_id = '11111111-2222-4333-8444-555555555555';
  const answer = await served.execute(id, { entity: 'users', action: 'get', params: { user_id } });
  expect(refusalOf(answer)).toMatchObject({ status: 404, code: 'not_found' });
});

function differenceOf(
  title: string,
  answer: ReturnType<typeof refusalOf>,
  [status, code, words, wait = null]: readonly [number, string, RegExp, (string | null)?],
): readonly unknown[] {
  const isSame =
    answer.status === status && answer.code === code && words.test(answer.text) && answer.retryAfter === wait;
  return isSame ? [] : [{ title, ...answer }];
}
