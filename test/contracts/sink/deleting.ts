import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import { noCounts } from '../../../src/core/records.ts';
import type { Candidate, Judgement } from '../../../src/sinks/deletes.ts';
import type { Absence } from '../../../src/sinks/partition.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { isLong } from '../../support/trials.ts';
import {
  counts,
  member,
  members,
  membersTable,
  news,
  partition,
  reading,
  start,
  type SinkKind,
} from './fixture.ts';
import { useRuns, type RunInHand, type Shown } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

const shows =
  (ids: readonly string[], absence: Absence = 'nothing') =>
  (): Shown => ({ records: ids.map((id) => member(id)), absence });

const key = (id: string): string => JSON.stringify(['a', id]);
const all = ['1', '2', '3', '4', '5'];

export function deleting(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const ids = async (): Promise<readonly unknown[]> =>
    (await bench().rows()).map((row: JsonObject) => row['id']);
  const status = async (sink: RunInHand['sink']) =>
    (await sink.history.connectors())[0]?.entities.find(({ entity }) => entity === members);
  const changes = (): Promise<readonly JsonObject[]> => kind.readChanges(bench().folder, news, membersTable);

  /** Five rows, of which a full walk of a later run has met the first only. */
  async function fourMissing(absence: Absence) {
    const runs = await useRuns(bench(), {});
    await (await runs.sweep('r1', shows(all))).finish();
    const hand = await runs.sweep('r2', shows(['1'], absence));
    const { sink, lease } = runs;
    const { run } = hand.started;
    const asked = async (limit: number, which = run): Promise<readonly Candidate[]> =>
      sink.deletes.toConfirm(lease, which, members, limit);
    const judge = async (judgements: readonly Judgement[]) =>
      sink.deletes.judge(lease, run, members, judgements);
    return { ...runs, hand, run, asked, judge };
  }

  everywhere('tombstones what nothing more is needed for, in batches, as changes of the rows', async () => {
    const { sink, lease, run, hand } = await fourMissing('nothing');
    expect(await sink.deletes.tombstone(lease, run, members, 'all', 3)).toBe(3);
    expect(await status(sink)).toMatchObject({ rows: 2, deleted: 3, missing: 1 });
    expect(await sink.deletes.tombstone(lease, run, members, 'all', 3)).toBe(1);
    expect(await sink.deletes.tombstone(lease, run, members, 'all', 3)).toBe(0);
    await hand.finish();
    expect(await ids()).toEqual(['1']);
    expect(await status(sink)).toMatchObject({ rows: 1, deleted: 4, missing: 0 });
    const at = (await changes()).filter((change) => change['_op'] === 'delete');
    expect(at).toMatchObject(
      ['2', '3', '4', '5'].map((id, index) => ({ list_id: 'a', id, _run_id: 'r2', _seq: 6 + index })),
    );
    expect(await sink.history.missing(news, 5)).toEqual([]);
  });

  it('gives a record that returns its row back, alive, and counts it as updated', async () => {
    const { hand, sink, sweep } = await fourMissing('nothing');
    await hand.tombstone([members]);
    await hand.finish();
    await (await sweep('r3', shows(['1', '3']))).finish();
    expect(await ids()).toEqual(['1', '3']);
    expect(await status(sink)).toMatchObject({ rows: 2, deleted: 3 });
    expect((await changes()).at(-1)).toMatchObject({ id: '3', _op: 'upsert', _run_id: 'r3' });
    const again = await sweep('r4', shows(['1']));
    expect(await again.tombstone([members])).toEqual({ members: 1 });
  });

  it.each(['walk', 'get'] as const)('tombstones nothing that still needs a %s', async (absence) => {
    const { hand } = await fourMissing(absence);
    expect(await hand.tombstone([members])).toEqual({ members: 0 });
    expect(await ids()).toEqual(all);
  });

  // Proves promise 4
  it('tombstones a row that two full walks have missed, where that is what it takes', async () => {
    const { hand, sweep } = await fourMissing('walk');
    await hand.finish('degraded');
    const second = await sweep('r3', shows(['1', '2'], 'walk'));
    expect(await second.tombstone([members])).toEqual({ members: 3 });
    expect(await ids()).toEqual(['1', '2']);
  });

  it('tombstones nothing for two walks of which the second missed more, but for four', async () => {
    const { hand, sweep } = await fourMissing('walk');
    await hand.finish('degraded');
    for (const [run, met] of [
      ['r3', ['2']],
      ['r4', ['1']],
    ] as const) {
      const next = await sweep(run, shows(met, 'walk'));
      expect(await next.tombstone([members])).toEqual({ members: 0 });
      await next.finish('degraded');
    }
    const fourth = await sweep('r5', shows(['2'], 'walk'));
    expect(await fourth.tombstone([members])).toEqual({ members: 3 });
    expect(await ids()).toEqual(['1', '2']);
  });

  it('tombstones only what is allowed where that is asked for, and stays allowed in later runs', async () => {
    const { sink, lease, run, hand, sweep } = await fourMissing('nothing');
    expect(await sink.deletes.tombstone(lease, run, members, 'allowed', 9)).toBe(0);
    await sink.deletes.allow(lease, run, members);
    expect(await hand.missing(members)).toMatchObject({ missing: 4, allowed: 4 });
    await hand.finish('degraded');
    const next = await sweep('r3', shows([]));
    expect(await next.missing(members)).toMatchObject({ missing: 5, allowed: 4, hasSurvivor: false });
    expect(await sink.deletes.tombstone(lease, next.started.run, members, 'allowed', 9)).toBe(4);
    expect(await ids()).toEqual(['1']);
  });

  it('leaves a row alone that was written since it was missed', async () => {
    const { sink, lease, hand, begin } = await fourMissing('nothing');
    await hand.finish('degraded');
    const refetch = { kind: 'refetch', window: 'refetch', entities: [], roots: [] } as const;
    const other = await begin('r3', refetch);
    await sink.repair.storeRecord(lease, other.started.run, members, member('2'));
    other.count(members, counts({ fetched: 1, unchanged: 1 }));
    await other.finish();
    const next = await begin('r4');
    await next.sweep();
    await next.tombstone([members]);
    expect(await ids()).toEqual(['1', '2']);
  });

  it('hands out what a get must judge with the parameters of its partition, each row once a run', async () => {
    const runs = await useRuns(bench(), {
      roots: [partition(members, { list_id: 'a' }, { inject: { list_id: 'a' } })],
    });
    const { sink, lease, sweep } = runs;
    await (await sweep('r1', shows(all))).finish();
    const { started } = await sweep('r2', shows(['1'], 'get'));
    const first = await sink.deletes.toConfirm(lease, started.run, members, 3);
    expect(first).toEqual(
      ['2', '3', '4'].map((id, index) => ({
        entity: members,
        row: 2 + index,
        keyText: key(id),
        params: { list_id: 'a' },
        inject: { list_id: 'a' },
        wasVouchedFor: false,
        missingSince: '2026-03-01T12:00:00.000Z',
      })),
    );
    expect(await sink.deletes.toConfirm(lease, started.run, members, 3)).toMatchObject([
      { keyText: key('5') },
    ]);
    expect(await sink.deletes.toConfirm(lease, started.run, members, 3)).toEqual([]);
  });

  it('asks first for what was never asked for, then for what was asked for longest ago', async () => {
    const { asked, hand, sweep } = await fourMissing('get');
    await asked(1);
    await hand.finish('degraded');
    const third = await sweep('r3', shows(['1'], 'get'));
    expect((await asked(1, third.started.run)).map(({ keyText }) => keyText)).toEqual([key('3')]);
    await third.finish('degraded');
    const fourth = await sweep('r4', shows(['1'], 'get'));
    expect((await asked(9, fourth.started.run)).map(({ keyText }) => keyText)).toEqual(
      ['4', '5', '2', '3'].map(key),
    );
  });

  it('notes what get does not find, and tombstones it in the same run only', async () => {
    const { asked, judge, hand, sink, lease, run, sweep } = await fourMissing('get');
    const gone = (await asked(2)).map(({ row }) => ({ row, verdict: 'gone' }) as const);
    expect(await judge(gone)).toEqual(noCounts);
    expect(await judge(gone), 'said again').toEqual(noCounts);
    expect(await ids(), 'the guards have not been asked').toEqual(all);
    expect(await sink.deletes.tombstone(lease, run, members, 'all', 1)).toBe(1);
    expect(await ids()).toEqual(['1', '3', '4', '5']);
    expect(await status(sink)).toMatchObject({ rows: 4, deleted: 1 });
    await hand.finish();
    const next = await sweep('r3', shows(['1'], 'get'));
    expect(await next.tombstone([members]), 'asked for again first').toEqual({ members: 0 });
    expect(await next.missing(members)).toMatchObject({ missing: 3, toConfirm: 3, deletedInDay: 1 });
  });

  it('stores what get returns, counts it, and does not take the row for missing', async () => {
    const { asked, judge, hand } = await fourMissing('get');
    const [second, third, fourth] = await asked(3);
    const there = (row: number | undefined, record: ReturnType<typeof member> | null): Judgement => ({
      row: row ?? 0,
      verdict: 'there',
      record,
      isUnlisted: false,
    });
    const counted = await judge([
      there(second?.row, member('2', 'Grace')),
      there(third?.row, member('3')),
      there(fourth?.row, null),
    ]);
    expect(counted).toEqual(counts({ fetched: 2, updated: 1, unchanged: 1 }));
    expect((await bench().rows())[1]).toMatchObject({ id: '2', name: 'Grace', _run_id: 'r2' });
    expect(await hand.missing(members)).toMatchObject({ missing: 1 });
    hand.count(members, counted);
    await hand.finish();
  });

  it('keeps a returned record of another key out of the row that was asked for', async () => {
    const { asked, judge, hand } = await fourMissing('get');
    const [second] = await asked(1);
    const record = member('9', 'Other');
    const counted = await judge([{ row: second?.row ?? 0, verdict: 'there', record, isUnlisted: false }]);
    expect(counted).toEqual(noCounts);
    expect(await ids()).toEqual(all);
    await hand.finish();
  });

  it.each<[string, { readonly isUnlisted: boolean }, boolean]>([
    ['takes back the proof of a walk that missed what get returns', { isUnlisted: false }, true],
    ['lets the proof stand where listings leave the record out', { isUnlisted: true }, false],
  ])('%s', async (_what, { isUnlisted }, isWithdrawn) => {
    const { asked, judge, sink, hand } = await fourMissing('get');
    const [second] = await asked(1);
    await judge([{ row: second?.row ?? 0, verdict: 'there', record: null, isUnlisted }]);
    const { partition: owner } = (await sink.history.explain(news, membersTable, key('1'))) ?? {};
    expect(owner?.fullAt === null).toBe(isWithdrawn);
    await hand.finish('degraded');
  });

  it('reads a partition in full whose walk missed what get returns, until a full walk has a watermark again', async () => {
    const { sink, lease, sweep, begin } = await useRuns(bench(), {
      reading: new Map([[members, reading({ isIncremental: true })]]),
    });
    const watermark = instant(start);
    await (await sweep('r1', () => ({ ...shows(all)(), watermark }))).finish();
    const hand = await sweep('r2', () => ({ ...shows(['1'], 'get')(), watermark }), { isFull: true });
    const { run } = hand.started;
    const [second] = await sink.deletes.toConfirm(lease, run, members, 1);
    await sink.deletes.judge(lease, run, members, [
      { row: second?.row ?? 0, verdict: 'there', record: null, isUnlisted: false },
    ]);
    await hand.finish('degraded');
    await (await sweep('r3', shows(all))).finish();
    await begin('r4');
    expect(await sink.nextPartitions(lease, 1)).toMatchObject([{ mode: 'full', watermark: null }]);
  });

  everywhere(
    'asks again for a record that get vouched for when a later walk misses it, and withdraws nothing then',
    async () => {
      const { asked, judge, hand, sink, lease, sweep, begin } = await fourMissing('get');
      const [second] = await asked(1);
      const there = { row: second?.row ?? 0, verdict: 'there', record: null, isUnlisted: false } as const;
      await judge([there]);
      expect((await sink.history.missing(news, 9)).map(({ keyText }) => keyText)).toEqual(
        ['3', '4', '5'].map(key),
      );
      await hand.finish('degraded');
      const quiet = await begin('r3');
      await quiet.walk(() => ({ records: [], absence: null }));
      await quiet.sweep();
      expect(await quiet.missing(members), 'no walk has missed it since').toMatchObject({ missing: 3 });
      await quiet.finish();
      const next = await sweep('r4', shows(['1', '3', '4', '5'], 'get'));
      expect(await next.missing(members)).toMatchObject({ missing: 1, missedTwice: 0, toConfirm: 1 });
      expect(await next.missing(members), 'a guard need not count it').toMatchObject({ vouchedFor: 1 });
      const { run } = next.started;
      expect(await sink.deletes.toConfirm(lease, run, members, 9)).toMatchObject([
        { keyText: key('2'), wasVouchedFor: true },
      ]);
      await sink.deletes.judge(lease, run, members, [there]);
      const { partition: owner } = (await sink.history.explain(news, membersTable, key('1'))) ?? {};
      expect(owner?.fullAt).not.toBeNull();
      await next.finish();
      // However sure a later walk is: listings are known to leave it out.
      const sure = await sweep('r5', shows(['1', '3', '4', '5'], 'nothing'));
      expect(await sure.tombstone([members])).toEqual({ members: 0 });
      expect(await sure.missing(members)).toMatchObject({ missing: 1, toConfirm: 1 });
    },
  );

  everywhere('explains a row: where it is shown, when it came, what it is waiting for', async () => {
    const { sink, hand } = await fourMissing('get');
    expect(await sink.history.explain(news, membersTable, key('2'))).toMatchObject({
      row: 2,
      firstSeenAt: '2026-03-01T11:00:00.000Z',
      changedAt: '2026-03-01T11:00:00.000Z',
      changedByRun: 'r1',
      deletedAt: null,
      seq: 2,
      missing: { keyText: key('2'), needs: 'get', missedWalks: 1 },
      partition: { entity: members, params: {}, mode: 'full', isGone: false, failure: null, dueSince: null },
    });
    expect(await sink.history.explain(news, membersTable, key('1'))).toMatchObject({ missing: null });
    expect(await sink.history.explain(news, membersTable, key('9'))).toBeNull();
    expect(
      await sink.history.explain(news, { ...membersTable, entity: 'never' as typeof members }, key('1')),
    ).toBeNull();
    await sink.repair.tombstoneRecord(hand.started.lease, hand.started.run, members, key('2'));
    expect(await sink.history.explain(news, membersTable, key('2'))).toMatchObject({
      deletedAt: '2026-03-01T12:00:00.000Z',
      changedByRun: 'r2',
      missing: null,
    });
  });

  it('refuses all of it for a run that the lease is not in', async () => {
    const { sink, lease } = await fourMissing('nothing');
    const stray = 'r1' as Parameters<typeof sink.deletes.sweep>[1];
    for (const call of [
      () => sink.deletes.sweep(lease, stray, 1),
      () => sink.deletes.missing(lease, stray),
      () => sink.deletes.allow(lease, stray, members),
      () => sink.deletes.toConfirm(lease, stray, members, 1),
      () => sink.deletes.judge(lease, stray, members, []),
      () => sink.deletes.tombstone(lease, stray, members, 'all', 1),
      () => sink.deletes.tombstoneBelow(lease, stray, 1),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: 'FENCED' });
    }
  });

  everywhere.each(isLong ? [1, 2, 3] : [1])(
    'keeps count of live and deleted rows through anything (seed %i)',
    async (seed) => {
      const random = seededRandom(seed);
      const { sink, lease, sweep } = await useRuns(bench(), {
        roots: ['one', 'two'].map((name) => partition(members, { name })),
      });
      const some = (): readonly string[] => all.filter(() => random() < 0.6);
      for (let run = 1; run <= 12; run += 1) {
        const absence = (['nothing', 'walk', 'get'] as const)[Math.floor(random() * 3)] ?? 'get';
        const hand = await sweep(`r${run}`, () => shows(some(), absence)());
        const asked = await sink.deletes.toConfirm(lease, hand.started.run, members, 2);
        const judged = asked.map(({ row }): Judgement =>
          random() < 0.5
            ? { row, verdict: 'gone' }
            : { row, verdict: 'there', record: null, isUnlisted: random() < 0.5 },
        );
        await sink.deletes.judge(lease, hand.started.run, members, judged);
        if (random() < 0.7) await hand.tombstone([members]);
        if (random() < 0.2) {
          await sink.repair.tombstoneRecord(lease, hand.started.run, members, key(all[run % 5] ?? '1'));
        }
        await hand.finish(random() < 0.5 ? 'ok' : 'degraded');
        const live = (await ids()).length;
        const rows = new Set((await changes()).map((change) => change['id'])).size;
        expect(await status(sink), `seed ${seed}, run ${run}`).toMatchObject({
          rows: live,
          deleted: rows - live,
        });
      }
    },
  );
}
