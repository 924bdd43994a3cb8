import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../../src/core/names.ts';
import { judgeDeletes } from '../../../src/engine/sweep/sweep-run.ts';
import type { EntityMissing } from '../../../src/sinks/deletes.ts';
import type { RowsOf } from '../../../src/sinks/run-report.ts';
import { fakeDeletes } from '../../support/sweep/fake-deletes.ts';
import { lists, members, missingRows, campaigns, sweep } from '../../support/sweep/sweeping.ts';

describe('a sweep', () => {
  it('goes through all batches, then marks what needs nothing more, then what was found below it', async () => {
    const deletes = fakeDeletes(
      missingRows(lists, 3),
      { lists: 100 },
      { sweeps: 3, orphans: [[{ entity: members, rows: 40 }], [{ entity: members, rows: 2 }]] },
    );
    const { report, error } = await sweep(deletes);
    expect(error).toBeNull();
    expect(deletes.calls).toEqual([
      'sweep',
      'sweep',
      'sweep',
      expect.stringMatching(/^suspect .*\blists\b/) as string,
      'tombstone lists all 3',
      'orphans',
      'orphans',
      'orphans',
    ]);
    expect(report(lists)).toMatchObject({ deleted: 3, withheld: 0, pending: 0 });
    expect(report(members)).toMatchObject({ deleted: 42, withheld: 0 });
  });

  it('suspects only parents that get can judge and that may be deleted', async () => {
    const deletes = fakeDeletes([], {});
    await sweep(deletes);
    const [, ...suspects] = deletes.calls.find((call) => call.startsWith('suspect'))?.split(' ') ?? [];
    expect(suspects).toContain('list_members');
    for (const name of ['segment_members', 'automations', 'email_activity', 'unsubscribes']) {
      expect(suspects).not.toContain(name);
    }
  });

  it('withholds what a guard does not believe, asks and marks nothing of it, and says so', async () => {
    const deletes = fakeDeletes([...missingRows(members, 300, { needs: 'get' }), ...missingRows(lists, 2)], {
      list_members: 1000,
      lists: 100,
    });
    const { report, events, asked } = await sweep(deletes);
    expect(asked).toEqual([]);
    expect(report(members)).toMatchObject({
      deleted: 0,
      withheld: 300,
      pending: 0,
      withheldBecause: 'share',
    });
    expect(report(lists)).toMatchObject({ deleted: 2, withheld: 0, withheldBecause: null });
    expect(report(members).withholding).toEqual({
      dayAgo: 1000,
      deletedInDay: 0,
      below: 0,
      along: [],
      maxDeleteShare: 0.2,
      minDeleteRows: 20,
    });
    expect(events.filter(({ kind }) => kind === 'deletes-withheld')).toEqual([
      { kind: 'deletes-withheld', entity: members, rows: 300, live: 1000, because: 'share' },
    ]);
  });

  it('keeps lists that would take too many members along, with all of those', async () => {
    const along = { lists: [{ entity: members, rows: 400 }] };
    const deletes = fakeDeletes(missingRows(lists, 2), { lists: 100, list_members: 1000 }, { along });
    const { report, events } = await sweep(deletes);
    expect(report(lists)).toMatchObject({
      deleted: 0,
      withheld: 2,
      withheldBecause: 'along',
      withholding: { along: along.lists },
    });
    expect(report(members)).toMatchObject({ withheld: 0, pending: 0 });
    expect(events.map(({ kind }) => kind)).toEqual(['sweep-started', 'deletes-withheld']);
    expect((await sweep(deletes, { allowDeletes: true })).report(lists)).toMatchObject({ deleted: 2 });
  });

  it('says how many rows of an entity would go along with the records of others', async () => {
    const rows = [...missingRows(members, 100), ...missingRows(lists, 2)];
    const along = { lists: [{ entity: members, rows: 400 }] };
    const { report } = await sweep(fakeDeletes(rows, { lists: 100, list_members: 2000 }, { along }));
    expect(report(members)).toMatchObject({
      withheld: 100,
      withheldBecause: 'share',
      withholding: { dayAgo: 2000, deletedInDay: 0, below: 400 },
    });
  });

  // Proves promise 4
  it('counts what get no longer returns although it did before, before it is deleted', async () => {
    const rows = missingRows(members, 150, { needs: 'get', wasVouchedFor: true });
    const deletes = fakeDeletes(rows, { list_members: 400 });
    const { report, asked } = await sweep(deletes);
    expect(asked).toHaveLength(150);
    expect(report(members)).toMatchObject({ deleted: 0, withheld: 150, withheldBecause: 'share' });
    expect((await sweep(deletes)).report(members), 'and goes on counting').toMatchObject({ withheld: 150 });
  });

  it('marks what a person lets pass, and only then', async () => {
    const rows = missingRows(lists, 300);
    const deletes = fakeDeletes(rows, { lists: 400 });
    expect((await sweep(deletes)).report(lists)).toMatchObject({ deleted: 0, withheld: 300 });
    const { report } = await sweep(deletes, { allowDeletes: true });
    expect(report(lists)).toMatchObject({ deleted: 300, withheld: 0, withheldBecause: null });
  });

  it('still asks for what needs a get when a person lets it pass', async () => {
    const deletes = fakeDeletes(missingRows(members, 30, { needs: 'get' }), { list_members: 40 });
    const { report, asked } = await sweep(deletes, { allowDeletes: true });
    expect(asked).toHaveLength(30);
    expect(report(members)).toMatchObject({ deleted: 30, withheld: 0, pending: 0 });
  });

  it('completes deletes that an earlier run was allowed while new rows are withheld', async () => {
    const rows = [...missingRows(lists, 50, { isAllowed: true }), ...missingRows(lists, 300)];
    const { report } = await sweep(fakeDeletes(rows, { lists: 400 }));
    expect(report(lists)).toMatchObject({ deleted: 50, withheld: 300, withheldBecause: 'share' });
  });

  it('keeps an entity that came back empty, until a second chain of runs agrees', async () => {
    const rows = missingRows(lists, 5);
    const deletes = fakeDeletes(rows, { lists: 5 });
    expect((await sweep(deletes)).report(lists)).toMatchObject({
      deleted: 0,
      withheld: 5,
      withheldBecause: 'empty',
    });
    for (const row of rows) row.missed = 2;
    expect((await sweep(deletes)).report(lists)).toMatchObject({
      deleted: 5,
      withheld: 0,
      withheldBecause: null,
    });
  });

  it('marks of an entity that came back empty what had been missed before', async () => {
    const rows = [...missingRows(lists, 2, { missed: 2 }), ...missingRows(lists, 3)];
    const { report } = await sweep(fakeDeletes(rows, { lists: 5 }));
    expect(report(lists)).toMatchObject({ deleted: 2, withheld: 3, withheldBecause: 'empty' });
  });

  it('leaves what must be missed twice for the next walk, and counts it as pending', async () => {
    const rows = [
      ...missingRows(campaigns, 2, { needs: 'walk' }),
      ...missingRows(campaigns, 1, { needs: 'walk', missed: 2 }),
    ];
    const { report, tally } = await sweep(fakeDeletes(rows, { campaigns: 100 }));
    expect(report(campaigns)).toMatchObject({ deleted: 1, pending: 2, withheld: 0 });
    expect(tally.isDegraded()).toBe(false);
  });

  it('uses the guards that it was given', async () => {
    const guards = { maxDeleteShare: 0.01, minDeleteRows: 1 };
    const { report } = await sweep(fakeDeletes(missingRows(lists, 2), { lists: 100 }), { guards });
    expect(report(lists)).toMatchObject({ deleted: 0, withheld: 2 });
  });

  it('says what is withheld and pending also where it is broken off', async () => {
    const stop = new AbortController();
    const reason = new Error('stopped by test');
    const rows = [...missingRows(lists, 300), ...missingRows(members, 3, { needs: 'get' })];
    const { report, error } = await sweep(fakeDeletes(rows, { lists: 400, list_members: 100 }), {
      signal: stop.signal,
      answers: () => {
        stop.abort(reason);
        return null;
      },
    });
    expect(error).toBe(reason);
    expect(report(lists)).toMatchObject({ withheld: 300, deleted: 0 });
    expect(report(members)).toMatchObject({ pending: 3 });
  });

  it('starts nothing after its signal is aborted', async () => {
    const deletes = fakeDeletes(missingRows(lists, 3), { lists: 100 });
    const { error } = await sweep(deletes, { signal: AbortSignal.abort(new Error('stopped')) });
    expect(String(error)).toBe('Error: stopped');
    expect(deletes.calls).toEqual([]);
  });
});

