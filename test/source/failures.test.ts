import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { type ErrorCode, type Recovery, ThrottledError } from '../../src/core/errors.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { ErrorPattern } from '../../src/definitions/definition.ts';
import type { FailureClass } from '../../src/definitions/upstream/upstream-file.ts';
import { callFacts } from '../../src/source/api/call-failure.ts';
import { classifyUpstream } from '../../src/source/direct/open-direct-source.ts';
import { UpstreamFailure, type FailureFacts } from '../../src/upstream/upstream-failure.ts';
import {
  closeBeforeHeaders,
  cutByClose,
  cutByLength,
  cutFailure,
  cutInChunks,
  drip,
  endless,
  garbage,
  hugeHeaders,
  resetAfterHeaders,
  resetBeforeHeaders,
  stallAfter,
  stallBeforeHeaders,
  stallInBody,
  type Reply,
  apiError,
  html,
  json,
  success,
  text,
  gzipBomb,
} from '../support/hostile/replies.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import {
  failureOf,
  never,
  openTestSource,
  type TestSource,
  type TestSourceOptions,
  openTestClient,
} from '../support/source/open-test-source.ts';
import { entityName, testDefinition } from '../support/source/test-definition.ts';

let open: TestSource;

const start = async (reply: Reply, options: TestSourceOptions = {}): Promise<TestSource> => {
  open = await openTestSource({ respond: () => reply, ...options });
  return open;
};

const list = (entity: string, isRoot = false, params = {}) => {
  return failureOf(open.source.list({ entity: entityName(entity), params, isRoot }, never));
};

describe('an answer of a child partition', () => {
  // Proves specification 7.6
  it.each<[string, Reply, ErrorCode, Recovery, number]>([
    ['400', apiError(400, 'Invalid value for sort_field'), 'REQUEST_REFUSED', 'skip-partition', 1],
    ['422', json(422, { detail: [{ msg: 'field required' }] }), 'REQUEST_REFUSED', 'skip-partition', 1],
    ['402', apiError(402, 'Payment required'), 'QUOTA_EXHAUSTED', 'stop', 1],
    ['403', apiError(403, 'Insufficient permissions'), 'FORBIDDEN', 'skip-partition', 1],
    ['403 about the plan', apiError(403, 'No active subscription'), 'QUOTA_EXHAUSTED', 'stop', 1],
    ['403 without JSON', html(403), 'FORBIDDEN', 'skip-partition', 3],
    ['404', apiError(404, 'Object not found'), 'NOT_FOUND', 'skip-partition', 1],
    ['410', apiError(410, 'Gone'), 'NOT_FOUND', 'skip-partition', 1],
    ['408', apiError(408, 'Timeout'), 'TIMEOUT', 'retry', 6],
    ['409', apiError(409, 'Conflict'), 'UPSTREAM', 'retry', 6],
    ['413', apiError(413, 'Too large'), 'BODY_TOO_LARGE', 'smaller-page', 1],
    ['425', apiError(425, 'Too early'), 'UPSTREAM', 'retry', 6],
    ['500', apiError(500, 'Oops'), 'UPSTREAM', 'retry', 6],
    ['500 in HTML', html(500), 'UPSTREAM', 'retry', 6],
    ['502', text(502, ''), 'UPSTREAM', 'retry', 6],
    ['503', apiError(503, 'Unavailable'), 'UPSTREAM', 'retry', 6],
    ['504', apiError(504, 'Gateway timeout'), 'TIMEOUT', 'smaller-page', 1],
    ['507', apiError(507, 'Odd'), 'UPSTREAM', 'retry', 6],
    ['418', apiError(418, 'Teapot'), 'REQUEST_REFUSED', 'skip-partition', 1],
    ['429', apiError(429, 'Slow down'), 'THROTTLED', 'throttle', 6],
    ['529', apiError(529, 'Overloaded'), 'THROTTLED', 'throttle', 6],
    [
      'several organizations',
      apiError(400, 'Please specify the target organization'),
      'CONFIG_INVALID',
      'stop',
      1,
    ],
    [
      'an expired token that was never sent',
      apiError(400, 'cursor is invalid'),
      'REQUEST_REFUSED',
      'skip-partition',
      1,
    ],
  ])('%s', async (_title, reply, code, recovery, requests) => {
    const { server, source } = await start(reply);
    expect(await list('members', false, { list_id: 'l', count: 10 })).toMatchObject({ code, recovery });
    expect(server.calls).toHaveLength(requests);
    expect(source.stats()).toMatchObject({ calls: requests, retries: requests - 1 });
  });

  it.each([
    'The start_cursor provided is invalid: x',
    'Page token has expired',
    'invalid cursor',
    'Expired page_token',
  ])('restarts the walk for "%s"', async (message) => {
    const { server } = await start(apiError(400, message));
    const error = await list('notes', false, { page_size: 100, start_cursor: 'abc' });
    expect(error).toMatchObject({ code: 'TOKEN_EXPIRED', recovery: 'restart-walk' });
    expect(server.calls).toHaveLength(1);
  });

  it('tries a 504 again where there is no page size to make smaller', async () => {
    const { server } = await start(apiError(504, 'Gateway timeout'));
    expect(await list('tags')).toMatchObject({ code: 'TIMEOUT', recovery: 'retry' });
    expect(server.calls).toHaveLength(6);
  });

  it('asks after the connector when a 404 speaks of it', async () => {
    const { server } = await start(apiError(404, 'Connector c1 does not exist'), { connectors: [] });
    expect(await list('members')).toMatchObject({ code: 'CONNECTOR_UNKNOWN', recovery: 'stop' });
    expect(server.requests.at(-1)).toBe('GET /api/v1/integrations/connectors/c1');
  });
});

