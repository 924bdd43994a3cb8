import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { ErrorRule, FailureClass, Wait } from '../../src/definitions/upstream/upstream-file.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import {
  failureOf,
  never,
  openTestAccount,
  secretToken,
  things,
} from '../support/third-party/open-test-account.ts';
import { startThirdParty, type Reply } from '../support/third-party/start-third-party.ts';

const list = { entity: things, params: {} };
const problem = { 'content-type': 'application/problem+json' };
const html = { 'content-type': 'text/html' };

function rule(failureClass: FailureClass, some: Partial<Omit<ErrorRule, 'then'>> = {}): ErrorRule {
  const conditions = {
    status: null,
    where: [],
    contains: null,
    hasHeader: null,
    lacksHeader: null,
    entity: null,
  };
  // oxlint-disable-next-line no-thenable -- it is a word of the definitions.
  return { ...conditions, ...some, then: failureClass };
}

const mailing = builtInDefinition('email-marketing').upstream?.errors ?? [];
const notes = builtInDefinition('workspace-notes').upstream?.errors ?? [];

async function failing(reply: Reply, upstream: Parameters<typeof openTestAccount>[0]['upstream'] = {}) {
  const server = await startThirdParty(() => reply);
  const account = openTestAccount({ baseUrl: server.origin, upstream });
  const failure = await failureOf(account.list(list, never));
  expect(server.requests).toHaveLength(1);
  return { failure, host: new URL(server.origin).host };
}

describe('an error of the mailing service', () => {
  it.each([
    [400, 'Bad Request', 'refused'],
    [400, 'Invalid Resource', 'refused'],
    [401, 'API Key Invalid', 'unauthorized'],
    [403, 'Wrong Datacenter', 'unauthorized'],
    [403, 'User Disabled', 'unauthorized'],
    [403, 'Forbidden', 'forbidden'],
    [404, 'Resource Not Found', 'notFound'],
    [405, 'Method Not Allowed', 'refused'],
    [414, 'Resource Nesting Too Deep', 'refused'],
    [422, 'Requested Fields Invalid', 'refused'],
    [426, 'TLS Version', 'refused'],
    [429, 'Too Many Requests', 'throttled'],
    [500, 'Internal Server Error', 'unavailable'],
    [502, 'Bad Gateway', 'unavailable'],
    [503, 'Compliance Related', 'forbidden'],
    [504, 'Gateway Timeout', 'unavailable'],
  ])('%s %s is %s', async (status, title, failureClass) => {
    const body = { type: 'about:blank', title, status, detail: `It says ${title}.`, instance: 'x' };
    const { failure } = await failing({ status, headers: problem, body }, { errors: mailing });
    expect(failure).toMatchObject({
      class: failureClass,
      status,
      reason: 'answer',
      text: `It says ${title}.`,
      waitMs: null,
    });
  });

  it('that only speaks of simultaneous connections is throttled, JSON or not', async () => {
    const detail = 'You have more than 10 Simultaneous Connections.';
    const told = await failing({ status: 403, body: { detail } }, { errors: mailing });
    expect(told.failure).toMatchObject({ class: 'throttled', text: detail });
    const bare = await failing({ status: 403, headers: html, body: detail }, { errors: mailing });
    expect(bare.failure).toMatchObject({ class: 'throttled' });
    expect(bare.failure.text).not.toContain('Simultaneous');
  });

  it.each([400, 403, 503])(
    'that is a page of HTML with %s comes from the network in front of it',
    async (status) => {
      const { failure, host } = await failing(
        { status, headers: html, body: '<h1>Access denied</h1> ray 12' },
        { errors: mailing },
      );
      const text = `refused by the network in front of ${host} (HTTP ${status})`;
      expect(failure).toMatchObject({ class: 'edge', status, waitMs: 60_000, text });
    },
  );

  it('that is JSON of the type text/html is an error of the service, not of a network before it', async () => {
    const { failure } = await failing({ status: 400, headers: html, body: '{"detail":"no such field"}' });
    expect(failure).toMatchObject({ class: 'refused', text: 'no such field' });
  });

  it('that is bare text at a very high volume is throttled', async () => {
    const { failure, host } = await failing({
      status: 429,
      headers: { 'content-type': 'text/plain' },
      body: 'slow down',
    });
    expect(failure).toMatchObject({ class: 'throttled', text: `${host} answered with HTTP 429` });
  });
});