const guards = { maxDeleteShare: 0.2, minDeleteRows: 20 };
const all = { withheldBecause: null, passing: ['all'] };
const byShare = { withheldBecause: 'share', passing: ['allowed'] };
const users = 'users' as EntityName;
const notes = 'notes' as EntityName;

function found(more: Partial<EntityMissing>): EntityMissing {
  const { live = 100, deletedInDay = 0 } = more;
  return {
    entity: users,
    live,
    dayAgo: live + deletedInDay,
    deletedInDay,
    missing: 0,
    allowed: 0,
    missedTwice: 0,
    vouchedFor: 0,
    toConfirm: 0,
    orphans: 0,
    hasSurvivor: true,
    along: [],
    isAdopted: false,
    ...more,
  };
}

const judge = (of: Partial<EntityMissing>, others: readonly EntityMissing[] = [], by = guards) => {
  const [own] = judgeDeletes([found(of), ...others], by);
  return { withheldBecause: own?.withheldBecause, passing: own?.passing };
};

describe('the guard of deletes', () => {
  it.each<[string, Partial<EntityMissing>, object]>([
    ['nothing is missing', {}, all],
    ['nothing is stored', { live: 0 }, all],
    [
      'one row of an adopted entity',
      { live: 1000, missing: 1, isAdopted: true },
      { withheldBecause: 'adopted', passing: ['allowed'] },
    ],
    ['what a person allowed of one', { live: 1000, missing: 1, allowed: 1, isAdopted: true }, all],
    ['few rows of many', { live: 1000, missing: 5 }, all],
    ['exactly the share', { live: 1000, missing: 200 }, all],
    ['one more than the share', { live: 1000, missing: 201 }, byShare],
    ['exactly the least number, of few rows', { live: 25, missing: 20 }, all],
    ['one more than the least number, of few rows', { live: 25, missing: 21 }, byShare],
    ['the rest of the share, after deletes of the day', { live: 900, deletedInDay: 100, missing: 100 }, all],
    ['one more than that', { live: 900, deletedInDay: 100, missing: 101 }, byShare],
    ['less than the share, of rows that came today', { live: 9000, dayAgo: 100, missing: 21 }, byShare],
    ['as much, of which get has returned all before', { live: 1000, missing: 900, vouchedFor: 900 }, all],
    ['as much, of which get has returned few before', { live: 1000, missing: 900, vouchedFor: 600 }, byShare],
    [
      'all of it, and get has returned all before',
      { live: 9, missing: 9, vouchedFor: 9, hasSurvivor: false },
      all,
    ],
    ['as much, and all of it allowed', { live: 1000, missing: 900, allowed: 900 }, all],
    ['as much, of which few are not allowed', { live: 1000, missing: 900, allowed: 895 }, all],
    ['as much, of which many are not allowed', { live: 1000, missing: 900, allowed: 600 }, byShare],
  ])('judges: %s', (_title, missing, verdict) => {
    expect(judge(missing)).toEqual(verdict);
  });

  // Proves promise 4
  it('withholds records that would take too many rows of others along, and too many of those with them', () => {
    const along = (rows: number): readonly RowsOf[] => [{ entity: notes, rows }];
    const ofNotes = (more: Partial<EntityMissing> = {}): EntityMissing =>
      found({ entity: notes, live: 1000, ...more });
    expect(judge({ missing: 6, along: along(200) }, [ofNotes()])).toEqual(all);
    const byOthers = { withheldBecause: 'along', passing: ['allowed'] };
    expect(judge({ missing: 6, along: along(201) }, [ofNotes()])).toEqual(byOthers);
    // Own and taken along count together, and so do those of several entities that lead there.
    const both = judgeDeletes([found({ missing: 6, along: along(150) }), ofNotes({ missing: 51 })], guards);
    expect(both.map(({ withheldBecause }) => withheldBecause)).toEqual(['along', 'share']);
    const other = found({ entity: 'teams' as EntityName, missing: 1, along: along(100) });
    expect(judge({ missing: 1, along: along(101) }, [other, ofNotes()])).toEqual(byOthers);
    expect(judge({ missing: 1, along: along(101) }, [ofNotes({ deletedInDay: 130 })])).toEqual(byOthers);
  });

  // Proves promise 4
  it('keeps an entity that came back empty until another chain of runs has missed all of it', () => {
    const empty = { live: 5, missing: 5, hasSurvivor: false };
    const kept = { withheldBecause: 'empty', passing: ['allowed', 'missed-twice'] };
    expect(judge(empty)).toEqual(kept);
    expect(judge({ ...empty, missedTwice: 4 })).toEqual(kept);
    expect(judge({ ...empty, missedTwice: 5 })).toEqual(all);
    expect(judge({ ...empty, allowed: 5 })).toEqual(all);
  });

  it('keeps an entity that came back empty however often it does, where that is too much', () => {
    const large = { live: 500, missing: 500, hasSurvivor: false };
    expect(judge(large)).toEqual({ withheldBecause: 'empty', passing: ['allowed'] });
    expect(judge({ ...large, missedTwice: 500 })).toEqual(byShare);
    const parents = { live: 6, missing: 6, hasSurvivor: false, along: [{ entity: notes, rows: 4730 }] };
    const ofNotes = found({ entity: notes, live: 4736 });
    expect(judge(parents, [ofNotes])).toEqual({ withheldBecause: 'empty', passing: ['allowed'] });
    expect(judge({ ...parents, missedTwice: 6 }, [ofNotes])).toEqual({
      withheldBecause: 'along',
      passing: ['allowed'],
    });
  });

  // Proves promise 4
  it('keeps rows of which others came in place until a person lets them go', () => {
    const kept = { withheldBecause: 'replaced', passing: ['allowed'] };
    const replaced = { live: 4, missing: 2, missedTwice: 2, hasSurvivor: false };
    expect(judge(replaced)).toEqual(kept);
    expect(judge({ ...replaced, allowed: 2 })).toEqual(all);
    const one = { live: 2, missing: 1, hasSurvivor: false };
    expect(judge(one), 'one row without any below it').toEqual(all);
    expect(judge({ ...one, along: [{ entity: notes, rows: 1 }] })).toEqual(kept);
  });

  it('compares shares that no binary fraction can hold as they are written', () => {
    const strict = { maxDeleteShare: 0.57, minDeleteRows: 0 };
    expect(judge({ live: 100, missing: 57 }, [], strict)).toEqual(all);
    expect(judge({ live: 100, missing: 58 }, [], strict)).toEqual(byShare);
  });

  it('lets nothing pass with a share and a least number of zero, and everything with a share of one', () => {
    expect(judge({ live: 1_000_000, missing: 1 }, [], { maxDeleteShare: 0, minDeleteRows: 0 })).toEqual(
      byShare,
    );
    const most = { live: 50, dayAgo: 10, missing: 49, along: [{ entity: notes, rows: 50 }] };
    const ofNotes = found({ entity: notes, live: 50 });
    expect(judge(most, [ofNotes], { maxDeleteShare: 1, minDeleteRows: 0 })).toEqual(all);
  });
});