/** As `serve` answers where the third party behind it fails. */
function ours(status: number, message: string, error_code: string): Reply {
  return json(status, { message, errors: [{ field: null, message, error_code, details: null }] });
}

describe('an answer of serve about the third party behind it', () => {
  it.each<[string, Reply, ErrorCode, Recovery, number]>([
    ['401', ours(401, 'API key invalid', 'upstream_unauthorized'), 'AUTH_FAILED', 'stop', 2],
    ['402', ours(402, 'Upgrade', 'upstream_quota'), 'QUOTA_EXHAUSTED', 'stop', 1],
    [
      '403 with everyday words about billing',
      ours(403, 'Your role may not see the billing of a subscription', 'upstream_forbidden'),
      'FORBIDDEN',
      'skip-partition',
      1,
    ],
    ['404', ours(404, 'Not shared', 'upstream_not_found'), 'NOT_FOUND', 'skip-partition', 1],
    ['400', ours(400, 'No such field', 'upstream_refused'), 'REQUEST_REFUSED', 'skip-partition', 1],
    ['429', ours(429, 'Slow down', 'upstream_throttled'), 'THROTTLED', 'throttle', 6],
    ['502', ours(502, 'Try later', 'upstream_unavailable'), 'UPSTREAM', 'retry', 6],
    ['502 too large', ours(502, 'Too large', 'upstream_too_large'), 'BODY_TOO_LARGE', 'smaller-page', 1],
    ['502 unusable', ours(502, 'A redirect', 'upstream_unusable'), 'UPSTREAM', 'skip-partition', 1],
    ['504', ours(504, 'Too late', 'upstream_timeout'), 'TIMEOUT', 'smaller-page', 1],
  ])('%s', async (_title, reply, code, recovery, requests) => {
    const { server } = await start(reply);
    expect(await list('members', false, { list_id: 'l', count: 10 })).toMatchObject({ code, recovery });
    expect(server.calls).toHaveLength(requests);
  });

  it('sets a listing aside when its answers are too large and it has no page size', async () => {
    const { server } = await start(ours(502, 'Too large', 'upstream_too_large'));
    expect(await list('tags')).toMatchObject({ code: 'BODY_TOO_LARGE', recovery: 'skip-partition' });
    expect(server.calls).toHaveLength(1);
  });

  it('restarts the walk for a page token that ended, whatever its words', async () => {
    const stale = ours(400, 'Ask again from the start', 'upstream_stale_token');
    const { server } = await start(stale);
    const error = await list('notes', false, { page_size: 100, start_cursor: 'abc' });
    expect(error).toMatchObject({ code: 'TOKEN_EXPIRED', recovery: 'restart-walk' });
    expect(await list('notes', false, { page_size: 100 })).toMatchObject({ code: 'REQUEST_REFUSED' });
    expect(server.calls).toHaveLength(2);
  });
});

