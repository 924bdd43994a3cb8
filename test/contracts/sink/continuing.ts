import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { Position } from '../../../src/sinks/partition.ts';
import type { RunOutcome, RunReport } from '../../../src/sinks/run-report.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import {
  counts,
  entityReport,
  hourMs,
  identity,
  member,
  members,
  news,
  onlyPartition,
  page,
  partition,
  sealed,
  report,
  rootOf,
  type Bench,
  type SinkKind,
  type Started,
  walkFailure,
} from './fixture.ts';
import { rulesOf, useBench } from './use-bench.ts';

/** A run that stored one page of `members` and did not get further. */
async function halfRun(
  bench: Bench,
  change: Partial<RunPlan> = {},
): Promise<{ sink: Sink; started: Started; id: number }> {
  const { sink, started, id, commit } = await bench.walking('r1', change);
  await commit([member('1')], { position: { kind: 'offset', offset: 7 } });
  return { sink, started, id };
}

const half = (started: Started, outcome: RunOutcome): RunReport =>
  report(started, { outcome, entities: [entityReport(members, { fetched: 1, inserted: 1 })] });

async function positions(sink: Sink, lease: Lease): Promise<unknown[]> {
  return (await sink.nextPartitions(lease, 10)).map(({ position }) => position);
}

const fresh = { continues: null, due: 1 };
const continued = { continues: 'r1', due: 1 };

