import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import { healthOf } from '../../../src/app/connector-health.ts';
import type { WithRetention } from '../../../src/app/connector-states.ts';
import { instant } from '../../../src/core/clock.ts';
import type { Failure } from '../../../src/core/errors.ts';
import { healthWords } from '../../../src/core/health.ts';
import type { ConnectorId, ConnectorName } from '../../../src/core/names.ts';
import { addCounts, noCounts, type PageCounts } from '../../../src/core/records.ts';
import { ConnectorBusyError, IdentityChangedError } from '../../../src/sinks/sink-errors.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import {
  accessSink,
  openServed,
  openExistingHistory,
  openExistingRecords,
} from '../../../src/sinks/registry.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { testProgram } from '../../support/ensure-built.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { repeats, startSeed } from '../../support/trials.ts';
import {
  counts,
  identity,
  member,
  news,
  page,
  report,
  type Bench,
  type SinkKind,
  type Started,
  walkFailure,
  resetScope,
  start,
  entityReport,
  hourMs,
  members,
  reading,
  sealed,
} from './fixture.ts';
import { useBench } from './use-bench.ts';

const holderProgram = testProgram('contracts/sink/holder-process.mjs');

export function holding(kind: SinkKind): void {
  const bench = useBench(kind);
  const children: ChildProcess[] = [];

  afterEach(async () => {
    await Promise.all(children.splice(0).map(kill));
  });

  /** Resolves when the other process holds the connector and has committed a page in run `r1`. */
  async function holdElsewhere({ folder }: Bench): Promise<ChildProcess> {
    const options = JSON.stringify(kind.options(folder));
    const child = fork(holderProgram, [options], { execArgv: ['--expose-gc'] });
    children.push(child);
    await once(child, 'message');
    return child;
  }

  // Proves promise 11
  it('refuses a connector that another process holds and names the holder, then is free at once when that one is killed', async () => {
    const sink = await bench().open();
    const child = await holdElsewhere(bench());
    const busy = await sink.acquire(identity()).catch((error: unknown) => error);
    expect(busy).toBeInstanceOf(ConnectorBusyError);
    expect(busy).toMatchObject({
      code: 'CONNECTOR_BUSY',
      recovery: 'stop',
      context: {
        connector: 'news',
        pid: child.pid,
        host: 'elsewhere',
        command: 'connector-sync worker',
        since: '2026-03-01T09:00:00.000Z',
      },
    });
    await using other = await sink.acquire(identity({ connector: 'wiki' as ConnectorName }));
    expect(other.connector).toBe('wiki');

    await kill(child);
    const lease = await acquireWithin(sink, kind.freeWithinMs ?? 0);
    expect(lease.epoch).toBe(2);
    const { begun, position, commit } = await bench().walking('r2', {}, { sink, lease });
    expect([begun.continues, position]).toEqual(['r1', { kind: 'offset', offset: 2 }]);
    const committed = await commit([member('1'), member('2'), member('3')]);
    expect(committed.counts[0]?.counts).toEqual(counts({ fetched: 3, duplicate: 2, inserted: 1 }));
    expect(await bench().rows()).toHaveLength(3);
  });

  it('refuses a connector that this process holds already, through the same sink or another', async () => {
    const { sink, lease } = await bench().hold();
    await expect(sink.acquire(identity())).rejects.toThrow(ConnectorBusyError);
    const other = await bench().open();
    await expect(other.acquire(identity())).rejects.toThrow(
      /held by process \d+ on here since .*connector-sync sync news/,
    );
    await expect(sink.acquire(identity()), 'a refusal does not loosen the lock').rejects.toThrow(
      ConnectorBusyError,
    );
    await lease[Symbol.asyncDispose]();
    await lease[Symbol.asyncDispose]();
    expect((await other.acquire(identity())).epoch).toBe(2);
  });

  it('gives every connector back when the sink is closed', async () => {
    const sink = await bench().open();
    await sink.acquire(identity());
    await sink[Symbol.asyncDispose]();
    await sink[Symbol.asyncDispose]();
    const other = await bench().open();
    await expect(other.acquire(identity())).resolves.toMatchObject({ connector: news });
  });

  it('refuses every call of a lease that was given back', async () => {
    const { sink, lease, commit, finish, release } = await bench().walking();
    await release();
    await using again = await sink.acquire(identity());
    expect(again.epoch).toBe(2);
    for (const call of [
      async () => await commit([member('1')]),
      async () => await sink.left(lease),
      finish,
    ]) {
      await expect(call()).rejects.toMatchObject({ code: 'FENCED' });
    }
  });

  // Proves promise 11
  it('refuses every call of a holder that another one has overtaken, and stores nothing', async () => {
    const { sink, started, id, commit, finish } = await bench().walking();
    await bench().overtake();
    const walk = { partition: id, run: started.run };
    const why = walkFailure({ message: '', at: '', dropPosition: true });
    const fenced = { code: 'FENCED', recovery: 'retry' };
    await expect(commit([member('1')])).rejects.toMatchObject(fenced);
    await expect(sink.setAside(started.lease, walk, why)).rejects.toMatchObject(fenced);
    await expect(sink.nextPartitions(started.lease, 1)).rejects.toMatchObject(fenced);
    await expect(finish()).rejects.toMatchObject(fenced);
    await expect(sink.startRun(started.lease, bench().plan('r2'))).rejects.toMatchObject(fenced);
    expect(await bench().rows()).toEqual([]);
    expect(await sink.history.failures(news, 1)).toEqual([]);
  });

  it.each([
    ['base URL', { baseUrl: 'https://other.example.test' }, 'https://other.example.test'],
    ['connector id', { connectorId: 'c-2' as ConnectorId }, 'c-2'],
    ['definition', { definition: 'workspace-notes' }, 'workspace-notes'],
  ])(
    'refuses another %s under the same name once rows are stored, naming both',
    async (what, change, given) => {
      const sink = await bench().open();
      const empty = await sink.acquire(identity({ ...change, definition: 'other' }));
      await empty[Symbol.asyncDispose]();
      const { commit, release } = await bench().walking('r1', {}, { sink });
      await commit([member('1')]);
      await release();
      const refused = await sink.acquire(identity(change)).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(IdentityChangedError);
      expect(refused).toMatchObject({
        code: 'IDENTITY_CHANGED',
        message: expect.stringContaining(given) as string,
      });
      expect(String(refused)).toContain(`${what} was `);
      await expect(sink.acquire(identity()), 'the lock is free again').resolves.toMatchObject({ epoch: 3 });
    },
  );

  it('refuses a connector whose tables would be those of another', async () => {
    const sink = await bench().open();
    await sink.acquire(identity({ connector: 'my-news' as ConnectorName }));
    await expect(sink.acquire(identity({ connector: 'my_news' as ConnectorName }))).rejects.toMatchObject({
      code: 'SINK_INCOMPATIBLE',
    });
  });
}

