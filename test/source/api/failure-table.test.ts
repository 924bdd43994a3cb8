import { describe, expect, it } from 'vitest';
import type { ErrorCode, Recovery } from '../../../src/core/errors.ts';
import type { ErrorPattern } from '../../../src/definitions/definition.ts';
import type { Reply } from '../../support/hostile/exchange.ts';
import { apiError, html, json, success, text } from '../../support/hostile/replies.ts';
import {
  failureOf,
  never,
  openTestSource,
  type TestSource,
  type TestSourceOptions,
} from '../../support/source/open-test-source.ts';
import { entityName, testDefinition } from '../../support/source/test-definition.ts';

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