describe('an answer of a root partition', () => {
  it.each<[string, Reply, ErrorCode, Recovery]>([
    ['400', apiError(400, 'Bad'), 'REQUEST_REFUSED', 'skip-entity'],
    ['403', apiError(403, 'No'), 'FORBIDDEN', 'skip-entity'],
    ['404', apiError(404, 'No'), 'NOT_FOUND', 'skip-entity'],
  ])('%s skips the entity while the connector answers', async (_title, reply, code, recovery) => {
    await start(reply);
    expect(await list('members', true)).toMatchObject({ code, recovery });
  });

  it.each([403, 404])('%s stops when the connector is unknown', async (status) => {
    await start(apiError(status, 'No'), { connectors: [] });
    expect(await list('members', true)).toMatchObject({ code: 'CONNECTOR_UNKNOWN', recovery: 'stop' });
  });
});

describe('a connector that goes away', () => {
  it('is noticed at the next refusal of a root, however recently it answered', async () => {
    const connectors = [{ id: 'c1', name: 'One', definitionId: testDefinition().id }];
    open = await openTestSource({
      respondGet: (path) =>
        connectors.length > 0 || path.endsWith('/connectors') ? null : apiError(404, 'Connector not found'),
      respond: ({ index }) => (index === 0 ? success([]) : apiError(404, 'Not found')),
    });
    await open.source.connect(never);
    await open.source.list({ entity: entityName('members'), params: {}, isRoot: true }, never);
    connectors.pop();
    expect(await list('members', true)).toMatchObject({ code: 'CONNECTOR_UNKNOWN', recovery: 'stop' });
  });
});

describe('the connector itself', () => {
  it('is found by connect', async () => {
    const { source, server } = await start(success([]));
    await source.connect(never);
    expect(server.requests.at(-1)).toBe('GET /api/v1/integrations/connectors/c1');
  });

  it('stops connect when it is unknown', async () => {
    const { source } = await start(success([]), { connectors: [] });
    expect(await failureOf(source.connect(never))).toMatchObject({
      code: 'CONNECTOR_UNKNOWN',
      recovery: 'stop',
    });
  });

  it('stops connect when it is of another type', async () => {
    const { source } = await start(success([]), {
      connectors: [{ id: 'c1', name: 'One', definitionId: 'another' }],
    });
    expect(await failureOf(source.connect(never))).toMatchObject({
      code: 'CONFIG_INVALID',
      recovery: 'stop',
    });
  });

  it('stops connect when the service stays down', async () => {
    const { source } = await start(success([]), { respondGet: () => apiError(503, 'down') });
    expect(await failureOf(source.connect(never))).toMatchObject({ code: 'UPSTREAM', recovery: 'stop' });
  });

  it.each<[string, Reply]>([
    ['405', json(405, { detail: 'Method Not Allowed' })],
    ['404 of a router', json(404, { detail: 'Not Found' })],
  ])('may be served without its own endpoint (%s)', async (_title, reply) => {
    open = await openTestSource({
      respondGet: () => reply,
      respond: ({ index }) => (index === 0 ? success([]) : apiError(404, 'Nothing here')),
    });
    await open.source.connect(never);
    await open.source.list({ entity: entityName('members'), params: {}, isRoot: true }, never);
    expect(await list('members', true)).toMatchObject({ code: 'NOT_FOUND', recovery: 'skip-entity' });
  });

  it('is unknown when its own endpoint does not answer and the first execute says 404 too', async () => {
    const { source } = await start(apiError(404, 'Not Found'), {
      respondGet: () => json(404, { detail: 'Not Found' }),
    });
    await source.connect(never);
    expect(await list('members', true)).toMatchObject({ code: 'CONNECTOR_UNKNOWN', recovery: 'stop' });
  });
});

