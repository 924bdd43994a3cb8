import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { HostileCall, Reply } from '../support/hostile/exchange.ts';
import { held, success, throttled } from '../support/hostile/replies.ts';
import { startHostileServer, type HostileServer } from '../support/hostile-server.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import {
  isRunFinished,
  startWorkerProcess,
  type LogLine,
  type WorkerProcess,
} from '../support/worker-process.ts';
import { isLong } from '../support/trials.ts';

/** What a worker does for its other connectors while some of the services behind them are slow. */
const definition = 'email-marketing';
const clientSecret = 'secret-of-this-test';
const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

const slowServices: readonly [string, (call: HostileCall) => Reply][] = [
  ['answers drop by drop', () => drip],
  ['never answers', () => held(new Promise(() => undefined), success([]))],
];

// Proves promise 12
it.for(slowServices.slice(0, isLong ? 2 : 1))(
  'gives fast connectors their connections while the service of four others %s',
  async ([, slowly], { folder }) => {
    const slow = names('slow', 4);
    const fast = names('fast', 10);
    const { worker, server } = await startWorker(
      folder,
      { one: slow, two: fast },
      ({ connectorId, ...call }) =>
        connectorId.startsWith('slow') ? slowly({ connectorId, ...call }) : success([]),
    );
    await Promise.all(fast.map((name) => worker.until(endOf(name))));
    // They are as busy as they were: two runs of the sink at a time.
    const busy = new Set(
      server.calls.map(({ connectorId }) => connectorId).filter((id) => id.startsWith('slow')),
    );
    expect(busy.size).toBe(2);
    expect(slow.some((name) => worker.lines.some(endOf(name)))).toBe(false);
  },
);

// Proves promise 12
it('lets the other connectors of a sink run while two are throttled, and uses up no attempt', async ({
  folder,
}) => {
  const slow = names('slow', 2);
  const fast = names('fast', 4);
  const { worker, server } = await startWorker(folder, { one: [...slow, ...fast] }, ({ connectorId }) =>
    connectorId.startsWith('slow') ? throttled({ seconds: 20 }) : success([]),
  );
  await Promise.all(fast.map((name) => worker.until(endOf(name))));
  const putOff = await Promise.all(
    slow.map((name) => worker.until((line) => line.msg === 'job ended' && line['connector'] === name)),
  );
  expect(putOff).toMatchObject(slow.map(() => ({ end: 'delayed', until: expect.any(String) })));
  for (const name of slow) {
    expect(server.calls.filter(({ connectorId }) => connectorId === name).length).toBeLessThanOrEqual(4);
  }
});

function names(kind: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_none, at) => `${kind}-${at}`);
}

const endOf =
  (connector: string) =>
  (line: LogLine): boolean =>
    isRunFinished(line) && line['connector'] === connector;

/** A worker process that makes two runs of each sink at a time, each as soon as it can. */
async function startWorker(
  folder: string,
  connectorsBySink: Readonly<Record<string, readonly string[]>>,
  respond: (call: HostileCall) => Reply,
): Promise<{ worker: WorkerProcess; server: HostileServer; redis: PrivateRedis }> {
  const redis = await startRedis();
  opened.push(() => redis.stop());
  const connectors = Object.entries(connectorsBySink).flatMap(([sink, ids]) =>
    ids.map((id) => ({ id, sink })),
  );
  const server = await startHostileServer({
    connectors: connectors.map(({ id }) => ({
      id,
      name: id,
      definitionId: builtInDefinition(definition).id,
    })),
    respond,
  });
  opened.push(() => server[Symbol.asyncDispose]());
  const config = path.join(folder, 'config.yaml');
  writeFileSync(
    config,
    [
      `api: { baseUrl: "${server.baseUrl}", clientId: client-1, clientSecret: "\${TEST_SECRET}" }`,
      'redis: { url: "${TEST_REDIS}" }',
      'sinks:',
      ...Object.keys(connectorsBySink).map(
        (sink) => `  ${sink}: { type: sqlite, path: ${path.join(folder, `${sink}.db`)}, durability: normal }`,
      ),
      'connectors:',
      ...connectors.map(
        ({ id, sink }) =>
          `  ${id}: { definition: ${definition}, id: ${id}, sink: ${sink}, concurrency: 4, schedule: { every: 1h } }`,
      ),
      '',
    ].join('\n'),
  );
  const worker = startWorkerProcess({ config, env: { TEST_SECRET: clientSecret, TEST_REDIS: redis.url } });
  opened.push(async () => {
    worker.child.kill('SIGKILL');
    await worker.ended;
  });
  return { worker, server, redis };
}

/** A byte a second, for ever. */
const drip: Reply = ({ response }) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.write('{');
  const timer = setInterval(() => response.write(' '), 1_000);
  response.once('close', () => clearInterval(timer));
};
