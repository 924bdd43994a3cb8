import { describe, expect, it } from 'vitest';
import { instantClock } from '../../support/instant-clock.ts';
import {
  failureOf,
  never,
  openTestSource,
  type TestSource,
  type TestSourceOptions,
} from '../../support/source/open-test-source.ts';
import { entityName } from '../../support/source/test-definition.ts';

const start = (options: TestSourceOptions = {}): Promise<TestSource> =>
  openTestSource({ scopedToWorkspace: 'acme & sons', ...options });
const request = { entity: entityName('members'), params: {}, isRoot: false };
const minutes = 60_000;

describe('a client that is scoped to a workspace', () => {
  // Proves specification 5.5
  it('sends a token of the workspace with every call, and the account token for that token alone', async () => {
    const { source, server, client } = await start();
    await Promise.all(Array.from({ length: 20 }, () => source.list(request, never)));
    await client.definitions(null, never);
    expect(server.scopedTo).toEqual(['acme & sons']);
    expect(server.tokensIssued()).toBe(1);
    expect(new Set(server.calls.map(({ token }) => token.slice(0, 9)))).toEqual(new Set(['scoped-1-']));
  });

  it('asks for a new one before the 20 minutes are over', async () => {
    const clock = instantClock();
    const { source, server } = await start({ clock, tokenLifetime: 3_600 });
    await source.list(request, never);
    clock.advance(13 * minutes);
    await source.list(request, never);
    expect(server.scopedTo).toHaveLength(1);
    clock.advance(2 * minutes);
    await source.list(request, never);
    expect(server.scopedTo).toHaveLength(2);
    expect(server.tokensIssued()).toBe(1);
  });

  it('asks once for all callers when the service refuses it, and repeats their calls', async () => {
    const { source, server } = await start();
    await source.list(request, never);
    server.expireTokens('scoped');
    const pages = await Promise.all(Array.from({ length: 20 }, () => source.list(request, never)));
    expect(pages).toHaveLength(20);
    expect(server.scopedTo).toHaveLength(2);
    expect(server.tokensIssued()).toBe(1);
  });

  it('gets a new account token where that one has expired as well', async () => {
    const { source, server } = await start();
    await source.list(request, never);
    server.expireTokens();
    await source.list(request, never);
    expect(server.scopedTo).toHaveLength(2);
    expect(server.tokensIssued()).toBe(2);
  });

  it('stops with AUTH_FAILED where every token is refused, without asking again and again', async () => {
    const { source, server } = await start();
    await source.list(request, never);
    server.refuseAllTokens();
    const errors = await Promise.all(
      Array.from({ length: 10 }, () => failureOf(source.list(request, never))),
    );
    for (const error of errors) expect(error).toMatchObject({ code: 'AUTH_FAILED', recovery: 'stop' });
    expect(server.tokensIssued()).toBeLessThanOrEqual(3);
  });

  // Proves promise 17
  it('keeps both tokens out of messages', async () => {
    const { source } = await start({
      respond:
        ({ token }) =>
        ({ response }) => {
          response.writeHead(400, { 'content-type': 'application/json' });
          response.end(JSON.stringify({ message: `token ${token} is not good` }));
        },
    });
    const { message } = await failureOf(source.list(request, never));
    expect(message).toContain('is not good');
    expect(message).not.toContain('scoped-1');
  });
});
