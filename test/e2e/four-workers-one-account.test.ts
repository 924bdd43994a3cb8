import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, expect } from 'vitest';
import { it } from '../support/it.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { ApiError } from '../../src/service/api-error.ts';
import type { Service } from '../../src/service/start-service.ts';
import { serveSamples } from '../support/serve-samples.ts';
import { countBetween, mostInASecond, mostWithin, type Arrival } from '../support/jobs/recording-server.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import { sampleSeed } from '../support/sample-service.ts';
import { testCredentials } from '../support/sync-once.ts';
import { isLong } from '../support/trials.ts';
import {
  isRunFinished,
  isRunStarted,
  startWorkerProcess,
  type LogLine,
  type WorkerProcess,
} from '../support/worker-process.ts';

const requestsPerSecond = 10;
const retryAfterS = 3;
/** By then the calls have arrived that had left before, on a busy machine too. */
const underWayMs = 1000;
/** Each with a worker: that two keep the rate shows in `npm test`, for four of them there is `npm run test:long`. */
const names = isLong ? ['wiki-a', 'wiki-b', 'wiki-c', 'wiki-d'] : ['wiki-a', 'wiki-b'];

let redis: PrivateRedis;
let service: Service;
const arrivals: Arrival[] = [];
let throttleAtMs = Number.POSITIVE_INFINITY;
let isThrottled = false;
const workers: WorkerProcess[] = [];

it.beforeEach(async ({ folder }) => {
  redis = await startRedis();
  service = await serveSamples({
    port: 0,
    ...testCredentials,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: [
      {
        connectorId: 'the-account',
        definitionName: 'workspace-notes',
        workspace: 'default',
        seed: sampleSeed,
        size: 'tiny',
        wrap: (account) => ({
          ...account,
          list: (entity, params) => {
            const at = performance.now();
            arrivals.push({ at, from: entity });
            if (at < throttleAtMs || isThrottled) return account.list(entity, params);
            isThrottled = true;
            throw new ApiError(429, 'slow down', { headers: { 'retry-after': String(retryAfterS) } });
          },
        }),
      },
    ],
  });
  writeFileSync(
    path.join(folder, 'config.yaml'),
    [
      `api: { baseUrl: "${service.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }`,
      `redis: { url: "\${TEST_REDIS}" }`,
      'sinks:',
      ...names.map((name) => `  ${name}: { type: sqlite, path: ./${name}.db, durability: normal }`),
      'connectors:',
      ...names.map(
        (name) =>
          `  ${name}: { definition: workspace-notes, id: the-account, sink: ${name}, concurrency: 4, rateLimit: { requestsPerSecond: ${requestsPerSecond} }, schedule: { every: 10s } }`,
      ),
      '',
    ].join('\n'),
  );
});

afterEach(async () => {
  for (const { child } of workers) child.kill('SIGKILL');
  await Promise.all(workers.map(({ ended }) => ended));
  await service.close();
  await redis.stop();
});

// In `npm test` test/jobs/budget/processes.test.ts has four processes do so.
// Proves promise 12
it.runIf(isLong)(
  'keep its rate together, all pause when the API asks one of them to, and are slower for a while afterwards',
  async ({ folder }) => {
    const world = {
      config: path.join(folder, 'config.yaml'),
      env: { TEST_SECRET: testCredentials.clientSecret, TEST_REDIS: redis.url },
    };
    for (const _ of names) workers.push(startWorkerProcess(world));
    await Promise.all(
      names.map((name) => anyWorker((line) => isRunStarted(line) && line['connector'] === name)),
    );
    throttleAtMs = performance.now() + 4000;
    await Promise.all(
      names.map((name) => anyWorker((line) => isRunFinished(line) && line['connector'] === name)),
    );
    const throttled = await anyWorker(({ event }) => event === 'throttled');
    const told = Date.parse(throttled.time) - performance.timeOrigin;
    const since = (from: number, to: number): number => countBetween(arrivals, told + from, told + to);
    const [quiet, slower] = [
      since(underWayMs, retryAfterS * 1000 - 100),
      since(retryAfterS * 1000, retryAfterS * 1000 + 5000) / 5,
    ];
    console.log(
      `${names.length} workers at ${requestsPerSecond}/s: at most ${mostInASecond(arrivals)} in any second; after a 429 with Retry-After ${retryAfterS}: ` +
        `${since(1, underWayMs)} under way, ${quiet} during the pause, ${slower}/s for the 5 s behind it`,
    );
    // Where the machine is busy, calls that left in time arrive together: a second may hold two or three of the one
    // before.
    expect(mostInASecond(arrivals)).toBeLessThanOrEqual(1.5 * requestsPerSecond);
    expect(mostWithin(5_000, arrivals)).toBeLessThanOrEqual(5 * requestsPerSecond + 3);
    expect(quiet).toBe(0);
    expect(slower).toBeLessThanOrEqual(0.6 * requestsPerSecond);
    const outcomes = workers.flatMap(({ lines }) =>
      lines.filter(isRunFinished).map(({ outcome }) => outcome),
    );
    expect([...new Set(outcomes)]).toEqual(['ok']);
  },
  90_000,
);

function anyWorker(matches: Parameters<WorkerProcess['until']>[0]): Promise<LogLine> {
  return Promise.race(workers.map((worker) => worker.until(matches)));
}
