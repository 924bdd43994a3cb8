import type { JsonObject } from '../../../src/core/json.ts';
import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { RunReport } from '../../../src/sinks/run-report.ts';
import {
  dayMs,
  entityReport,
  member,
  members,
  news,
  onlyPartition,
  page,
  partition,
  sealed,
  report,
  start,
  type Bench,
  type SinkKind,
  type Started,
} from './fixture.ts';
import type { RunInHand } from './run-in-hand.ts';
import { list, membersOf, readingOf, beginLists, whole } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

export function finishing(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  const count = (table: string, where?: string): Promise<unknown> => bench().count(table, where);

  async function runWithOneRecord(bench: Bench, run = 'r1') {
    const sink = await bench.open();
    const started = await bench.begin(sink, run);
    const { id } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, id, [member('1')], { seal: sealed })]);
    return {
      sink,
      started,
      full: report(started, { entities: [entityReport(members, { fetched: 1, inserted: 1 })] }),
    };
  }

  everywhere(
    'keeps what the newest page says of the run in progress for people, until the run ends',
    async () => {
      const { sink, started, commit } = await bench().walking();
      const shown = async (): Promise<string | null> => await sink.history.progress(started.run);
      const store = async (record: string, change: Parameters<typeof page>[3] = {}): Promise<void> => {
        await commit([member(record)], change);
      };
      expect(await shown()).toBeNull();
      await store('1', { shown: '{"leftMs":1}' });
      await store('2');
      expect(await shown()).toBe('{"leftMs":1}');
      await store('3', { shown: '{"leftMs":2}', seal: sealed });
      expect(await shown()).toBe('{"leftMs":2}');
      const entities = [entityReport(members, { fetched: 3, inserted: 3 })];
      await sink.finish(started.lease, started.run, report(started, { entities }));
      expect([await shown(), await count('_sync_progress')]).toEqual([null, 0]);
    },
  );

  everywhere('stores the report word for word, bigints in parameters too', async () => {
    const { sink, started, full } = await runWithOneRecord(bench());
    const failure = {
      entity: members,
      params: { id: 9_007_199_254_740_993n },
      code: 'NOT_FOUND',
      recovery: 'skip-partition',
      message: 'gone',
    } as const;
    const stored: RunReport = { ...full, outcome: 'degraded', failures: [failure] };
    await sink.finish(started.lease, started.run, stored);
    expect(await sink.history.run(started.run)).toEqual({
      run: 'r1',
      kind: 'sync',
      connector: news,
      state: 'degraded',
      startedAt: full.startedAt,
      finishedAt: full.finishedAt,
      continues: null,
      report: stored,
    });
    expect(await sink.history.run('r0' as Started['run'])).toBeNull();
  });

  // Proves promise 5
  it('refuses a report that counts otherwise than the ledger, and stores the run as failed', async () => {
    const { sink, started, full } = await runWithOneRecord(bench());
    const wrong = { ...full, entities: [entityReport(members, { fetched: 2, inserted: 2 })] };
    await expect(sink.finish(started.lease, started.run, wrong)).rejects.toMatchObject({
      code: 'ACCOUNTING',
      recovery: 'stop',
    });
    expect(await sink.history.run(started.run)).toMatchObject({
      state: 'failed',
      report: { outcome: 'failed', error: { code: 'ACCOUNTING' } },
    });
  });

  it('ends the run: nothing more is committed in it', async () => {
    const { sink, started, full } = await runWithOneRecord(bench());
    await sink.finish(started.lease, started.run, full);
    await expect(sink.commit(started.lease, [page(started, 1, [member('2')])])).rejects.toMatchObject({
      code: 'FENCED',
    });
    expect(await sink.nextPartitions(started.lease, 5)).toEqual([]);
  });

  it.each([
    ['ok', 0],
    ['degraded', 0],
    ['partial', 1],
    ['failed', 1],
  ] as const)('after %s keeps %i chunks of seen rows', async (outcome, chunks) => {
    const { sink, started, full } = await runWithOneRecord(bench());
    await sink.finish(started.lease, started.run, { ...full, outcome });
    expect(await count('_sync_seen')).toBe(chunks);
  });

  everywhere('drops the seen rows of an unfinished chain when a run starts from the beginning', async () => {
    const { sink, started } = await runWithOneRecord(bench());
    expect(await count('_sync_seen')).toBe(1);
    await sink.startRun(started.lease, bench().plan('r2'));
    expect(await count('_sync_seen')).toBe(0);
  });

  it('shows what is stored and when partitions were sealed', async () => {
    const { sink, started, full } = await runWithOneRecord(bench());
    await sink.finish(started.lease, started.run, full);
    expect(await sink.history.connectors()).toMatchObject([
      {
        lastRun: { state: 'ok' },
        entities: [
          { entity: 'member_opens', rows: 0, partitions: 0 },
          { entity: members, rows: 1, partitions: 1, due: 0, lastSealedAt: '2026-03-01T10:00:00.000Z' },
        ],
      },
    ]);
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
    const { sink, started, full } = await runWithOneRecord(bench());
    const child = partition(members, { gone: true });
    await sink.startRun(started.lease, bench().plan('r2'));
    const second = { ...started, run: 'r2' as Started['run'] };
    const { id } = await onlyPartition(sink, started.lease);
    const refused = { entity: members, reason: 'key-missing', detail: 'no id', record: '{}' } as const;
    await sink.commit(started.lease, [
      page(second, id, [], { fetched: 1, refused: [refused], children: [child], seal: sealed }),
    ]);
    const found = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(second, found.id, [], { seal: sealed })]);
    const entities = [entityReport(members, { fetched: 1, quarantined: 1 })];
    await sink.finish(started.lease, second.run, { ...full, run: second.run, entities });
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

  it('keeps a quarantined record for 90 days after it was last seen', async () => {
    const { sink, lease } = await bench().hold();
    const refused = { entity: members, reason: 'key-missing', detail: 'no id', record: '{}' } as const;
    const entities = [entityReport(members, { fetched: 1, quarantined: 1 })];
    const first = { lease, run: 'r1' as Started['run'] };
    for (const started of [first, { lease, run: 'r2' as Started['run'] }]) {
      await sink.startRun(lease, bench().plan(started.run));
      const { id } = await onlyPartition(sink, lease);
      await sink.commit(lease, [page(started, id, [], { fetched: 1, refused: [refused], seal: sealed })]);
      await sink.finish(lease, started.run, report(started, { entities }));
      bench().clock.advance(60 * dayMs);
    }
    await emptyRun(sink, first, 'r3');
    expect(await count('_sync_quarantine')).toBe(1);
    bench().clock.advance(31 * dayMs);
    await emptyRun(sink, first, 'r4');
    expect(await count('_sync_quarantine')).toBe(0);
  });

  it('keeps the 10,000 newest quarantined records of a connector', async () => {
    const { sink, started } = await runWithOneRecord(bench());
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

  it('keeps the newest thousand runs', async () => {
    const { sink, lease } = await bench().hold();
    const rows = Array.from(
      { length: 1_500 },
      (_, index) => `('old${index}', 'news', 1, '', 0, 'ok', '2026-03-01T00:00:00.000Z')`,
    );
    const columns = 'run, connector, origin, scope, can_continue, state, started_at';
    await bench().ledger(`INSERT INTO _sync_runs (${columns}) VALUES ${rows.join(', ')}`);
    await emptyRun(sink, { lease, run: 'r1' as Started['run'] }, 'r1');
    expect(await count('_sync_runs')).toBe(1_000);
    expect((await sink.history.runs({ limit: 2 })).map(({ run }) => run)).toEqual(['r1', 'old1499']);
  });

  async function emptyRun(
    sink: Awaited<ReturnType<Bench['open']>>,
    { lease }: Started,
    run: string,
  ): Promise<void> {
    const next = { lease, run: run as Started['run'] };
    await sink.startRun(lease, bench().plan(run));
    await sink.finish(lease, next.run, report(next));
  }
}
