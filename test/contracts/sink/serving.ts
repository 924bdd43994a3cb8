import { expect, it } from 'vitest';
import { healthWords } from '../../../src/core/health.ts';
import { healthOf } from '../../../src/app/connector-health.ts';
import type { WithRetention } from '../../../src/app/connector-states.ts';
import { instant } from '../../../src/core/clock.ts';
import type { Failure } from '../../../src/core/errors.ts';
import type { ConnectorName } from '../../../src/core/names.ts';
import { addCounts, noCounts, type PageCounts } from '../../../src/core/records.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import { accessSink } from '../../../src/sinks/registry.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { repeats, startSeed } from '../../support/trials.ts';
import {
  entityReport,
  hourMs,
  identity,
  member,
  members,
  membersTable,
  news,
  opensTable,
  page,
  reading,
  report,
  sealed,
  type Bench,
  type SinkKind,
  type Started,
} from './fixture.ts';
import { useBench } from './use-bench.ts';

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
    await using served = await accessSink(kind.options(bench().folder)).openServed({
      durability: 'normal',
      clock,
    });
    const random = seededRandom(seed);
    const act = randomActs(bench(), sink, random);
    const seen = new Set<string>();
    const trials = repeats('TRIALS', { share: 120, full: 1_000 });
    for (let trial = 0; trial < trials; trial += 1) {
      const did = await act();
      const known = await served.overviewNow();
      const all = await sink.history.overview();
      expect(new Map(known), `${trial}: ${did}`).toEqual(new Map(all.map((one) => [one.connector, one])));
      expect(await served.overviewNow(), 'nothing has changed since').toBe(known);
      clock.advance(Math.floor(random() * 0.5 * hourMs));
      for (const name of names) seen.add(healthOf(settings, known.get(name) ?? null, clock.now()).word);
    }
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
      const what = { entity: null, tables: [membersTable, opensTable], withData: true };
      return await sink.repair.reset(connector, { ...what, now: instant(bench.clock.now()) }).then(
        () => `reset ${connector}`,
        () => `nothing of ${connector} to reset`,
      );
    }
    if (of.started === null || random() < 0.1) return await release(connector, of);
    return random() < 0.5 ? await store(connector, of, of.started) : await finish(connector, of, of.started);
  };
}
