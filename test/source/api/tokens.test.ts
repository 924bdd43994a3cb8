import { describe, expect, it } from 'vitest';
import type { Reply } from '../../support/hostile/exchange.ts';
import { apiError, held, html, json, success } from '../../support/hostile/replies.ts';
import { instantClock } from '../../support/instant-clock.ts';
import { failureOf, never, openTestSource, type TestSource } from '../../support/source/open-test-source.ts';
import { entityName } from '../../support/source/test-definition.ts';

const request = { entity: entityName('members'), params: {}, isRoot: false };
const twenty = (source: TestSource['source']) =>
  Array.from({ length: 20 }, () => source.list(request, never));

describe('the application token', () => {
  it('is asked for once, however many callers wait for it', async () => {
    let release = (): void => undefined;
    const slow = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { source, server } = await openTestSource({
      respondToken: () => held(slow, json(200, { access_token: 'slow-token', expires_in: 900 })),
      respond: () => success([]),
    });
    const calls = twenty(source).map((call) => failureOf(call));
    release();
    // The server does not know this token, so the calls fail after the one renewal.
    for (const error of await Promise.all(calls)) expect(error).toMatchObject({ code: 'AUTH_FAILED' });
    expect(server.requests.filter((line) => line.endsWith('/token'))).toHaveLength(2);
  });

  it('serves many calls', async () => {
    const { source, server } = await openTestSource({});
    await Promise.all(twenty(source));
    await Promise.all(twenty(source));
    expect(server.tokensIssued()).toBe(1);
    expect(server.calls).toHaveLength(40);
  });

  // Proves specification 4.1.3
  it('is renewed 60 s before it ends', async () => {
    const clock = instantClock();
    const { source, server } = await openTestSource({ clock, tokenLifetime: 900 });
    await source.list(request, never);
    clock.advance(839_000);
    await source.list(request, never);
    expect(server.tokensIssued()).toBe(1);
    clock.advance(2_000);
    await source.list(request, never);
    expect(server.tokensIssued()).toBe(2);
  });

  it('is used even when it lives shorter than the margin', async () => {
    const { source, server } = await openTestSource({ tokenLifetime: 30 });
    await Promise.all(twenty(source));
    expect(server.tokensIssued()).toBe(1);
  });

  it('is renewed once for all callers when it expires under them', async () => {
    const { source, server } = await openTestSource({});
    await source.list(request, never);
    server.expireTokens();
    const pages = await Promise.all(twenty(source));
    expect(pages).toHaveLength(20);
    expect(server.tokensIssued()).toBe(2);
    expect(server.calls).toHaveLength(41);
    server.expireTokens();
    await Promise.all(twenty(source));
    expect(server.tokensIssued()).toBe(3);
  });

  it('ends in AUTH_FAILED when every token is refused, after one renewal for all', async () => {
    const { source, server } = await openTestSource({});
    await source.list(request, never);
    server.refuseAllTokens();
    const errors = await Promise.all(twenty(source).map((call) => failureOf(call)));
    for (const error of errors) expect(error).toMatchObject({ code: 'AUTH_FAILED', recovery: 'stop' });
    expect(server.tokensIssued()).toBe(2);
    expect(server.calls.length).toBeLessThanOrEqual(41);
  });

  it('is not asked for again and again by later calls once it was refused for good', async () => {
    const { source, server } = await openTestSource({});
    server.refuseAllTokens();
    for (let call = 0; call < 5; call += 1) await failureOf(source.list(request, never));
    expect(server.tokensIssued()).toBe(2);
  });

  it.each<[string, Reply, string, number]>([
    ['401', apiError(401, 'Invalid client'), 'AUTH_FAILED', 1],
    ['400', apiError(400, 'invalid_client'), 'AUTH_FAILED', 1],
    ['403', apiError(403, 'No'), 'AUTH_FAILED', 1],
    ['422', json(422, { detail: [] }), 'AUTH_FAILED', 1],
    ['403 in HTML', html(403), 'AUTH_FAILED', 3],
    ['404', json(404, { detail: 'Not Found' }), 'CONFIG_INVALID', 1],
  ])('stops everything when its endpoint answers %s', async (_title, reply, code, requests) => {
    const { source, server } = await openTestSource({ respondToken: () => reply });
    expect(await failureOf(source.list(request, never))).toMatchObject({ code, recovery: 'stop' });
    expect(server.requests).toHaveLength(requests);
  });

  it('is retried on its own, not once more by each caller', async () => {
    const { source, server } = await openTestSource({ respondToken: () => apiError(503, 'down') });
    const errors = await Promise.all(twenty(source).map((call) => failureOf(call)));
    for (const error of errors) expect(error).toMatchObject({ code: 'UPSTREAM', recovery: 'retry' });
    expect(server.requests).toHaveLength(6);
  });

  it('is fetched after a temporary failure', async () => {
    const { source } = await openTestSource({
      respondToken: (index) => (index < 2 ? apiError(500, 'oops') : null),
    });
    expect((await source.list(request, never)).records.length).toBe(0);
  });

  it.each<[string, unknown]>([
    ['a line break', { access_token: 'abc\r\nx-injected: 1', expires_in: 900 }],
    ['a space', { access_token: 'abc def', expires_in: 900 }],
    ['nothing in it', { access_token: '', expires_in: 900 }],
    ['another name', { token: 'abc' }],
  ])('is refused when it has %s', async (_title, body) => {
    const { source, server } = await openTestSource({
      respondToken: () => json(200, body),
      limits: { retries: 1 },
    });
    expect(await failureOf(source.list(request, never))).toMatchObject({ code: 'BODY_INVALID' });
    expect(server.calls).toHaveLength(0);
  });

  it('is not waited for after an abort, and still serves the others', async () => {
    let release = (): void => undefined;
    const slow = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { source } = await openTestSource({
      respondToken: (index) => (index === 0 ? held(slow, apiError(500, 'oops')) : null),
    });
    const controller = new AbortController();
    const left = source.list(request, controller.signal);
    const stays = source.list(request, never);
    const reason = new Error('stopped by test');
    controller.abort(reason);
    await expect(left).rejects.toBe(reason);
    release();
    expect((await stays).records.length).toBe(0);
  });
});
