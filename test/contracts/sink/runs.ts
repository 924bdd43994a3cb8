import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { RunId } from '../../../src/core/names.ts';
import type { Quarantined } from '../../../src/core/records.ts';
import type { Position } from '../../../src/sinks/partition.ts';
import type { RunReport } from '../../../src/sinks/run-report.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import { isLong } from '../../support/trials.ts';
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
  dayMs,
  start,
  lists,
  listsTable,
  membersTable,
  opens,
  opensTable,
  record,
} from './fixture.ts';
import { type RunInHand, list, membersOf, readingOf, beginLists, whole } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

/** A run that stored one page of `members` and did not get further. */
async function halfRun(bench: Bench) {
  const half = await bench.walking();
  await half.commit([member('1')], { position: { kind: 'offset', offset: 7 } });
  return half;
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
      rawKey: expect.any(String) as string,
    });
    expect(await sink.nextPartitions(lease, 5)).toMatchObject(
      roots.map(({ params }) => ({ params, position: null })),
    );
  });

  everywhere('reports what all earlier runs of the chain counted, and nothing of other chains', async () => {
    const half = await halfRun(bench());
    const { sink } = half;
    const limited = { ...entityReport(members, { fetched: 1, inserted: 1 }), depthLimited: 2 };
    await half.finish({ outcome: 'partial', entities: [limited] });
    const second = await bench().walking('r2', {}, half);
    const refused = { entity: members, reason: 'key-missing', detail: 'no id', record: '{}' } as const;
    await second.commit([member('2')], { fetched: 2, refused: [refused] });
    await second.release();
    const lease = await sink.acquire(identity());
    expect((await sink.startRun(lease, bench().plan('r3'))).earlier).toEqual([
      { entity: members, fetched: 3, quarantined: 1, duplicate: 0, depthLimited: 2 },
    ]);
    const late = bench().plan('r4', { continueAfter: instant(bench().clock.now() + hourMs) });
    expect((await sink.startRun(lease, late)).earlier).toEqual([]);
  });

  // Proves promise 1
  everywhere('resumes a killed run: same position, same seen rows', async () => {
    const { release } = await halfRun(bench());
    await release();
    const { sink, begun, run, commit, position } = await bench().walking('r2');
    expect(await sink.history.run('r1' as Started['run'])).toMatchObject({
      state: 'interrupted',
      report: null,
      finishedAt: null,
    });
    expect(begun).toEqual({
      run: 'r2',
      ...continued,
      isFull: false,
      earlier: [{ entity: members, fetched: 1, quarantined: 0, duplicate: 0, depthLimited: 0 }],
      wrote: ['r1'],
      rawKey: expect.any(String) as string,
    });
    expect(position).toEqual({ kind: 'offset', offset: 7 });
    const committed = await commit([member('1'), member('2')]);
    expect(committed.counts[0]?.counts).toEqual(counts({ fetched: 2, duplicate: 1, inserted: 1 }));
    expect(await sink.history.run(run)).toMatchObject({ state: 'running', continues: 'r1' });
  });

  // Proves promise 8.3
  it('counts the age of a run that the service kept waiting from the end of its wait', async () => {
    const half = await halfRun(bench());
    const began = bench().clock.now();
    await half.finish({ outcome: 'partial', resumeAt: instant(began + hourMs) });
    const late = { continueAfter: instant(began + hourMs - 1) };
    expect((await bench().walking('r2', late, half)).begun).toMatchObject(continued);
  });

  // Proves promise 8
  it('leaves a partition that was set aside out of the run, keeps its position and tries it in the next', async () => {
    const half = await halfRun(bench());
    const { sink, started, id } = half;
    const why = walkFailure({ message: '500 again', at: instant(bench().clock.now()) });
    await sink.setAside(started.lease, { partition: id, run: started.run }, why);
    expect(await sink.nextPartitions(started.lease, 5)).toEqual([]);
    expect(await sink.history.failures(news, 5)).toEqual([{ entity: members, params: {}, failure: why }]);
    await half.finish({ outcome: 'failed' });
    const { begun, position, commit } = await bench().walking('r2', {}, half);
    expect([begun, position]).toMatchObject([continued, { kind: 'offset', offset: 7 }]);
    await commit([], { seal: sealed });
    expect(await sink.history.failures(news, 5)).toEqual([]);
  });

  it.each<[string, Partial<RunPlan>, Position | null]>([
    ['resumes where a set-aside walk stopped', { leaves: [members] }, { kind: 'offset', offset: 7 }],
    ['restarts a set-aside walk where it leads to other entities', { leaves: [] }, null],
    [
      'restarts a set-aside walk that failed too long ago',
      { leaves: [members], continueAfter: '2999-01-01T00:00:00.000Z' },
      null,
    ],
  ])('%s, in a fresh start', async (_what, change, expected) => {
    const half = await halfRun(bench());
    const why = walkFailure({ at: instant(bench().clock.now()) });
    await half.sink.setAside(half.lease, { partition: half.id, run: half.run }, why);
    await half.finish({ outcome: 'degraded' });
    const { begun, position } = await bench().walking('r2', change, half);
    expect([begun, position]).toMatchObject([fresh, expected]);
  });

  it('drops the position of a partition set aside because its walk cannot resume there', async () => {
    const half = await halfRun(bench());
    const why = walkFailure({
      code: 'TOKEN_EXPIRED',
      recovery: 'restart-walk',
      message: 'expired',
      at: instant(bench().clock.now()),
      dropPosition: true,
    });
    await half.sink.setAside(half.lease, { partition: half.id, run: half.run }, why);
    const { begun, position } = await bench().walking('r2', {}, half);
    expect([begun, position]).toMatchObject([continued, null]);
  });

  it('leaves a child as it is when its chain finds it again: in progress, sealed or set aside', async () => {
    const { sink, started, commit } = await halfRun(bench());
    const children = ['walking', 'sealed', 'aside'].map((name) => partition(members, { name }, { rank: 1 }));
    await commit([], { children });
    const idOf = new Map(
      (await sink.nextPartitions(started.lease, 5)).map((one) => [one.params['name'], one.id]),
    );
    await sink.commit(started.lease, [
      page(started, idOf.get('walking') ?? 0, [], { position: { kind: 'offset', offset: 3 } }),
      page(started, idOf.get('sealed') ?? 0, [], { seal: sealed }),
    ]);
    const why = walkFailure({ message: 'no', at: instant(0) });
    await sink.setAside(started.lease, { partition: idOf.get('aside') ?? 0, run: started.run }, why);
    expect((await commit([], { children })).newlyDue).toBe(0);
    expect((await sink.nextPartitions(started.lease, 10)).map(({ position }) => position)).toEqual([
      { kind: 'offset', offset: 3 },
      { kind: 'offset', offset: 0 },
    ]);
  });

  it('makes a child of an earlier chain due again, from the start, with what its parent says now', async () => {
    const half = await halfRun(bench());
    const { sink, started } = half;
    const child = partition(members, { n: 1 }, { rank: 1, inject: { list: 'old' } });
    await half.commit([], { children: [child], seal: sealed });
    const { id: childId } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, childId, [])]);
    await half.finish();
    const next = await bench().walking('r2', {}, half);
    const found = { ...child, inject: { list: 'new' } };
    expect((await next.commit([], { children: [found] })).newlyDue).toBe(1);
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
    const { sink, finish, release } = await halfRun(bench());
    const missing = { ...entityReport(members, { fetched: 1, inserted: 1 }), withheld: 3 };
    await finish({ outcome: 'partial', entities: [missing] });
    await release();
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
    expect((await bench().walking('r2', {}, { sink })).begun).toMatchObject(continued);
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
    const { sink, finish, release } = await halfRun(bench());
    await finish({ outcome: 'partial' });
    await release();
    for (let at = 1; at <= 103; at += 1) await sink.enterFailedStart(refused(`x${at}`));
    const kept = await sink.history.runs({ connector: news, limit: 1_000 });
    expect(kept.map(({ run }) => run)).toEqual([
      ...Array.from({ length: 100 }, (_, at) => `x${103 - at}`),
      'r1',
    ]);
  });
}