describe("a definition's error pattern", () => {
  const pattern = (then: ErrorPattern['then'], entity: string | null = null): ErrorPattern => ({
    status: 400,
    contains: 'AI_Block',
    // oxlint-disable-next-line unicorn/no-thenable -- the definition's word; a pattern is never awaited
    then,
    entity: entity === null ? null : entityName(entity),
  });
  const refused = apiError(400, 'Block type ai_block is not supported');

  it.each<[ErrorPattern['then'], Recovery, number]>([
    ['skip-partition', 'skip-partition', 1],
    ['skip-entity', 'skip-entity', 1],
    ['restart-walk', 'restart-walk', 1],
    ['smaller-page', 'smaller-page', 1],
    ['stop', 'stop', 1],
    ['throttle', 'throttle', 6],
  ])('goes first: %s', async (then, recovery, requests) => {
    const { server } = await start(refused, { definition: testDefinition([pattern(then)]) });
    expect(await list('members')).toMatchObject({ recovery });
    expect(server.calls).toHaveLength(requests);
  });

  it('holds for its own entity, status and words only', async () => {
    const definition = testDefinition([pattern('stop', 'notes'), { ...pattern('stop'), status: 404 }]);
    await start(refused, { definition });
    expect(await list('members')).toMatchObject({ recovery: 'skip-partition' });
    expect(await list('notes')).toMatchObject({ recovery: 'stop' });
  });
});

const request = { entity: entityName('members'), params: { count: 10 }, isRoot: false };
const smallLimits = {
  attemptTimeoutMs: 500,
  maxHeaderBytes: 4_096,
  maxBodyBytes: 200_000,
  retries: 2,
};

