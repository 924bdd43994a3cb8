import { hostname } from 'node:os';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sinksKey } from '../../src/jobs/open-queue-set.ts';
import {
  emptyLedger,
  connectorsOf,
  cron,
  newsletter,
  ok,
  openWorkerBench,
  prefix,
  warehouse,
  type WorkerBench,
} from '../support/jobs/worker-bench.ts';

const daily = cron('30 3 * * *');
const elsewhere = { id: 'w0', host: 'another-host', place: '/mnt/warehouse.db' };

let bench: WorkerBench;

beforeEach(async () => {
  bench = await openWorkerBench();
});

afterEach(() => bench[Symbol.asyncDispose]());

describe('the registry of sinks', () => {
  it('registers a sink when the first worker serves it', async () => {
    expect(await bench.queues.registeredSink('warehouse')).toBeNull();
    await start();
    expect(await bench.queues.registeredSink('warehouse')).toEqual({
      id: 'w1',
      host: hostname(),
      place: '/data/warehouse.db',
    });
    await start();
  });

  // Proves promise 12
  it('rejects a worker with another file under the same name, and names both files', async () => {
    await register(elsewhere);
    const starting = start();
    await expect(starting).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE', recovery: 'stop' });
    await expect(starting).rejects.toThrow(/another-host.*\/data\/warehouse\.db on .*--take-over warehouse/s);
    expect(await bench.queues.registeredSink('warehouse')).toEqual(elsewhere);
    expect(await bench.ticks.getJobSchedulersCount()).toBe(0);
  });

  it('updates the place of a file that moved', async () => {
    await register({ ...elsewhere, id: 'w1' });
    await start();
    expect(await bench.queues.registeredSink('warehouse')).toMatchObject({ place: '/data/warehouse.db' });
  });

  it('lets a new file at the same place take over, and removes the queued jobs of the old one', async () => {
    const old = { ...warehouse, id: 'w0' };
    const connectors = connectorsOf({ newsletter: daily });
    await bench.queues.apply({
      connectors,
      sinks: [old],
      paused: emptyLedger.paused,
      targets: [],
      takeOver: [],
    });
    await bench.queues.enqueue('w0', newsletter, 'manual');
    await start();
    expect((await bench.ticks.getJobSchedulers()).map(({ key }) => key)).toEqual(['w1:newsletter']);
    expect(await bench.client.exists(`${prefix}:syncs-w0:wait`)).toBe(0);
    expect(bench.lines.find(({ level }) => level === 'warn')).toMatchObject({ facts: { sink: 'warehouse' } });
  });

  it('takes over from a permanently lost file with --take-over', async () => {
    await register(elsewhere);
    const options = { connectors: connectorsOf({ newsletter: daily }), sinks: [warehouse], targets: [] };
    const apply = (takeOver: readonly string[]): Promise<unknown> =>
      bench.queues.apply({ ...options, paused: emptyLedger.paused, takeOver });
    await expect(apply([])).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
    expect(await apply(['warehouse'])).toMatchObject({ written: ['newsletter'] });
    await start();
  });

  it('rejects an unknown value in the registry', async () => {
    await bench.client.hset(sinksKey(prefix), 'warehouse', 'not ours');
    await expect(start()).rejects.toThrow(/found an unknown value/);
  });
});

function start(): Promise<unknown> {
  return bench.start({ newsletter: daily }, () => Promise.resolve(ok));
}

async function register(sink: typeof elsewhere): Promise<void> {
  await bench.client.hset(sinksKey(prefix), 'warehouse', JSON.stringify(sink));
}
