import { describe, expect, it } from 'vitest';
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
