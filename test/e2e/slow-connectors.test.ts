import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it, onTestFinished } from 'vitest';
import type { HostileCall, Reply } from '../support/hostile/exchange.ts';
import { held, success, throttled } from '../support/hostile/replies.ts';
import { startHostileServer, type HostileServer } from '../support/hostile-server.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { isLong } from '../support/trials.ts';
import { useWorkers } from '../support/use-workers.ts';
import { isRunFinished, type LogLine, type WorkerProcess } from '../support/worker-process.ts';

/** What a worker does for its other connectors while some of the services behind them are slow. */
const definition = 'email-marketing';

const slowServices: readonly [string, (call: HostileCall) => Reply][] = [
  ['answers drop by drop', () => drip],
  ['never answers', () => held(new Promise(() => undefined), success([]))],
];

// Proves promise 12
it.for(slowServices.slice(0, isLong ? 2 : 1))(
  'gives fast connectors their connections while the service of four others %s',
  async ([, slowly]) => {
    const slow = names('slow', 4);
    const fast = names('fast', 10);
    const { worker, server } = await startWorker({ one: slow, two: fast }, ({ connectorId, ...call }) =>
      connectorId.startsWith('id-slow') ? slowly({ connectorId, ...call }) : success([]),
    );
    await Promise.all(fast.map((name) => worker.until(endOf(name))));
    // They are as busy as they were: two runs of the sink at a time.
    const busy = new Set(
      server.calls.map(({ connectorId }) => connectorId).filter((id) => id.startsWith('id-slow')),
    );
    expect(busy.size).toBe(2);
    expect(slow.some((name) => worker.lines.some(endOf(name)))).toBe(false);
  },
);

// Proves promise 12
it('lets the other connectors of a sink run while two are throttled, and uses up no attempt', async () => {
  const slow = names('slow', 2);
  const fast = names('fast', 4);
  const { worker, server } = await startWorker({ one: [...slow, ...fast] }, ({ connectorId }) =>
    connectorId.startsWith('id-slow') ? throttled({ seconds: 20 }) : success([]),
  );
  await Promise.all(fast.map((name) => worker.until(endOf(name))));
  const putOff = await Promise.all(
    slow.map((name) => worker.until((line) => line.msg === 'job ended' && line['connector'] === name)),
  );
  expect(putOff).toMatchObject(slow.map(() => ({ end: 'delayed', until: expect.any(String) })));
  for (const name of slow) {
    expect(server.calls.filter(({ connectorId }) => connectorId === `id-${name}`).length).toBeLessThanOrEqual(
      4,
    );
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
  connectorsBySink: Readonly<Record<string, readonly string[]>>,
  respond: (call: HostileCall) => Reply,
): Promise<{ worker: WorkerProcess; server: HostileServer }> {
  const connectors = Object.entries(connectorsBySink).flatMap(([sink, all]) =>
    all.map((name) => ({ name, definition, size: 'tiny' as const, schedule: '{ every: 1h }', sink })),
  );
  const world = await useWorkers({ connectors });
  const definitionId = builtInDefinition(definition).id;
  const server = await startHostileServer({
    connectors: connectors.map(({ name }) => ({ id: `id-${name}`, name, definitionId })),
    respond,
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const config = readFileSync(world.config, 'utf8');
  writeFileSync(world.config, config.replace(world.service.url, server.baseUrl));
  return { worker: world.start(), server };
}

/** A byte a second, for ever. */
const drip: Reply = ({ response }) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.write('{');
  const timer = setInterval(() => response.write(' '), 1_000);
  response.once('close', () => clearInterval(timer));
};
