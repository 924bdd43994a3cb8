import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../../src/core/names.ts';
import { judgeDeletes } from '../../../src/engine/sweep/sweep-run.ts';
import type { DeletedRows, EntityMissing } from '../../../src/sinks/deletes.ts';

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

const judge = (of: Partial<EntityMissing>, others: readonly EntityMissing[] = [], by = guards) =>
  judgeDeletes([found(of), ...others], by).get(users);

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

  it('withholds records that would take too many rows of others along, and too many of those with them', () => {
    const along = (rows: number): readonly DeletedRows[] => [{ entity: notes, rows }];
    const ofNotes = (more: Partial<EntityMissing> = {}): EntityMissing =>
      found({ entity: notes, live: 1000, ...more });
    expect(judge({ missing: 6, along: along(200) }, [ofNotes()])).toEqual(all);
    const byOthers = { withheldBecause: 'along', passing: ['allowed'] };
    expect(judge({ missing: 6, along: along(201) }, [ofNotes()])).toEqual(byOthers);
    // Own and taken along count together, and so do those of several entities that lead there.
    const both = judgeDeletes([found({ missing: 6, along: along(150) }), ofNotes({ missing: 51 })], guards);
    expect([...both.values()].map(({ withheldBecause }) => withheldBecause)).toEqual(['along', 'share']);
    const other = found({ entity: 'teams' as EntityName, missing: 1, along: along(100) });
    expect(judge({ missing: 1, along: along(101) }, [other, ofNotes()])).toEqual(byOthers);
    expect(judge({ missing: 1, along: along(101) }, [ofNotes({ deletedInDay: 130 })])).toEqual(byOthers);
  });

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
