import { expect, it } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { openQueues } from '../../src/jobs/open-queues.ts';
import { freePort } from '../support/redis.ts';
import {
  emptyLedger,
  collect,
  connectorsOf,
  newsletter,
  openWorkerBench,
  prefix,
  untilAborted,
  warehouse,
  yearly,
} from '../support/jobs/worker-bench.ts';

it('enqueues a connector once, and returns the state of its job', async () => {
  await using bench = await openWorkerBench();
  const enqueue = (): Promise<unknown> => bench.queues.enqueue(warehouse.id, newsletter, 'manual');
  expect(await enqueue()).toEqual({ isNew: true, state: 'waiting' });
  expect(await enqueue()).toEqual({ isNew: false, state: 'waiting' });
  const begun = collect<string>();
  await bench.start(
    { newsletter: yearly },
    untilAborted(() => begun.add('run')),
  );
  await begun.until(1);
  expect(await enqueue()).toEqual({ isNew: false, state: 'active' });
});

it('throws within two seconds if Redis does not answer', async () => {
  const began = Date.now();
  const url = new Secret(`redis://127.0.0.1:${await freePort()}`);
  await expect(openQueues({ redis: { url, isConfigured: true, prefix } })).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
  });
  expect(Date.now() - began).toBeLessThan(2500);
});

it('throws within about two seconds if Redis goes down later, or hangs', async () => {
  await using bench = await openWorkerBench();
  const calls: readonly (() => Promise<unknown>)[] = [
    () => bench.queues.enqueue(warehouse.id, newsletter, 'manual'),
    () => bench.queues.schedules([warehouse.id]),
    () => bench.queues.registeredSink('warehouse'),
    () =>
      bench.queues.apply({
        connectors: connectorsOf({ newsletter: yearly }),
        sinks: [warehouse],
        paused: emptyLedger.paused,
        targets: [],
        takeOver: [],
      }),
  ];
  const allRefuse = async (): Promise<void> => {
    for (const call of calls) {
      const began = Date.now();
      await expect(call()).rejects.toMatchObject({ code: 'QUEUE_UNAVAILABLE' });
      expect(Date.now() - began).toBeLessThan(3000);
    }
  };
  await bench.queues.enqueue(warehouse.id, newsletter, 'manual');
  await bench.client.call('CLIENT', 'PAUSE', '6000');
  await expect(calls[0]?.()).rejects.toMatchObject({ code: 'QUEUE_UNAVAILABLE' });
  await bench.redis.kill();
  await allRefuse();
});
