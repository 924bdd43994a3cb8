import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { ErrorCode, Recovery } from '../../../src/core/errors.ts';
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
} from '../../support/hostile/broken-replies.ts';
import type { Reply } from '../../support/hostile/exchange.ts';
import { apiError, gzipBomb, success, text } from '../../support/hostile/replies.ts';
import { failureOf, never, openTestClient, openTestSource } from '../../support/source/open-test-source.ts';
import { entityName } from '../../support/source/test-definition.ts';

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

  it.each([
    ['headersTimeoutMs', stallBeforeHeaders],
    ['bodyTimeoutMs', stallInBody],
  ])('trips %s on its own', async (limit, reply) => {
    const { source } = await openTestSource({ respond: () => reply, limits: { [limit]: 100, retries: 0 } });
    const error = await failureOf(source.list(request, never));
    expect(error).toMatchObject({ code: 'TIMEOUT', recovery: 'retry' });
    expect(error.context['cause']).toMatch(/^UND_ERR_(HEADERS|BODY)_TIMEOUT$/);
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