export function finishing(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  const count = (table: string, where?: string): Promise<unknown> => bench().count(table, where);

  async function runWithOneRecord() {
    const walk = await bench().walking();
    await walk.commit([member('1')], { seal: sealed });
    return walk;
  }

  everywhere('stores the report word for word, bigints in parameters too', async () => {
    const { sink, started } = await runWithOneRecord();
    const failure = {
      entity: members,
      params: { id: 9_007_199_254_740_993n },
      code: 'NOT_FOUND',
      recovery: 'skip-partition',
      message: 'gone',
    } as const;
    const entities = [entityReport(members, { fetched: 1, inserted: 1 })];
    const stored = report(started, { entities, outcome: 'degraded', failures: [failure] });
    await sink.finish(started.lease, started.run, stored);
    expect(await sink.history.run(started.run)).toEqual({
      run: 'r1',
      kind: 'sync',
      connector: news,
      state: 'degraded',
      startedAt: stored.startedAt,
      finishedAt: stored.finishedAt,
      continues: null,
      report: stored,
    });
    expect(await sink.history.run('r0' as Started['run'])).toBeNull();
  });

  // Proves promise 5
  it('refuses a report that counts otherwise than the ledger, and stores the run as failed', async () => {
    const { sink, started, finish } = await runWithOneRecord();
    const entities = [entityReport(members, { fetched: 2, inserted: 2 })];
    await expect(finish({ entities })).rejects.toMatchObject({ code: 'ACCOUNTING', recovery: 'stop' });
    expect(await sink.history.run(started.run)).toMatchObject({
      state: 'failed',
      report: { outcome: 'failed', error: { code: 'ACCOUNTING' } },
    });
  });

  it('ends the run: nothing more is committed in it', async () => {
    const { sink, started, commit, finish } = await runWithOneRecord();
    await finish();
    await expect(commit([member('2')])).rejects.toMatchObject({ code: 'FENCED' });
    expect(await sink.nextPartitions(started.lease, 5)).toEqual([]);
  });

  it.each([
    ['ok', 0],
    ['degraded', 0],
    ['partial', 1],
    ['failed', 1],
  ] as const)('after %s keeps %i chunks of seen rows', async (outcome, chunks) => {
    const { finish } = await runWithOneRecord();
    await finish({ outcome });
    expect(await count('_sync_seen')).toBe(chunks);
  });

  everywhere('drops the seen rows of an unfinished chain when a run starts from the beginning', async () => {
    const first = await runWithOneRecord();
    expect(await count('_sync_seen')).toBe(1);
    await bench().walking('r2', {}, first);
    expect(await count('_sync_seen')).toBe(0);
  });

  it('tells a complete read from one of changes', async () => {
    const reading = readingOf({ lists: { isIncremental: true } });
    const seal = whole({ watermark: instant(start) });
    const sinkOf = await bench().hold();
    const read = async (run: string): Promise<void> => {
      const one = await beginLists(bench(), sinkOf, run, { reading });
      await one.read(null, { seal });
      await one.finish();
    };
    const shown = async (): Promise<unknown> => (await sinkOf.sink.history.connectors())[0]?.entities[0];
    await read('r1');
    const readAt = instant(bench().clock.now());
    expect(await shown()).toMatchObject({ lastSealedAt: readAt, lastCompleteReadAt: readAt });
    bench().clock.advance(3_600_000);
    await read('r2');
    const changesAt = instant(bench().clock.now());
    expect(await shown()).toMatchObject({ lastSealedAt: changesAt });
    expect(await shown()).not.toMatchObject({ lastCompleteReadAt: changesAt });
  });

  it('drops runs and quarantined records after 90 days, and partitions that nothing has found for 30', async () => {
    const second = await bench().walking('r2', {}, await runWithOneRecord());
    const { sink, started } = second;
    const child = partition(members, { gone: true });
    const refused = { entity: members, reason: 'key-missing', detail: 'no id', record: '{}' } as const;
    await second.commit([], { fetched: 1, refused: [refused], children: [child], seal: sealed });
    const found = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, found.id, [], { seal: sealed })]);
    await second.finish();
    expect(
      await Promise.all([
        count('_sync_runs'),
        count('_sync_partitions'),
        count('_sync_quarantine'),
        count('_sync_counts'),
      ]),
    ).toEqual([2, 2, 1, 2]);

    bench().clock.advance(31 * dayMs);
    await emptyRun(sink, started, 'r3');
    expect(
      await Promise.all([count('_sync_runs'), count('_sync_partitions'), count('_sync_quarantine')]),
    ).toEqual([3, 1, 1]);
    bench().clock.advance(60 * dayMs);
    await emptyRun(sink, started, 'r4');
    expect(
      await Promise.all([count('_sync_runs'), count('_sync_quarantine'), count('_sync_counts')]),
    ).toEqual([2, 0, 0]);
  });

  everywhere(
    'forgets partitions without rows that nothing led to and that were not read since the plan says, and keeps what is due',
    async () => {
      const sinkOf = await bench().hold();
      const begin = async (run: string): Promise<RunInHand> => beginLists(bench(), sinkOf, run);
      const first = await begin('r1');
      const ids = ['empty', 'read', 'aside', 'late', 'gone'];
      await first.read(null, { records: ids.map(list), children: ids.map((id) => membersOf(id)) });
      await first.read('empty');
      for (const id of ['read', 'late', 'gone']) await first.read(id, { records: [member(id)] });
      await first.setAside(bench(), 'aside');
      await first.finish('degraded');
      const { sink, lease } = sinkOf;
      await bench().ledger("UPDATE _sync_partitions SET gone = 1 WHERE params LIKE '%gone%'");
      const later = "sealed_at = '2026-04-01T00:00:00.000Z'";
      await bench().ledger(`UPDATE _sync_partitions SET ${later} WHERE params LIKE '%late%'`);
      await bench().ledger(
        `INSERT INTO _sync_also SELECT 'news', 'members', 1, id, 1 FROM _sync_partitions WHERE params LIKE '%empty%'`,
      );
      const kept = async (): Promise<unknown> =>
        (await bench().ledger('SELECT params FROM _sync_partitions ORDER BY id')).map(
          ({ params }) => (JSON.parse(String(params)) as JsonObject)['list_id'] ?? null,
        );
      bench().clock.advance(31 * dayMs);
      const second = await begin('r2');
      await second.read(null);
      await second.finish('partial');
      expect(await kept(), 'a run that read little forgets nothing').toEqual([null, ...ids]);
      const third = await begin('r3');
      await third.finish('degraded');
      expect(await kept()).toEqual([null, 'read', 'aside', 'late', 'gone']);
      expect(await count('_sync_also')).toBe(0);
      expect(await sink.nextPartitions(lease, 5)).toEqual([]);
    },
  );

  it('keeps the newest sync and the run that began its chain, however many other runs came after', async () => {
    const sinkOf = await bench().hold();
    const first = await beginLists(bench(), sinkOf, 's1');
    await first.read(null, { seal: null });
    const second = await beginLists(bench(), sinkOf, 's2');
    expect(second.started.continues).toBe('s1');
    bench().clock.advance(91 * dayMs);
    for (const run of ['f1', 'f2']) {
      const other = { kind: 'refetch', window: 'refetch', entities: [], roots: [] } as const;
      await (await beginLists(bench(), sinkOf, run, other)).finish();
    }
    expect((await sinkOf.sink.history.runs({ limit: 9 })).map(({ run }) => run)).toEqual([
      'f2',
      'f1',
      's2',
      's1',
    ]);
  });

  it('keeps the 10,000 newest quarantined records of a connector', async () => {
    const { sink, started } = await runWithOneRecord();
    const rows = Array.from({ length: 10_003 }, (_, index) => {
      const lastSeenAt = instant(start + (index + 1) * 1000);
      return `('news', 'members', 'hash ${index + 1}', 'key-missing', 'no id', '{}', '${instant(start)}', '${lastSeenAt}', 'r1')`;
    });
    const columns =
      'connector, entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run';
    await bench().ledger(
      `INSERT INTO _sync_quarantine (${columns}) VALUES ${rows.join(', ')}, ${(rows[0] ?? '').replace('news', 'other')}`,
    );
    await emptyRun(sink, started, 'r2');
    expect(await count('_sync_quarantine', "connector = 'news'")).toBe(10_000);
    expect(await count('_sync_quarantine', "content_hash = 'hash 3'")).toBe(0);
    expect(await count('_sync_quarantine', "content_hash = 'hash 4'")).toBe(1);
    expect(await count('_sync_quarantine')).toBe(10_001);
  });

  it('keeps the newest thousand runs', async () => {
    const { sink, lease } = await bench().hold();
    const rows = Array.from(
      { length: 1_500 },
      (_, index) => `('old${index}', 'news', 1, '', 0, 'ok', '2026-03-01T00:00:00.000Z')`,
    );
    const columns = 'run, connector, origin, scope, can_continue, state, started_at';
    await bench().ledger(`INSERT INTO _sync_runs (${columns}) VALUES ${rows.join(', ')}`);
    await emptyRun(sink, { lease }, 'r1');
    expect(await count('_sync_runs')).toBe(1_000);
    expect((await sink.history.runs({ limit: 2 })).map(({ run }) => run)).toEqual(['r1', 'old1499']);
  });

  const emptyRun = async (sink: Sink, { lease }: Pick<Started, 'lease'>, run: string): Promise<void> =>
    await (await bench().walking(run, {}, { sink, lease })).finish();
}