export function continuing(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  it('starts from the beginning in an empty sink, with the roots of the plan', async () => {
    const { sink, lease } = await bench().hold();
    expect(await sink.nextPartitions(lease, 5)).toEqual([]);
    const roots = [
      rootOf(members),
      partition(members, { status: 'archived', deep: { b: 1, a: [true, null] } }),
    ];
    expect(await sink.startRun(lease, bench().plan('r1', { roots }))).toEqual({
      run: 'r1',
      continues: null,
      due: 2,
      isFull: false,
      earlier: [],
      wrote: [],
      found: [],
      rawKey: expect.any(String) as string,
    });
    expect(await sink.nextPartitions(lease, 5)).toMatchObject(
      roots.map(({ params }) => ({ params, position: null })),
    );
  });

  everywhere('reports what all earlier runs of the chain counted, and nothing of other chains', async () => {
    const { sink, started } = await halfRun(bench());
    const limited = { ...entityReport(members, { fetched: 1, inserted: 1 }), depthLimited: 2 };
    await sink.finish(
      started.lease,
      started.run,
      report(started, { outcome: 'partial', entities: [limited] }),
    );
    const second = { lease: started.lease, run: 'r2' as Started['run'] };
    await sink.startRun(second.lease, bench().plan('r2'));
    const { id } = await onlyPartition(sink, second.lease);
    const refused = { entity: members, reason: 'key-missing', detail: 'no id', record: '{}' } as const;
    await sink.commit(second.lease, [
      page(second, id, [member('2')], { fetched: 2, refused: [refused], seal: null }),
    ]);
    await second.lease[Symbol.asyncDispose]();
    const lease = await sink.acquire(identity());
    expect((await sink.startRun(lease, bench().plan('r3'))).earlier).toEqual([
      { entity: members, fetched: 3, quarantined: 1, duplicate: 0, depthLimited: 2 },
    ]);
    const late = bench().plan('r4', { continueAfter: instant(bench().clock.now() + hourMs) });
    expect((await sink.startRun(lease, late)).earlier).toEqual([]);
  });

  // Proves promise 1
  everywhere('resumes a killed run: same position, same seen rows', async () => {
    const { started } = await halfRun(bench());
    await started.lease[Symbol.asyncDispose]();
    const sink = await bench().open();
    const next = { lease: await sink.acquire(identity()), run: 'r2' as Started['run'] };
    expect(await sink.history.run('r1' as Started['run'])).toMatchObject({
      state: 'interrupted',
      report: null,
      finishedAt: null,
    });
    expect(await sink.startRun(next.lease, bench().plan('r2'))).toEqual({
      run: 'r2',
      ...continued,
      isFull: false,
      earlier: [{ entity: members, fetched: 1, quarantined: 0, duplicate: 0, depthLimited: 0 }],
      found: [{ entity: members, parent: null, isTree: false, sealed: 0, ready: 1 }],
      wrote: ['r1'],
      rawKey: expect.any(String) as string,
    });
    const { id, position } = await onlyPartition(sink, next.lease);
    expect(position).toEqual({ kind: 'offset', offset: 7 });
    const [committed] = await sink.commit(next.lease, [page(next, id, [member('1'), member('2')])]);
    expect(committed?.counts[0]?.counts).toEqual(counts({ fetched: 2, duplicate: 1, inserted: 1 }));
    expect(await sink.history.run(next.run)).toMatchObject({ state: 'running', continues: 'r1' });
  });

  everywhere.each(['ok', 'degraded'] as const)(
    'starts from the beginning after a run that ended as %s, though something is due',
    async (outcome) => {
      const { sink, started, id } = await halfRun(bench());
      await sink.finish(started.lease, started.run, half(started, outcome));
      expect(await sink.startRun(started.lease, bench().plan('r2'))).toMatchObject(fresh);
      expect(await positions(sink, started.lease)).toEqual([null]);
      const next = { ...started, run: 'r2' as Started['run'] };
      const [committed] = await sink.commit(started.lease, [page(next, id, [member('1')])]);
      expect(committed?.counts[0]?.counts, 'nothing is seen yet').toEqual(
        counts({ fetched: 1, unchanged: 1 }),
      );
    },
  );

  it('starts from the beginning when the newest run that stored something began before the plan allows, and resumes a chain of any age', async () => {
    const { sink, started } = await halfRun(bench());
    const began = instant(bench().clock.now());
    bench().clock.advance(hourMs);
    expect(
      await sink.startRun(
        started.lease,
        bench().plan('r2', { continueAfter: instant(Date.parse(began) - 1) }),
      ),
    ).toMatchObject(continued);
    const later = instant(bench().clock.now());
    expect(await sink.startRun(started.lease, bench().plan('r3', { continueAfter: later }))).toMatchObject(
      fresh,
    );
    expect(await positions(sink, started.lease)).toEqual([null]);
  });

  // Proves promise 8.3
  it('counts the age of a run that the service kept waiting from the end of its wait', async () => {
    const { sink, started } = await halfRun(bench());
    const began = bench().clock.now();
    const resumeAt = instant(began + hourMs);
    await sink.finish(started.lease, started.run, { ...half(started, 'partial'), resumeAt });
    expect(
      await sink.startRun(started.lease, bench().plan('r2', { continueAfter: instant(began + hourMs - 1) })),
    ).toMatchObject(continued);
  });

  it('starts from the beginning when the unfinished run left nothing due', async () => {
    const { sink, started, id } = await halfRun(bench());
    await sink.commit(started.lease, [page(started, id, [], { seal: sealed })]);
    expect(await sink.startRun(started.lease, bench().plan('r2'))).toMatchObject(fresh);
  });

  // Proves promise 8
  it('leaves a partition that was set aside out of the run, keeps its position and tries it in the next', async () => {
    const { sink, started, id } = await halfRun(bench());
    const why = walkFailure({ message: '500 again', at: instant(bench().clock.now()) });
    await sink.setAside(started.lease, { partition: id, run: started.run }, why);
    expect(await sink.nextPartitions(started.lease, 5)).toEqual([]);
    expect(await sink.history.failures(news, 5)).toEqual([{ entity: members, params: {}, failure: why }]);
    await sink.finish(started.lease, started.run, half(started, 'failed'));
    expect(await sink.startRun(started.lease, bench().plan('r2'))).toMatchObject(continued);
    expect(await positions(sink, started.lease)).toEqual([{ kind: 'offset', offset: 7 }]);
    const next = { ...started, run: 'r2' as Started['run'] };
    await sink.commit(started.lease, [page(next, id, [], { seal: sealed })]);
    expect(await sink.history.failures(news, 5)).toEqual([]);
  });

  it.each<[string, Partial<RunPlan>, (Position | null)[]]>([
    ['resumes where a set-aside walk stopped', { leaves: [members] }, [{ kind: 'offset', offset: 7 }]],
    ['restarts a set-aside walk where it leads to other entities', { leaves: [] }, [null]],
    [
      'restarts a set-aside walk that failed too long ago',
      { leaves: [members], continueAfter: '2999-01-01T00:00:00.000Z' },
      [null],
    ],
  ])('%s, in a fresh start', async (_what, change, expected) => {
    const { sink, started, id } = await halfRun(bench());
    const at = instant(bench().clock.now());
    const why = walkFailure({ at });
    await sink.setAside(started.lease, { partition: id, run: started.run }, why);
    await sink.finish(started.lease, started.run, half(started, 'degraded'));
    expect(await sink.startRun(started.lease, bench().plan('r2', change))).toMatchObject(fresh);
    expect(await positions(sink, started.lease)).toEqual(expected);
  });

  it('drops the position of a partition set aside because its walk cannot resume there', async () => {
    const { sink, started, id } = await halfRun(bench());
    const why = walkFailure({
      code: 'TOKEN_EXPIRED',
      recovery: 'restart-walk',
      message: 'expired',
      at: instant(bench().clock.now()),
      dropPosition: true,
    });
    await sink.setAside(started.lease, { partition: id, run: started.run }, why);
    expect(await sink.startRun(started.lease, bench().plan('r2'))).toMatchObject(continued);
    expect(await positions(sink, started.lease)).toEqual([null]);
  });

  it('leaves a child as it is when its chain finds it again: in progress, sealed or set aside', async () => {
    const { sink, started, id } = await halfRun(bench());
    const children = ['walking', 'sealed', 'aside'].map((name) => partition(members, { name }, { rank: 1 }));
    await sink.commit(started.lease, [page(started, id, [], { children })]);
    const idOf = new Map(
      (await sink.nextPartitions(started.lease, 5)).map((one) => [one.params['name'], one.id]),
    );
    await sink.commit(started.lease, [
      page(started, idOf.get('walking') ?? 0, [], { position: { kind: 'offset', offset: 3 } }),
      page(started, idOf.get('sealed') ?? 0, [], { seal: sealed }),
    ]);
    const why = walkFailure({ message: 'no', at: instant(0) });
    await sink.setAside(started.lease, { partition: idOf.get('aside') ?? 0, run: started.run }, why);
    const [again] = await sink.commit(started.lease, [page(started, id, [], { children })]);
    expect(again?.newlyDue).toBe(0);
    expect(await positions(sink, started.lease)).toEqual([
      { kind: 'offset', offset: 3 },
      { kind: 'offset', offset: 0 },
    ]);
  });

  it('makes a child of an earlier chain due again, from the start, with what its parent says now', async () => {
    const { sink, started, id } = await halfRun(bench());
    const child = partition(members, { n: 1 }, { rank: 1, inject: { list: 'old' } });
    await sink.commit(started.lease, [page(started, id, [], { children: [child], seal: sealed })]);
    const { id: childId } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, childId, [])]);
    await sink.finish(started.lease, started.run, half(started, 'ok'));
    await sink.startRun(started.lease, bench().plan('r2'));
    const next = { ...started, run: 'r2' as Started['run'] };
    const found = { ...child, inject: { list: 'new' } };
    const [committed] = await sink.commit(started.lease, [page(next, id, [], { children: [found] })]);
    expect(committed?.newlyDue).toBe(1);
    expect(await sink.nextPartitions(started.lease, 1)).toMatchObject([
      { id: childId, position: null, inject: { list: 'new' } },
    ]);
  });

  /** A run that was refused before it began. */
  const refused = (run: string): RunReport =>
    report({ run: run as Started['run'] } as Started, {
      outcome: 'failed',
      error: { code: 'AUTH_FAILED', recovery: 'stop', message: 'refused' },
    });

  everywhere('resumes a run across runs that could not begin, and shows these as the newest', async () => {
    const { sink, started } = await halfRun(bench());
    const missing = { ...entityReport(members, { fetched: 1, inserted: 1 }), withheld: 3 };
    await sink.finish(started.lease, started.run, { ...half(started, 'partial'), entities: [missing] });
    await started.lease[Symbol.asyncDispose]();
    await sink.enterFailedStart(refused('x1'));
    const [overview] = await sink.history.overview();
    expect(overview).toMatchObject({
      lastRun: { run: 'x1', state: 'failed' },
      lastEnded: { run: 'x1' },
      error: { code: 'AUTH_FAILED', message: 'refused' },
      missing: [{ entity: members, withheld: 3 }],
    });
    expect(await sink.history.run('x1' as Started['run'])).toMatchObject({ report: refused('x1') });
    expect(await sink.history.connectors()).toMatchObject([{ lastRun: { run: 'r1' } }]);
    expect(await sink.history.scopeChanges(news, 5)).toEqual([]);
    const lease = await sink.acquire(identity());
    expect(await sink.startRun(lease, bench().plan('r2'))).toMatchObject(continued);
  });

  everywhere(
    'keeps what was read for a connector of which no run could begin: nothing, under no identity',
    async () => {
      const sink = await bench().open();
      await sink.enterFailedStart(refused('x1'));
      expect(await sink.history.overview()).toMatchObject([
        { identity: null, lastRun: { run: 'x1' }, rows: 0 },
      ]);
      expect(await sink.history.connectors()).toEqual([]);
      // Neither its address nor its name keeps others from being synced.
      const alike = { connector: 'ne_ws' as typeof news };
      await sink.enterFailedStart({ ...refused('x2'), ...alike });
      const lease = await sink.acquire(identity({ baseUrl: 'https://elsewhere.test' }));
      expect(await sink.startRun(lease, bench().plan('r1'))).toMatchObject(fresh);
      expect(await sink.history.connectors()).toMatchObject([{ baseUrl: 'https://elsewhere.test' }]);
      await expect(sink.enterFailedStart(refused('x3'))).rejects.toMatchObject({ code: 'CONNECTOR_BUSY' });
    },
  );

  it('keeps a hundred runs that could not begin, and the runs that others resume', async () => {
    const { sink, started } = await halfRun(bench());
    await sink.finish(started.lease, started.run, half(started, 'partial'));
    await started.lease[Symbol.asyncDispose]();
    for (let at = 1; at <= 103; at += 1) await sink.enterFailedStart(refused(`x${at}`));
    const kept = await sink.history.runs({ connector: news, limit: 1_000 });
    expect(kept.map(({ run }) => run)).toEqual([
      ...Array.from({ length: 100 }, (_, at) => `x${103 - at}`),
      'r1',
    ]);
  });
}
