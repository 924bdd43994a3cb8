import { expect } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { ConnectorName } from '../../../src/core/names.ts';
import {
  dayMs,
  entityReport,
  identity,
  lists,
  member,
  members,
  news,
  onlyPartition,
  page,
  report,
  sealed,
  start,
  type SinkKind,
} from './fixture.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import { rulesOf, useBench } from './use-bench.ts';

const today = { connector: news, entity: members, day: '2026-03-01' };
const none = { added: 0, changed: 0, deleted: 0, revived: 0 };

/** What a sink notes for people: how rows change from day to day, and who did what. */
export function noting(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  it('counts for each day of UTC what became of rows', async () => {
    const sink = await bench().open();
    const { clock } = bench();
    const first = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, first.lease);
    await sink.commit(first.lease, [page(first, id, [member('1'), member('2')])]);
    await sink.commit(first.lease, [page(first, id, [member('2'), member('3'), member('1', 'Grace')])]);
    clock.advance(dayMs);
    await sink.commit(first.lease, [page(first, id, [member('3', 'Edsger')])]);
    await sink.repair.tombstoneRecord(first.lease, first.run, members, '["a","2"]');
    await sink.commit(first.lease, [page(first, id, [member('1', 'Grace')])]);
    const days = [
      { ...today, ...none, added: 3, changed: 1 },
      { ...today, ...none, day: '2026-03-02', changed: 1, deleted: 1 },
    ];
    expect(await sink.history.days({ since: '2026-03-01' })).toEqual(days);
    expect(await sink.history.days({ since: '2026-03-02', only: [news] })).toEqual(days.slice(1));
    expect(await sink.history.days({ since: '2026-03-01', only: ['wiki' as ConnectorName] })).toEqual([]);
    clock.advance(dayMs);
    await sink.commit(first.lease, [page(first, id, [member('2')])]);
    expect(await sink.history.days({ since: '2026-03-03' })).toEqual([
      { ...today, ...none, day: '2026-03-03', revived: 1 },
    ]);
  });

  it('keeps days and acts for 400 days', async () => {
    const sink = await bench().open();
    await sink.noteAction({ action: 'run-now', connector: news });
    const first = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, first.lease);
    await sink.commit(first.lease, [page(first, id, [member('1')], { seal: sealed })]);
    const end = async (run: typeof first, inserted: number): Promise<void> => {
      const entities = [entityReport(members, inserted === 0 ? {} : { fetched: inserted, inserted })];
      await sink.finish(run.lease, run.run, report(run, { entities }));
    };
    bench().clock.advance(400 * dayMs);
    await end(first, 1);
    const known = async () => [
      await sink.history.days({ since: '2020-01-01' }),
      await sink.history.actions({ limit: 9 }),
    ];
    expect((await known()).map((one) => one.length)).toEqual([1, 1]);
    await first.lease[Symbol.asyncDispose]();
    const second = await bench().begin(sink, 'r2');
    bench().clock.advance(dayMs);
    await end(second, 0);
    expect(await known()).toEqual([[], []]);
  });

  it('notes by which mask an entity is stored, and when all of it is', async () => {
    const sink = await bench().open();
    const maskedBy = (mask: string): Partial<RunPlan> => ({
      masks: [{ entity: members, mask, keyId: `key of ${mask}` }],
    });
    const readAll = async (run: string, plan: Partial<RunPlan>): Promise<unknown> => {
      const started = await bench().begin(sink, run, { isFull: true, ...plan });
      const begun = await sink.history.masks(news);
      const { id } = await onlyPartition(sink, started.lease);
      await sink.commit(started.lease, [page(started, id, [member('1')], { seal: sealed })]);
      const counts = { fetched: 1, ...(run === 'r1' ? { inserted: 1 } : { unchanged: 1 }) };
      const entities = [entityReport(members, counts)];
      await sink.finish(started.lease, started.run, report(started, { entities }));
      await started.lease[Symbol.asyncDispose]();
      bench().clock.advance(dayMs);
      return [begun, await sink.history.masks(news)];
    };
    const now = (): string => instant(bench().clock.now());
    const first = { entity: members, mask: 'a', keyId: 'key of a', deleted: 0, quarantined: 0 };
    const began = now();
    expect(await readAll('r1', maskedBy('a'))).toEqual([
      [{ ...first, since: null, readAt: null }],
      [{ ...first, since: null, readAt: began }],
    ]);
    const changed = now();
    const second = { ...first, mask: 'b', keyId: 'key of b', since: changed };
    expect(await readAll('r2', maskedBy('b'))).toEqual([
      [{ ...second, readAt: null }],
      [{ ...second, readAt: changed }],
    ]);
    expect(await readAll('r3', maskedBy('b'))).toEqual([
      [{ ...second, readAt: changed }],
      [{ ...second, readAt: changed }],
    ]);
    expect(await readAll('r4', {})).toEqual([[], []]);
  });

  it('notes who did what with the act itself, newest first', async () => {
    const { clock, folder } = bench();
    const sink = await bench().open();
    await using asAnna = await kind.open(folder, { clock, who: 'anna' });
    const wiki = 'wiki' as ConnectorName;
    await asAnna.pause([wiki], { since: instant(start), reason: 'moving house' });
    expect(await asAnna.resume([wiki])).toEqual(new Set([wiki]));
    expect(await asAnna.resume([wiki])).toEqual(new Set());
    const plan = bench().plan('r1', { act: { action: 'allow-deletes' } });
    {
      await using lease = await sink.acquire(identity());
      await sink.startRun(lease, plan);
      expect(await asAnna.requestCancel(plan.run, instant(start))).toBe(true);
    }
    const { partitions } = await sink.repair.reset(news, {
      entity: members,
      tables: [],
      withData: false,
      now: instant(start),
    });
    const at = instant(start);
    const act = { at, connector: news, entity: null, detail: {}, run: null };
    const noted = await sink.history.actions({ limit: 9 });
    const host = /^.+@.+$/;
    expect(noted.map(({ id: _id, ...one }) => one)).toEqual([
      {
        ...act,
        who: expect.stringMatching(host) as string,
        action: 'reset',
        entity: members,
        detail: { withData: false, partitions, rows: 0 },
      },
      { ...act, who: 'anna', action: 'cancel', run: plan.run },
      { ...act, who: expect.stringMatching(host) as string, action: 'allow-deletes', run: plan.run },
      { ...act, who: 'anna', action: 'resume', connector: wiki },
      { ...act, who: 'anna', action: 'pause', connector: wiki, detail: { reason: 'moving house' } },
    ]);
    expect(await sink.history.actions({ limit: 1, connector: wiki })).toMatchObject([{ action: 'resume' }]);
  });

  it('says which syncs read something else than the one before', async () => {
    const sink = await bench().open();
    for (const [run, change] of [
      ['r1', {}],
      ['r2', {}],
      ['r3', { choices: 'archived' }],
      ['r4', { choices: 'archived', entities: [members, lists], roots: [] }],
      ['r5', { choices: 'archived', entities: [lists], roots: [] }],
    ] as const) {
      const { lease } = await bench().begin(sink, run, change);
      await lease[Symbol.asyncDispose]();
    }
    const same = { at: instant(start), isOtherDefinition: false, added: [], removed: [] };
    expect(await sink.history.scopeChanges(news, 9)).toEqual([
      { ...same, run: 'r5', removed: [members] },
      { ...same, run: 'r4', added: [lists] },
      { ...same, run: 'r3' },
    ]);
    expect(await sink.history.scopeChanges(news, 1)).toMatchObject([{ run: 'r5' }]);
  });

  it('keeps what people did when a connector is reset with its data, and forgets its days', async () => {
    const sink = await bench().open();
    const first = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, first.lease);
    await sink.commit(first.lease, [page(first, id, [member('1')])]);
    await sink.noteAction({ action: 'run-now', connector: news });
    await first.lease[Symbol.asyncDispose]();
    await sink.repair.reset(news, { entity: null, tables: [], withData: true, now: instant(start) });
    expect(await sink.history.days({ since: '2020-01-01' })).toEqual([]);
    expect((await sink.history.actions({ limit: 9 })).map(({ action }) => action)).toEqual([
      'reset',
      'run-now',
    ]);
  });
}