export function committing(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  // Proves promise 1
  everywhere(
    'stores records, position and children together, and shows them all to a sink opened without a close',
    async () => {
      const { sink, started, id, commit } = await bench().walking('r1', {
        tables: [listsTable, membersTable],
        entities: [lists, members],
        roots: [rootOf(lists)],
      });
      const child = partition(members, { list_id: 'a' }, { rank: 1, inject: { list_id: 'a' } });
      const committed = await commit([record(listsTable, { id: 'a' })], {
        entity: lists,
        children: [child, child],
        position: { kind: 'offset', offset: 1, keys: ['a', 9_007_199_254_740_993n] },
      });
      expect(committed.newlyDue).toBe(1);
      expect(await bench().rows(listsTable)).toMatchObject([{ id: 'a' }]);
      const next = await sink.nextPartitions(started.lease, 5);
      expect(next).toMatchObject([
        { entity: members, params: { list_id: 'a' }, inject: { list_id: 'a' }, rank: 1, position: null },
        { id, position: { kind: 'offset', offset: 1, keys: ['a', 9_007_199_254_740_993n] } },
      ]);
      const other = await bench().open();
      const nothingGone = { deleted: 0, missing: 0, partMissing: null, files: null };
      const neverRead = { completeness: 'not-yet', lastSealedAt: null, lastCompleteReadAt: null };
      expect((await other.history.connectors())[0]?.entities).toEqual([
        { entity: 'lists', rows: 1, ...nothingGone, partitions: 1, due: 1, quarantined: 0, ...neverRead },
        {
          entity: 'members',
          rows: 0,
          ...nothingGone,
          partitions: 1,
          due: 1,
          quarantined: 0,
          ...neverRead,
        },
      ]);
    },
  );

  it('gives the deepest partitions first, and a sealed one no more', async () => {
    const { sink, started, commit } = await bench().walking();
    await commit([], { children: [1, 3, 2].map((rank) => partition(members, { n: rank }, { rank })) });
    const ranks = async (): Promise<number[]> =>
      (await sink.nextPartitions(started.lease, 3)).map(({ rank }) => rank);
    expect(await ranks()).toEqual([3, 2, 1]);
    const [deepest] = await sink.nextPartitions(started.lease, 1);
    await sink.commit(started.lease, [page(started, deepest?.id ?? 0, [], { seal: sealed })]);
    expect(await ranks()).toEqual([2, 1, 0]);
  });

  // Proves promise 5
  everywhere('stores nothing of a commit in which one page does not add up', async () => {
    const { sink, started, id, commit } = await bench().walking();
    const pages = [
      page(started, id, [member('1')], { children: [partition(members, { n: 1 })] }),
      page(started, id, [member('2')], { fetched: 2 }),
    ];
    await expect(sink.commit(started.lease, pages)).rejects.toMatchObject({
      code: 'ACCOUNTING',
      recovery: 'stop',
    });
    expect(await bench().rows()).toEqual([]);
    expect(await onlyPartition(sink, started.lease)).toMatchObject({ id, position: null });
    const committed = await commit([member('1')]);
    expect(committed.counts[0]?.counts, 'no seen bit is left of it').toEqual(
      counts({ fetched: 1, inserted: 1 }),
    );
    expect(await bench().rows()).toMatchObject([{ id: '1', _seq: 1 }]);
  });

  everywhere('turns a page committed twice into duplicates and moves nothing', async () => {
    const { sink, started, id } = await bench().walking();
    const children = [partition(members, { n: 1 }, { rank: 1 })];
    const first = page(started, id, [member('1')], { children });
    const last = page(started, id, [member('2')], { seal: sealed });
    await sink.commit(started.lease, [first, last]);
    bench().clock.advance(hourMs);
    const [again, end] = await sink.commit(started.lease, [first, last]);
    await sink.commit(started.lease, [first]);
    expect(again).toEqual({
      counts: [{ entity: members, counts: counts({ fetched: 1, duplicate: 1 }) }],
      newlyDue: 0,
    });
    expect(end?.counts[0]?.counts).toEqual(counts({ fetched: 1, duplicate: 1 }));
    expect((await sink.nextPartitions(started.lease, 5)).map(({ params }) => params)).toEqual([{ n: 1 }]);
    expect(await bench().rows()).toHaveLength(2);
    const status = (await sink.history.connectors())[0]?.entities.find(({ entity }) => entity === members);
    expect(status?.lastSealedAt).toBe(instant(start));
    const [stored] = await bench().ledger(`SELECT position, listed FROM _sync_partitions WHERE id = ${id}`);
    expect(stored).toEqual({ position: null, listed: 0 });
  });

  // Proves promise 7
  it('keeps a refused record whole and once, however often it comes', async () => {
    const { sink, started, id } = await bench().walking();
    const refused: Quarantined = {
      entity: members,
      reason: 'key-missing',
      detail: 'no id',
      record: '{"name":"x"}',
    };
    const inOpens: Quarantined = { ...refused, entity: opens };
    for (const run of ['r1', 'r1', 'r2'] as RunId[]) {
      if (run !== started.run) await sink.startRun(started.lease, bench().plan(run));
      const [committed] = await sink.commit(started.lease, [
        page({ ...started, run }, id, [], { fetched: 1, refused: [refused, inOpens] }),
      ]);
      expect(committed?.counts).toEqual([
        { entity: members, counts: counts({ fetched: 1, quarantined: 1 }) },
        { entity: opens, counts: counts({ fetched: 1, quarantined: 1 }) },
      ]);
    }
    expect(await sink.history.quarantine(news, 10)).toMatchObject([
      { entity: opens, record: '{"name":"x"}' },
      {
        entity: members,
        reason: 'key-missing',
        detail: 'no id',
        record: '{"name":"x"}',
        firstSeenAt: '2026-03-01T10:00:00.000Z',
      },
    ]);
  });

  it('refuses a page of a run that the lease is not in, among pages that are', async () => {
    const { sink, started, id } = await bench().walking();
    const stray = page({ ...started, run: 'r0' as typeof started.run }, id, [member('2')]);
    const pages = [page(started, id, [member('1')]), stray];
    await expect(sink.commit(started.lease, pages)).rejects.toMatchObject({ code: 'FENCED' });
    expect(await bench().rows()).toEqual([]);
  });

  it('refuses rows of an entity without a table, and a position that is too long', async () => {
    const { commit } = await bench().walking();
    const refused = { code: 'INTERNAL' };
    const ownerless = commit([record(listsTable, { id: 'a' })], { entity: lists, fetched: 0 });
    await expect(ownerless).rejects.toMatchObject(refused);
    const long = commit([], { position: { kind: 'offset', keys: 'k'.repeat(65_536) } });
    await expect(long).rejects.toMatchObject(refused);
  });

  everywhere('continues with thousands of rows in any order of row numbers', async () => {
    const many = isLong ? 40_000 : 10_000;
    const { sink, lease, commit } = await bench().walking();
    const events = Array.from({ length: many }, (_, at) => record(opensTable, { id: '1', at: String(at) }));
    const rows = [
      { entity: members, records: [] },
      { entity: opens, records: events },
    ];
    await commit([], { rows });
    const backwards = [
      { entity: members, records: [] },
      { entity: opens, records: events.toReversed() },
    ];
    const again = await commit([], { rows: backwards });
    expect(again.counts[1]?.counts).toEqual(counts({ fetched: many, duplicate: many }));

    const next = await bench().walking('r2', { continueAfter: instant(start) }, { sink, lease });
    const fresh = await next.commit([], { rows: backwards });
    expect(fresh.counts[1]?.counts).toEqual(counts({ fetched: many, unchanged: many }));
  });
}