describe('an error of the notes service', () => {
  it.each([
    [400, 'validation_error', 'The start_cursor provided is invalid: abc.', 'staleToken'],
    [400, 'validation_error', 'Block type ai_block is not supported via the API.', 'refused'],
    [400, 'invalid_json', 'Error parsing JSON body.', 'refused'],
    [400, 'missing_version', 'Notion-Version header should be defined', 'refused'],
    [401, 'unauthorized', 'API token is invalid.', 'unauthorized'],
    [403, 'restricted_resource', 'Insufficient permissions for this endpoint.', 'forbidden'],
    [404, 'object_not_found', 'Could not find page. Make sure it is shared.', 'notFound'],
    [409, 'conflict_error', 'Conflict occurred while saving.', 'unavailable'],
    [429, 'rate_limited', 'You have been rate limited.', 'throttled'],
    [500, 'internal_server_error', 'Unexpected error occurred.', 'unavailable'],
    [502, 'bad_gateway', 'Bad gateway.', 'unavailable'],
    [503, 'service_unavailable', 'Public API service is temporarily unavailable.', 'unavailable'],
    [504, 'gateway_timeout', 'Timed out.', 'unavailable'],
    [529, 'service_overload', 'Overloaded.', 'throttled'],
  ])('%s %s "%s" is %s', async (status, code, message, failureClass) => {
    const body = { object: 'error', status, code, message, request_id: 'r' };
    const { failure } = await failing(
      { status, headers: { 'x-notion-request-id': 'r' }, body },
      { errors: notes },
    );
    expect(failure).toMatchObject({ class: failureClass, status, text: message });
  });

  it('that did not reach the service comes from the network in front of it', async () => {
    const body = { message: 'blocked' };
    const edge = await failing({ status: 403, headers: { 'cf-ray': '1' }, body }, { errors: notes });
    expect(edge.failure).toMatchObject({ class: 'edge' });
    const own = await failing(
      { status: 403, headers: { 'cf-ray': '1', 'x-notion-request-id': 'r' }, body },
      { errors: notes },
    );
    expect(own.failure).toMatchObject({ class: 'forbidden', text: 'blocked' });
  });
});

describe('a rule', () => {
  it('counts before those behind it and before the defaults, and only where all its conditions hold', async () => {
    const errors = [
      rule('throttled', {
        status: 400,
        entity: things,
        where: [{ path: ['errors', '0', 'reason'], is: 'rate' }],
      }),
      rule('quota', { status: 400, contains: 'over' }),
      rule('unavailable', { status: 400 }),
    ];
    const classOf = async (body: object): Promise<string> =>
      (await failing({ status: 400, body }, { errors })).failure.class;
    expect(await classOf({ message: 'over', errors: [{ reason: 'rate' }] })).toBe('throttled');
    expect(await classOf({ message: 'Quota Over', errors: [{ reason: 'other' }] })).toBe('quota');
    expect(await classOf({ message: 'else' })).toBe('unavailable');
  });

  it('reads errors inside a 200', async () => {
    const failed = { path: ['ok'], is: false, code: ['error'] };
    const errors = [
      rule('unauthorized', { contains: 'invalid_auth' }),
      rule('throttled', { contains: 'ratelimited' }),
    ];
    const code = async (error: string) =>
      (await failing({ body: { ok: false, error } }, { failed, errors })).failure;
    expect(await code('invalid_auth')).toMatchObject({
      class: 'unauthorized',
      status: 200,
      text: 'invalid_auth',
    });
    expect(await code('ratelimited')).toMatchObject({ class: 'throttled' });
    expect(await code('odd')).toMatchObject({ class: 'refused', text: 'odd' });
  });

  it('takes a 200 with any error for a failure where it names no value', async () => {
    const failed = { path: ['error'], is: null, code: ['error'] };
    const { failure } = await failing({ body: { items: [], error: 'invalid_token' } }, { failed });
    expect(failure).toMatchObject({ class: 'refused', text: 'invalid_token' });
    const server = await startThirdParty(() => ({ body: { items: [], error: null } }));
    const account = openTestAccount({ baseUrl: server.origin, upstream: { failed } });
    expect((await account.list(list, never)).records).toEqual([]);
  });
});