describe('a broken answer', () => {
  it.each<[string, Reply, ErrorCode, Recovery, number]>([
    ['reset before headers', resetBeforeHeaders, 'NETWORK', 'retry', 3],
    ['closed before headers', closeBeforeHeaders, 'NETWORK', 'retry', 3],
    ['reset within the body', resetAfterHeaders, 'NETWORK', 'retry', 3],
    ['shorter than its length', cutByLength, 'NETWORK', 'retry', 3],
    ['without its last chunk', cutInChunks, 'NETWORK', 'retry', 3],
    ['cut by the end of the connection', cutByClose, 'BODY_INVALID', 'retry', 3],
    ['no headers', stallBeforeHeaders, 'TIMEOUT', 'retry', 3],
    ['a body that stops', stallInBody, 'TIMEOUT', 'retry', 3],
    ['a body that drips', drip(20), 'TIMEOUT', 'retry', 3],
    ['no HTTP', garbage, 'NETWORK', 'retry', 3],
    ['a failure whose body is cut', cutFailure(500), 'UPSTREAM', 'retry', 3],
    ['an endless body', endless, 'BODY_TOO_LARGE', 'smaller-page', 1],
    ['a body over the limit', text(200, ' '.repeat(200_001)), 'BODY_TOO_LARGE', 'smaller-page', 1],
    ['a gzip bomb', gzipBomb(300_000), 'BODY_TOO_LARGE', 'smaller-page', 1],
    ['headers over the limit', hugeHeaders(6_000), 'BODY_TOO_LARGE', 'smaller-page', 1],
  ])('%s: typed, bounded, and the next call works', async (_title, reply, code, recovery, requests) => {
    let isBroken = true;
    const { server, source } = await openTestSource({
      respond: () => (isBroken ? reply : success([{ id: 'a' }])),
      limits: smallLimits,
    });
    expect(await failureOf(source.list(request, never))).toMatchObject({ code, recovery });
    expect(server.calls).toHaveLength(requests);
    isBroken = false;
    expect((await source.list(request, never)).records.length).toBe(1);
  });

  it('that fails is read only as far as its message can be', async () => {
    const { source } = await openTestSource({
      respond: () => stallAfter(404, 100_000),
      limits: { attemptTimeoutMs: 1_000, retries: 0 },
    });
    expect(await failureOf(source.list(request, never))).toMatchObject({ code: 'NOT_FOUND' });
  });

  it('is survived when the next attempt is whole', async () => {
    const faults = [resetBeforeHeaders, cutByLength, stallInBody];
    const { source, events } = await openTestSource({
      respond: ({ index }) => faults[index] ?? success([{ id: 'a' }]),
      limits: { ...smallLimits, retries: 5 },
    });
    expect([...(await source.list(request, never)).records]).toEqual([{ id: 'a' }]);
    const retries = events.filter(({ kind }) => kind !== 'call-ended');
    expect(retries.map(({ kind }) => kind)).toEqual(['call-retried', 'call-retried', 'call-retried']);
    // The first reset is most likely an idle socket that had been closed: no wait.
    expect(retries[0]).toMatchObject({ code: 'NETWORK', attempt: 1, waitMs: 0 });
  });

  it('leaves no connection taken: after many failures a good call has one', async () => {
    const { server, source } = await openTestSource({
      respond: ({ index }) => (index < 15 ? apiError(500, 'x'.repeat(200_000)) : success([{ id: 'a' }])),
      limits: { retries: 0 },
    });
    for (let call = 0; call < 15; call += 1) {
      expect(await failureOf(source.list(request, never))).toMatchObject({ code: 'UPSTREAM' });
    }
    expect((await source.list(request, never)).records.length).toBe(1);
    expect(server.openSockets()).toBeLessThanOrEqual(2);
  });
});

describe('a service that cannot be reached', () => {
  it('is retried when the port is closed', async () => {
    const placeholder = createServer();
    await new Promise<void>((resolve) => placeholder.listen(0, '127.0.0.1', resolve));
    const address = placeholder.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    await new Promise((resolve) => placeholder.close(resolve));
    await using client = openTestClient(`http://127.0.0.1:${port}`);
    expect(await failureOf(client.definitions(null, never))).toMatchObject({
      code: 'NETWORK',
      recovery: 'retry',
      message: expect.stringMatching(/: connection refused \(ECONNREFUSED\) \(\d attempts\)$/) as string,
    });
  });

  it('stops when TLS does not come about', async () => {
    const { server } = await openTestSource({});
    await using client = openTestClient(server.baseUrl.replace('http:', 'https:'));
    expect(await failureOf(client.definitions(null, never))).toMatchObject({
      code: 'NETWORK',
      recovery: 'stop',
    });
  });

  it('says so when the client is closed under a call', async () => {
    const { source, client, server } = await openTestSource({ respond: () => stallBeforeHeaders });
    const call = failureOf(source.list(request, never));
    await server.arrived(1);
    await client[Symbol.asyncDispose]();
    expect(await call).toMatchObject({ code: 'INTERRUPTED', recovery: 'stop' });
    await client[Symbol.asyncDispose]();
  });
});