async function acquireWithin(sink: Sink, ms: number): Promise<Lease> {
  const startedMs = performance.now();
  for (;;) {
    try {
      return await sink.acquire(identity());
    } catch (error) {
      if (!(error instanceof ConnectorBusyError) || performance.now() - startedMs > ms) throw error;
    }
    await pause(200);
  }
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }
}

export function opening(kind: SinkKind): void {
  const bench = useBench(kind);

  it('keeps its id and its records when it is opened again, also by two at once', async () => {
    const [first, second] = await Promise.all([bench().open(), bench().open()]);
    expect(first.id).toMatch(/^[0-9a-f-]{36}$/);
    expect(second.id).toBe(first.id);
    await first[Symbol.asyncDispose]();
    expect((await bench().open()).id).toBe(first.id);
  });

  it('gives its history without a lease, while another holds the connector, and cannot write', async () => {
    const sink = await bench().open();
    const { run } = await bench().begin(sink, 'r1');
    await using history = await bench().openHistory();
    expect(await history.runs({ limit: 5 })).toEqual(await sink.history.runs({ connector: news, limit: 5 }));
    expect(await history.run(run)).toMatchObject({ run: 'r1', connector: 'news', state: 'running' });
    expect(await history.connectors()).toMatchObject([
      {
        connector: 'news',
        definition: 'email-marketing',
        connectorId: 'c-1',
        baseUrl: 'https://api.example.test',
        lastHolder: identity().holder,
      },
    ]);
    expect((await history.connectors())[0]?.lastRun).toMatchObject({ run: 'r1' });
  });

  it('says so when there is no sink to read the history of, and makes none', async () => {
    await expect(bench().openHistory()).rejects.toThrow(/There is no sink at .* yet/);
    const access = accessSink(kind.options(bench().folder));
    expect(await access.isThere()).toBe(false);
    expect(await openExistingHistory(kind.options(bench().folder))).toBeNull();
    expect(await openExistingRecords(kind.options(bench().folder))).toBeNull();
    expect(readdirSync(bench().folder)).toEqual([]);
    const sink = await bench().open();
    expect(await access.isThere()).toBe(true);
    expect(await sink.isInPlace()).toBe(true);
    await using history = await bench().openHistory();
    expect(history.sinkId).toBe(sink.id);
  });

  it('is served as it is now, and gives the same overview object until it has changed', async () => {
    const sink = await bench().open();
    const served = await openServed(kind.options(bench().folder), {
      durability: 'normal',
      clock: bench().clock,
    });
    await using _served = served;
    expect([served.sinkId, await served.lost(), await served.problem()]).toEqual([sink.id, null, null]);
    const before = await served.overview();
    expect(await served.overview()).toBe(before);
    await sink.pause([news], { since: instant(start), reason: 'moving house' });
    expect(await served.pause(news)).toMatchObject({ reason: 'moving house' });
    expect(await served.paused()).toEqual(new Set([news]));
    expect((await served.overview()).get(news)?.paused?.reason).toBe('moving house');
    const { run } = await bench().begin(sink, 'r1');
    expect(await served.lastRun(news)).toMatchObject({ run, state: 'running' });
    expect(await served.freshness(news)).toEqual(await sink.history.freshness(news));
  });
}