describe('the wait', () => {
  const date = 'Tue, 03 Feb 2026 10:00:00 GMT';
  const unix = Date.parse(date) / 1_000;
  const header = (format: 'seconds' | 'milliseconds' | 'unix' | 'httpDate'): Wait => ({
    kind: 'header',
    header: 'x-wait',
    format,
  });
  it.each<[string, readonly Wait[], Readonly<Record<string, string>>, number | null]>([
    ['of Retry-After without a rule', [], { 'retry-after': '7' }, 7_000],
    ['of a date without a rule', [], { 'retry-after': 'Tue, 03 Feb 2026 10:00:09 GMT' }, 9_000],
    ['in seconds', [header('seconds')], { 'x-wait': '1.5' }, 1_500],
    ['in milliseconds', [header('milliseconds')], { 'x-wait': '250' }, 250],
    ['until a unix time', [header('unix')], { 'x-wait': String(unix + 20) }, 20_000],
    ['until a unix time that has passed', [header('unix')], { 'x-wait': String(unix - 20) }, 0],
    ['until an HTTP date', [header('httpDate')], { 'x-wait': 'Tue, 03 Feb 2026 10:01:00 GMT' }, 60_000],
    ['that is constant', [{ kind: 'constant', seconds: 30 }], {}, 30_000],
    [
      'of the first header that is there',
      [header('seconds'), { kind: 'constant', seconds: 30 }],
      { 'x-wait': '2' },
      2_000,
    ],
    [
      'behind a header that cannot be read',
      [header('seconds'), { kind: 'constant', seconds: 30 }],
      { 'x-wait': 'soon' },
      30_000,
    ],
    ['of a day is an hour', [header('seconds')], { 'x-wait': '86400' }, 3_600_000],
    ['that nothing names is null', [header('seconds')], { 'retry-after': '7' }, null],
    ['below zero is none', [header('seconds')], { 'x-wait': '-5' }, null],
  ])('%s', async (_what, retryAfter, headers, waitMs) => {
    const { failure } = await failing(
      { status: 429, headers: { date, ...headers }, body: {} },
      { retryAfter },
    );
    expect(failure).toMatchObject({ class: 'throttled', waitMs });
  });
});

describe('the text of a failure', () => {
  it('holds no secret, no e-mail address and no hash, and is short', async () => {
    const detail = `Token ${secretToken} of aunt.em@example.com, hash d41d8cd98f00b204e9800998ecf8427e. ${'x '.repeat(1_000)}`;
    const { failure } = await failing({ status: 403, body: { detail } });
    expect(failure.text).not.toMatch(/planted|example\.com|d41d8/);
    expect(failure.text.length).toBeLessThanOrEqual(300);
    expect(inspect(failure, { depth: 9, showHidden: true })).not.toContain(secretToken);
  });

  it('repeats nothing of a body that is no JSON, nor of a place that was not declared', async () => {
    const bare = await failing({ status: 500, headers: html, body: 'internal 10.0.0.7 stack' });
    expect(bare.failure.text).toBe(`${bare.host} answered with HTTP 500`);
    const other = await failing({ status: 500, body: { debug: 'internal 10.0.0.7' } });
    expect(other.failure.text).toBe(`${other.host} answered with HTTP 500`);
  });
});