describe('broken answers', () => {
  const partitions = Array.from({ length: 13 }, (_, index) => `list-${index}`);

  const list = (id: string, entity = 'tags') =>
    open.source.list({ entity: entityName(entity), params: { list_id: id }, isRoot: false }, never);

  describe('an entity whose answers are none', () => {
    // Proves promise 8.1
    it.each<[string, Reply]>([
      ['HTML', html(200)],
      ['another envelope', json(200, { hello: 'world' })],
      ['a status that is not success', json(200, { status: 'error', result: null })],
    ])('costs the attempts of one partition, and one call of each other: %s', async (_what, reply) => {
      open = await openTestSource({ respond: () => reply });
      for (const id of partitions) expect(await failureOf(list(id))).toMatchObject({ code: 'BODY_INVALID' });
      expect(open.server.calls).toHaveLength(13 + 5);
    });

    it('costs one call more where the partitions are asked for at once', async () => {
      open = await openTestSource({ respond: () => html(200) });
      const failures = await Promise.all(partitions.map((id) => failureOf(list(id))));
      expect(failures.map(({ code }) => code)).toEqual(partitions.map(() => 'BODY_INVALID'));
      expect(open.server.calls).toHaveLength(13 + 5 + 1);
    });

    it('takes nothing from the other entities', async () => {
      open = await openTestSource({
        respond: ({ entity, index }) => (entity === 'tags' || index % 2 === 0 ? html(200) : success([])),
      });
      for (const id of partitions) await failureOf(list(id));
      await expect(list('list-1', 'members')).resolves.toMatchObject({ records: { length: 0 } });
    });

    // Proves promise 8.1
    it('is repeated for again after one answer', async () => {
      let isDown = true;
      open = await openTestSource({
        respond: ({ index }) => (isDown || index === 20 ? html(200) : success([])),
      });
      for (const id of partitions) await failureOf(list(id));
      expect(open.server.calls).toHaveLength(18);
      isDown = false;
      await list('list-0');
      await list('list-1');
      // The next answer is broken, and the call is retried until a good one.
      await list('list-2');
      expect(open.server.calls).toHaveLength(22);
    });

    it('answers all concurrent callers when it recovers', async () => {
      open = await openTestSource({ respond: ({ index }) => (index < 15 ? html(200) : success([])) });
      await Promise.all(partitions.map((id) => list(id)));
      expect(open.server.calls.length).toBeGreaterThan(15);
    });
  });

  describe("failures that are not the entity's", () => {
    it('of one partition leave the others their attempts', async () => {
      const seen = new Map<unknown, number>();
      open = await openTestSource({
        respond: ({ params }) => {
          const count = (seen.get(params['list_id']) ?? 0) + 1;
          seen.set(params['list_id'], count);
          return params['list_id'] === 'list-0' || count === 1 ? html(200) : success([]);
        },
      });
      const [first, ...others] = await Promise.allSettled(partitions.map((id) => list(id)));
      expect(first?.status).toBe('rejected');
      expect(others.map(({ status }) => status)).toEqual(others.map(() => 'fulfilled'));
    });

    it('of overload are repeated for each call', async () => {
      open = await openTestSource({ respond: () => apiError(500, 'Oops') });
      await failureOf(list('list-0'));
      await failureOf(list('list-1'));
      expect(open.server.calls).toHaveLength(12);
    });
  });
});

const page = callFacts('execute', 'list members', { canShrink: true });
const root = callFacts('execute', 'list lists', { isRoot: true });
const check = callFacts('catalog', 'check the credentials');

