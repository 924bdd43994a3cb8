import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Queue } from 'bullmq';
import type { Settings } from '../../src/settings/settings.ts';
import { openRunSlots } from '../../src/jobs/run-slots.ts';
import {
  collect,
  eventually,
  nameOf,
  ok,
  openWorkerBench,
  prefix,
  warehouse,
  type WorkerBench,
} from '../support/jobs/worker-bench.ts';

const never = new AbortController().signal;

describe('run slots', () => {
  it('go to the run with the lowest priority first, up to the limit', async () => {
    const slots = openRunSlots(1);
    const order: string[] = [];
    const first = await slots.take({ priority: 5, patienceMs: 60_000, signal: never });
    const others = [9, 0, 3].map(async (priority) => {
      using _slot = await slots.take({ priority, patienceMs: 60_000, signal: never });
      order.push(`priority ${priority}`);
    });
    expect([slots.isFull(), order]).toEqual([true, []]);
    first?.[Symbol.dispose]();
    await Promise.all(others);
    expect(order).toEqual(['priority 0', 'priority 3', 'priority 9']);
  });

  it('end a wait after its patience or an abort, and call onFree when no run waits', async () => {
    let freed = 0;
    const slots = openRunSlots(1);
    slots.onFree(() => (freed += 1), never);
    const held = await slots.take({ priority: 0, patienceMs: 1, signal: never });
    expect(await slots.take({ priority: 0, patienceMs: 1, signal: never })).toBeNull();
    expect(await slots.take({ priority: 0, patienceMs: 60_000, signal: AbortSignal.abort() })).toBeNull();
    const stopping = new AbortController();
    const waiting = slots.take({ priority: 0, patienceMs: 60_000, signal: stopping.signal });
    stopping.abort();
    expect([await waiting, freed]).toEqual([null, 0]);
    const next = slots.take({ priority: 0, patienceMs: 60_000, signal: never });
    held?.[Symbol.dispose]();
    const taken = await next;
    expect([freed, slots.isFull()]).toEqual([0, true]);
    taken?.[Symbol.dispose]();
    await expect.poll(() => [freed, slots.isFull()]).toEqual([1, false]);
  });
});

describe('a worker with fewer slots than its sinks could use', () => {
  const lake = { name: 'lake', id: 'l1', place: '/data/lake.db' };
  const names = ['a', 'b', 'c', 'd'].map(nameOf);
  const settings = (): Pick<Settings, 'redis' | 'connectors'> => {
    const known = bench.settings(Object.fromEntries(names.map((name) => [name, null])));
    const connectors = [...known.connectors].map(([name, connector], index) => [
      name,
      { ...connector, sink: { name: index < 2 ? warehouse.name : lake.name } },
    ]);
    return { ...known, connectors: new Map(connectors as never) };
  };
  let bench: WorkerBench;
  beforeEach(async () => {
    bench = await openWorkerBench();
  });
  afterEach(() => bench[Symbol.asyncDispose]());

  const askForAll = async (): Promise<void> => {
    for (const [index, name] of names.entries()) {
      await bench.queues.enqueue(index < 2 ? warehouse.id : lake.id, name, 'manual');
    }
  };

  it('runs up to the limit at a time, and in the end all of them', async () => {
    let [running, most] = [0, 0];
    const ended = collect<string>();
    await bench.start(
      {},
      async (name) => {
        running += 1;
        most = Math.max(most, running);
        // Long enough that a job of the other sink is taken and waits for a slot.
        await eventually(async () => (await bench.syncs.getJobCounts('waiting'))['waiting'] === 0);
        running -= 1;
        ended.add(name);
        return ok;
      },
      {
        settings: settings(),
        sinks: [warehouse, lake],
        concurrency: 2,
        slots: openRunSlots(1),
        beforeJobs: askForAll,
      },
    );
    expect([...(await ended.until(4))].sort()).toEqual(['a', 'b', 'c', 'd']);
    expect(most).toBe(1);
  });

  it('returns jobs that it cannot start to another worker, and takes jobs again when a slot is free', async () => {
    const lakeJobs = new Queue(`syncs-${lake.id}`, { connection: bench.client, prefix });
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const [here, there] = [collect<string>(), collect<string>()];
    const options = { settings: settings(), sinks: [warehouse, lake], timings: { slotPatienceMs: 100 } };
    await bench.start(
      {},
      async (name) => {
        here.add(name);
        await released;
        return ok;
      },
      { ...options, slots: openRunSlots(1) },
    );
    await bench.queues.enqueue(warehouse.id, nameOf('a'), 'manual');
    await here.until(1);
    await bench.queues.enqueue(lake.id, nameOf('c'), 'manual');
    await bench.untilEvents((event) => event.kind === 'job-ended' && event.end === 'given-back');
    const [job] = await lakeJobs.getJobs(['waiting', 'active']);
    expect(job?.attemptsMade).toBe(0);

    const other = await bench.start({}, (name) => Promise.resolve(there.add(name)).then(() => ok), options);
    expect(await there.until(1)).toEqual(['c']);
    await other.stop();
    await bench.queues.enqueue(lake.id, nameOf('d'), 'manual');
    release();
    expect(await here.until(2)).toEqual(['a', 'd']);
    await lakeJobs.close();
  });
});
