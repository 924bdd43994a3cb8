import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startRedis, type PrivateRedis } from '../../support/redis.ts';
import { startScript, type RunningCli } from '../../support/run-cli.ts';
import {
  countBetween,
  mostInASecond,
  mostWithin,
  startRecordingServer,
  type RecordingServer,
} from '../../support/jobs/recording-server.ts';
import { testProgram } from '../../support/ensure-built.ts';

const script = testProgram('jobs/budget/firing-process.mjs');

let redis: PrivateRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

const running: RunningCli[] = [];
const servers: RecordingServer[] = [];
afterEach(async () => {
  for (const { child } of running) child.kill('SIGKILL');
  const ended = await Promise.all(running.splice(0).map(({ result }) => result));
  // Last: processes that still run would report closed connections.
  await Promise.all(servers.splice(0).map((server) => server[Symbol.asyncDispose]()));
  expect(ended.map(({ stderr }) => stderr).filter((text) => text !== '')).toEqual([]);
});

describe('processes that share an account', () => {
  // Proves promise 12
  it('share one rate limit in equal parts: four processes at 10 calls a second', async () => {
    const server = await startServer({ processes: 4 });
    for (const name of ['a', 'b', 'c', 'd']) fire(server, name, { requestsPerSecond: 10 });
    await server.until((arrivals) => arrivals.length > 48);
    const [first, last] = [server.arrivals[0]?.at ?? 0, server.arrivals[48]?.at ?? 0];
    const perSecond = 48_000 / (last - first);
    const most = mostInASecond(server.arrivals);
    console.log(`four processes at 10/s: at most ${most} in any second, ${perSecond.toFixed(2)}/s over all`);
    expectRate(server.arrivals);
    // On a busy machine each call waits for a process that is late with its own.
    expect(perSecond).toBeGreaterThanOrEqual(7);
    // A quarter each, but for calls of a process that was too busy when its turn came.
    for (const name of ['a', 'b', 'c', 'd']) expect(callsOf(server.arrivals, name)).toBeGreaterThanOrEqual(6);
  });

  // Proves promise 12
  it('all pause when one is throttled, then slow down, then return to the full rate', async () => {
    let throttledAt = Number.POSITIVE_INFINITY;
    const server = await startServer({
      processes: 4,
      answer: (response, { at }, index) => {
        if (index === 15) {
          throttledAt = at;
          response.writeHead(429, { 'retry-after': '2' });
        }
        response.end();
      },
    });
    for (const name of ['a', 'b', 'c', 'd']) {
      fire(server, name, { requestsPerSecond: 10, recoverEveryMs: 2_000 });
    }
    await server.until((arrivals) => (arrivals.at(-1)?.at ?? 0) > throttledAt + 6_200);
    const between = (from: number, to: number): number =>
      countBetween(server.arrivals, throttledAt + from, throttledAt + to);
    const figures = {
      // Calls in flight when the service throttled.
      underWay: between(1, 700),
      quiet: between(700, 2_000),
      slower: between(2_000, 4_000) / 2,
      recovered: between(4_200, 6_200) / 2,
    };
    console.log(
      `after a 429 with Retry-After 2: ${figures.underWay} under way, ${figures.quiet} during the pause, ` +
        `${figures.slower}/s for 2 s, then ${figures.recovered}/s; at most ${mostInASecond(server.arrivals)} in any second`,
    );
    expect(figures.underWay).toBeLessThanOrEqual(2);
    expect(figures.quiet).toBe(0);
    expect(figures.slower).toBeGreaterThanOrEqual(3.5);
    expect(figures.slower).toBeLessThanOrEqual(6);
    expect(figures.recovered).toBeGreaterThanOrEqual(7.5);
    expectRate(server.arrivals);
  });
});

/**
 * Ten a second. On a busy machine calls that left in time arrive together: a second may hold some of the one before.
 */
function expectRate(arrivals: RecordingServer['arrivals']): void {
  expect(mostInASecond(arrivals)).toBeLessThanOrEqual(15);
  expect(mostWithin(4_000, arrivals)).toBeLessThanOrEqual(43);
}

function callsOf(arrivals: RecordingServer['arrivals'], name: string): number {
  return arrivals.filter(({ from }) => from === name).length;
}

async function startServer(options: Parameters<typeof startRecordingServer>[0]): Promise<RecordingServer> {
  const server = await startRecordingServer(options);
  servers.push(server);
  return server;
}

/** Processes that call the same server share an account. */
function fire(
  server: RecordingServer,
  name: string,
  limits: { requestsPerSecond: number; recoverEveryMs?: number },
): RunningCli {
  const { requestsPerSecond, recoverEveryMs = 10_000 } = limits;
  const plan = {
    name,
    redisUrl: redis.url,
    serverUrl: server.url,
    places: 4,
    limits: { account: server.url, requestsPerSecond, maxWaitMs: 30_000 },
    timings: { recoverEveryMs },
  };
  const process = startScript([script, JSON.stringify(plan)], import.meta.dirname);
  running.push(process);
  return process;
}