describe('a failure of the service itself', () => {
  it.each<[FailureClass, Partial<FailureFacts>, ErrorCode, Recovery, number | null]>([
    ['unauthorized', { status: 401 }, 'AUTH_FAILED', 'stop', null],
    ['unauthorized', { reason: 'credentials' }, 'AUTH_FAILED', 'stop', null],
    ['forbidden', { status: 403 }, 'FORBIDDEN', 'skip-partition', null],
    ['quota', { status: 402 }, 'QUOTA_EXHAUSTED', 'stop', null],
    ['throttled', { status: 429 }, 'THROTTLED', 'throttle', Infinity],
    ['edge', { status: 403, waitMs: 60_000 }, 'THROTTLED', 'throttle', Infinity],
    ['notFound', { status: 404 }, 'NOT_FOUND', 'skip-partition', null],
    ['staleToken', { status: 400 }, 'TOKEN_EXPIRED', 'restart-walk', null],
    ['tooLarge', { reason: 'tooLarge' }, 'BODY_TOO_LARGE', 'smaller-page', null],
    ['unavailable', { status: 504 }, 'TIMEOUT', 'smaller-page', 0],
    ['unavailable', { reason: 'timeout' }, 'TIMEOUT', 'smaller-page', 0],
    ['unavailable', { status: 500 }, 'UPSTREAM', 'retry', Infinity],
    ['unavailable', { reason: 'network' }, 'NETWORK', 'retry', Infinity],
    ['unavailable', { reason: 'name' }, 'NETWORK', 'retry', 1],
    ['unavailable', { reason: 'brokenBody', status: 200 }, 'BODY_INVALID', 'retry', Infinity],
    ['unavailable', { reason: 'notJson', status: 200 }, 'BODY_INVALID', 'retry', Infinity],
    ['unavailable', { reason: 'noRecords', status: 200 }, 'BODY_INVALID', 'skip-partition', 1],
    ['unavailable', { reason: 'brokenRecords', status: 200 }, 'BODY_INVALID', 'skip-partition', Infinity],
    ['refused', { status: 400 }, 'REQUEST_REFUSED', 'skip-partition', null],
    ['refused', { reason: 'address' }, 'CONFIG_INVALID', 'stop', null],
    ['refused', { reason: 'network' }, 'NETWORK', 'stop', null],
    ['refused', { reason: 'redirect', status: 302 }, 'REDIRECTED', 'skip-partition', null],
  ])('of the class %s with %o is %s, %s', (failureClass, facts, code, recovery, most) => {
    const failure = new UpstreamFailure(failureClass, 'words of the service', { reason: 'answer', ...facts });
    const { error, retry } = classifyUpstream(failure, page);
    expect({ code: error.code, recovery: error.recovery, most: retry?.most ?? null }).toEqual({
      code,
      recovery,
      most,
    });
    expect(error.message).toContain('words of the service');
    expect(error.message, 'whether it is depends on what called').not.toContain('tried again');
  });

  it.each([
    ['forbidden', root, 'skip-entity'],
    ['notFound', root, 'skip-entity'],
    ['refused', root, 'skip-entity'],
    ['forbidden', check, 'stop'],
    ['notFound', check, 'stop'],
  ] as const)('of the class %s concerns what was asked for', (failureClass, facts, recovery) => {
    const failure = new UpstreamFailure(failureClass, 'no', { reason: 'answer', status: 403 });
    expect(classifyUpstream(failure, facts).error.recovery).toBe(recovery);
  });

  it('says how long a pause is that the service asks for', () => {
    const failure = new UpstreamFailure('throttled', 'slow', { reason: 'gate', waitMs: 90_000 });
    const { error, retry } = classifyUpstream(failure, page);
    expect(error).toBeInstanceOf(ThrottledError);
    expect(error).toMatchObject({ retryAfterMs: 90_000 });
    expect(retry).toMatchObject({ wait: 'throttle', afterMs: 90_000 });
  });

  it("is what the definition's errors say, where its words and status are named there", () => {
    const { errors: patterns, entities } = builtInDefinition('workspace-notes');
    const entity = entities.get('blocks' as EntityName)?.name ?? null;
    const facts = { ...root, patterns, entity };
    const refused = new UpstreamFailure('refused', 'AI_BLOCK is not known', {
      reason: 'answer',
      status: 400,
    });
    expect(classifyUpstream(refused, facts).error.recovery).toBe('skip-partition');
    const collided = new UpstreamFailure('unavailable', 'a data collision', {
      reason: 'answer',
      status: 409,
    });
    expect(classifyUpstream(collided, facts).error.code).toBe('THROTTLED');
  });
});