const seed = startSeed(7);
const names = [news, ...(['mail', 'shop'] as const).map((name) => name as ConnectorName)];

/** What may become of a connector whose records may be six hours old. */
const settings: WithRetention = {
  definition: { entities: new Map() },
  entities: new Map([[members, { freshWithinMs: 6 * hourMs } as never]]),
};

export function serving(kind: SinkKind): void {
  const bench = useBench(kind);

  it(`answers as a ledger that is read from the beginning, after any change (SEED=${seed})`, async () => {
    const sink = await bench().open();
    const { clock } = bench();
    await using served = await openServed(kind.options(bench().folder), {
      durability: 'normal',
      clock,
    });
    const random = seededRandom(seed);
    const act = randomActs(bench(), sink, random);
    const seen = new Set<string>();
    const isSqlite = kind.options('/nowhere').type === 'sqlite';
    const trials = repeats('TRIALS', { share: isSqlite ? 120 : 40, full: 1_000 });
    for (let trial = 0; trial < trials; trial += 1) {
      const did = await act();
      const known = await served.overviewNow();
      const all = await sink.history.overview();
      expect(new Map(known), `${trial}: ${did}`).toEqual(new Map(all.map((one) => [one.connector, one])));
      expect(await served.overviewNow(), 'nothing has changed since').toBe(known);
      clock.advance(Math.floor(random() * 0.5 * hourMs));
      for (const name of names) seen.add(healthOf(settings, known.get(name) ?? null, clock.now()).word);
    }
    if (trials < 120) return;
    expect(seen, 'the acts lead to everything that can be').toEqual(new Set(healthWords));
  });
}

