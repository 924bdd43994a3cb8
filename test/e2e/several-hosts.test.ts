import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { openHostsWorld, type HostsWorld, type HostWorker } from '../../bench/hosts/hosts-world.ts';
import { whyNoNetwork } from '../../bench/hosts/network.ts';
import { rowsPerPage } from '../../bench/hosts/orders.ts';
import type { Call } from '../../bench/hosts/slow-service.ts';
import { differences, syncAll } from '../../bench/hosts/sync-all.ts';
import { mostInASecond, mostWithin, type Arrival } from '../support/jobs/recording-server.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

const kills = repeats('KILLS', { share: 0, full: 12 });
const seed = startSeed();
const options = {
  hosts: 4,
  connectors: 200,
  accounts: 4,
  pagesEach: 20,
  latencyMs: 50,
  requestsPerSecond: 20,
} as const;
const area = 'hosts';
/** Of the last host. The budgets and leases of all of them must hold nevertheless. */
const aheadMs = 60_000;

interface Kill {
  readonly address: string;
  readonly atMs: number;
}

// Proves promise 1.1
it.runIf(isLong)(
  'has four hosts read 200 connectors while they are killed in turn: each row once, a connector by one host at a time, each account within its budget',
  async ({ skip }) => {
    const why = whyNoNetwork();
    if (why !== null) skip(why);
    await using world = await openHostsWorld(options);
    const start = async (host: number): Promise<HostWorker> =>
      await world.startWorker(host, area, host === options.hosts - 1 ? aheadMs : 0);
    const workers = await Promise.all(Array.from({ length: options.hosts }, (_, host) => start(host)));
    await using jobs = await syncAll(world, world.connectors, area);
    const begunMs = performance.now();
    const killed = await killInTurn(workers, start);
    while ((await jobs.open()) > 0) await pause(200);
    const tookS = (performance.now() - begunMs) / 1_000;
    const calls = await world.calls();
    const perAccount = [...byName(calls, ({ account }) => account).values()].map((of) =>
      of.map(({ atMs, from }): Arrival => ({ at: atMs, from })),
    );
    const most = perAccount.map(mostInASecond);
    const changes = handovers(calls, killed);
    const waitedS = changes
      .map(({ afterMs }) => Math.round((afterMs ?? 0) / 1_000))
      .toSorted((a, b) => a - b);
    console.log(
      `${options.hosts} hosts, ${options.connectors} connectors, ${calls.length} calls in ${tookS.toFixed(1)} s, ${killed.length} kills (seed ${seed}); ` +
        `at ${options.requestsPerSecond} calls/s for each account, at most ${most.join(', ')} in any second; seconds from a kill to the next call by another host: ${waitedS.join(' ')}`,
    );

    expect(await differences(world, area, options.pagesEach)).toEqual([]);
    expect(await jobs.failed()).toBe(0);
    const rows = options.connectors * options.pagesEach * rowsPerPage;
    const { fetched, inserted } = await counted(world);
    expect(inserted).toBe(rows);
    // A run that was killed when it had stored its last page, and had not ended yet, is followed by one that reads the
    // whole shop.
    expect((fetched - rows) % (options.pagesEach * rowsPerPage), 'no single page was stored twice').toBe(0);
    expect(
      changes.filter(({ afterMs }) => afterMs === null),
      'a connector changes hands only by a kill',
    ).toEqual([]);
    // What left in time may arrive together where the machine is busy.
    expect(Math.max(...most)).toBeLessThanOrEqual(1.25 * options.requestsPerSecond);
    for (const arrivals of perAccount) {
      expect(mostWithin(5_000, arrivals)).toBeLessThanOrEqual(5 * options.requestsPerSecond + 3);
    }
    expect(new Set(calls.map(({ from }) => from)).size, 'all took part').toBe(options.hosts);
  },
  900_000,
);

async function killInTurn(
  workers: HostWorker[],
  start: (host: number) => Promise<HostWorker>,
): Promise<readonly Kill[]> {
  const random = seededRandom(seed);
  const killed: Kill[] = [];
  for (let done = 0; done < kills; done += 1) {
    await pause(500 + random() * 3_000);
    const host = done % workers.length;
    const worker = workers[host];
    if (worker === undefined) throw new RangeError(`there is no host ${host}`);
    const exited = once(worker.child, 'exit');
    worker.child.kill('SIGKILL');
    killed.push({ address: worker.address, atMs: performance.timeOrigin + performance.now() });
    await exited;
    workers[host] = await start(host);
  }
  return killed;
}

async function counted({
  postgres,
}: HostsWorld): Promise<{ readonly fetched: number; readonly inserted: number }> {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  try {
    const sums = 'sum(fetched)::integer AS fetched, sum(inserted)::integer AS inserted';
    const { rows } = await client.query<{ fetched: number; inserted: number }>(
      `SELECT ${sums} FROM ${area}._sync_counts`,
    );
    return rows[0] ?? { fetched: 0, inserted: 0 };
  } finally {
    await client.end();
  }
}

interface Handover {
  readonly shop: string;
  readonly page: number;
  /** Since its host was killed; null: it lived. */
  readonly afterMs: number | null;
}

/** A call that was under way when its host was killed. */
const underWayMs = 1_000;

/** Where another host read on. */
function handovers(calls: readonly Call[], killed: readonly Kill[]): readonly Handover[] {
  return [...byName(calls, ({ shop }) => shop)].flatMap(([shop, of]) =>
    of.flatMap((call, index) => {
      const before = of[index - 1];
      if (before === undefined || before.from === call.from) return [];
      const kill = killed.find(
        ({ address, atMs }) => address === before.from && atMs > before.atMs - underWayMs && atMs < call.atMs,
      );
      return [{ shop, page: call.page, afterMs: kill === undefined ? null : call.atMs - kill.atMs }];
    }),
  );
}

function byName(
  calls: readonly Call[],
  nameOf: (call: Call) => string,
): ReadonlyMap<string, readonly Call[]> {
  const found = new Map<string, Call[]>();
  for (const call of calls) {
    const known = found.get(nameOf(call));
    if (known === undefined) found.set(nameOf(call), [call]);
    else known.push(call);
  }
  return found;
}
