import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../../src/core/names.ts';
import { guardDeletes } from '../../../src/engine/sweep/guard-deletes.ts';
import type { EntityMissing } from '../../../src/sinks/deletes.ts';

const guards = { maxDeleteShare: 0.2, minDeleteRows: 20 };
const all = { withheldBecause: null, passing: ['all'] };
const byShare = { withheldBecause: 'share', passing: ['allowed'] };

function found(more: Partial<EntityMissing>): EntityMissing {
  return {
    entity: 'users' as EntityName,
    live: 100,
    missing: 0,
    allowed: 0,
    missedTwice: 0,
    vouchedFor: 0,
    toConfirm: 0,
    orphans: 0,
    toWalk: 0,
    isEmpty: false,
    ...more,
  };
}

describe('the guard of deletes', () => {
  it.each<[string, Partial<EntityMissing>, object]>([
    ['nothing is missing', {}, all],
    ['nothing is stored', { live: 0 }, all],
    ['few rows of many', { live: 1000, missing: 5 }, all],
    ['exactly the share', { live: 1000, missing: 200 }, all],
    ['one more than the share', { live: 1000, missing: 201 }, byShare],
    ['exactly the least number, of few rows', { live: 25, missing: 20 }, all],
    ['one more than the least number, of few rows', { live: 25, missing: 21 }, byShare],
    ['all of a handful, where others were met elsewhere', { live: 5, missing: 5 }, all],
    ['as much, of which get has returned all before', { live: 1000, missing: 900, vouchedFor: 900 }, all],
    ['as much, of which get has returned few before', { live: 1000, missing: 900, vouchedFor: 600 }, byShare],
    [
      'all of it, and get has returned all before',
      { live: 9, missing: 9, vouchedFor: 9, isEmpty: true },
      all,
    ],
    ['as much, and all of it allowed', { live: 1000, missing: 900, allowed: 900 }, all],
    ['as much, of which few are not allowed', { live: 1000, missing: 900, allowed: 895 }, all],
    ['as much, of which many are not allowed', { live: 1000, missing: 900, allowed: 600 }, byShare],
  ])('judges: %s', (_title, missing, verdict) => {
    expect(guardDeletes(found(missing), guards)).toEqual(verdict);
  });

  it('keeps an entity that came back empty until another chain of runs has missed all of it', () => {
    const empty = { live: 5, missing: 5, isEmpty: true };
    const kept = { withheldBecause: 'empty', passing: ['allowed', 'missed-twice'] };
    expect(guardDeletes(found(empty), guards)).toEqual(kept);
    expect(guardDeletes(found({ ...empty, missedTwice: 4 }), guards)).toEqual(kept);
    expect(guardDeletes(found({ ...empty, missedTwice: 5 }), guards)).toEqual(all);
    expect(guardDeletes(found({ ...empty, allowed: 5 }), guards)).toEqual(all);
  });

  it('keeps a large entity that came back empty however often it does', () => {
    const empty = { live: 500, missing: 500, isEmpty: true };
    expect(guardDeletes(found(empty), guards)).toEqual({ withheldBecause: 'empty', passing: ['allowed'] });
    expect(guardDeletes(found({ ...empty, missedTwice: 500 }), guards)).toEqual(byShare);
  });

  it('compares shares that no binary fraction can hold as they are written', () => {
    const strict = { maxDeleteShare: 0.57, minDeleteRows: 0 };
    expect(guardDeletes(found({ live: 100, missing: 57 }), strict)).toEqual(all);
    expect(guardDeletes(found({ live: 100, missing: 58 }), strict)).toEqual(byShare);
  });

  it('lets nothing pass with a share and a least number of zero, and everything with a share of one', () => {
    const one = found({ live: 1_000_000, missing: 1 });
    expect(guardDeletes(one, { maxDeleteShare: 0, minDeleteRows: 0 })).toEqual(byShare);
    const most = found({ live: 50, missing: 50 });
    expect(guardDeletes(most, { maxDeleteShare: 1, minDeleteRows: 0 })).toEqual(all);
  });
});