const refused: Failure = { code: 'AUTH_FAILED', recovery: 'stop', message: 'the key was revoked' };

interface Held {
  readonly lease: Lease;
  readonly started: Started | null;
  readonly counts: PageCounts;
}

/** Each call does one thing to one connector, as another process might, and says what. */
function randomActs(bench: Bench, sink: Sink, random: () => number): () => Promise<string> {
  const held = new Map<ConnectorName, Held>();
  const oneOf = <Of>(all: readonly [Of, ...Of[]]): Of => all[Math.floor(random() * all.length)] ?? all[0];
  let runs = 0;
  const begin = async (connector: ConnectorName): Promise<string> => {
    const lease = await sink.acquire(identity({ connector }));
    held.set(connector, { lease, started: null, counts: noCounts });
    if (random() < 0.1) return `took ${connector}`;
    const fullBefore = instant(bench.clock.now());
    const plan = bench.plan(`r${(runs += 1)}`, { reading: new Map([[members, reading({ fullBefore })]]) });
    await sink.startRun(lease, plan);
    held.set(connector, { lease, started: { lease, run: plan.run }, counts: noCounts });
    return `began ${connector}`;
  };
  const release = async (connector: ConnectorName, { lease }: Held): Promise<string> => {
    held.delete(connector);
    await lease[Symbol.asyncDispose]();
    return `left ${connector}`;
  };
  const store = async (connector: ConnectorName, of: Held, started: Started): Promise<string> => {
    const [next] = await sink.nextPartitions(started.lease, 1);
    if (next === undefined) return 'nothing to read';
    const records = Array.from({ length: 1 + Math.floor(random() * 5) }, () =>
      member(String(Math.floor(random() * 100)), oneOf(['Ada', 'Bea'])),
    );
    const [committed] = await sink.commit(started.lease, [
      page(started, next.id, records, random() < 0.7 ? { seal: { ...sealed, absence: 'nothing' } } : {}),
    ]);
    const counts = (committed?.counts ?? []).reduce((sum, one) => addCounts(sum, one.counts), of.counts);
    held.set(connector, { ...of, counts });
    return `stored ${records.length}`;
  };
  const finish = async (connector: ConnectorName, of: Held, started: Started): Promise<string> => {
    const outcome = oneOf(['ok', 'ok', 'ok', 'partial', 'degraded', 'failed'] as const);
    const error: Failure | null =
      outcome === 'failed' ? { code: 'TIMEOUT', recovery: 'retry', message: 'no answer' } : null;
    const entities = of.counts.fetched === 0 ? [] : [entityReport(members, of.counts)];
    const at = instant(bench.clock.now());
    await sink.finish(
      started.lease,
      started.run,
      report(started, { connector, outcome, finishedAt: at, error, entities }),
    );
    return `${outcome}, ${await release(connector, of)}`;
  };
  return async () => {
    const connector = oneOf([news, ...names.slice(1)]);
    if (random() < 0.06) {
      await sink.pause([connector], { since: instant(bench.clock.now()), reason: `reason ${random()}` });
      return `paused ${connector}`;
    }
    if (random() < 0.2) return `resumed ${connector}: ${(await sink.resume([connector])).size}`;
    const of = held.get(connector);
    if (of === undefined) {
      if (random() < 0.15) {
        const failed = { connector, outcome: 'failed', error: refused } as const;
        await sink.enterFailedStart(report({ run: `x${(runs += 1)}` } as unknown as Started, failed));
        return `refused ${connector}`;
      }
      if (random() < 0.8) return await begin(connector);
      return await sink.repair.reset(connector, resetScope({ now: instant(bench.clock.now()) })).then(
        () => `reset ${connector}`,
        () => `nothing of ${connector} to reset`,
      );
    }
    if (of.started === null || random() < 0.1) return await release(connector, of);
    return random() < 0.5 ? await store(connector, of, of.started) : await finish(connector, of, of.started);
  };
}
