import { describe, expect, it } from 'vitest';
import {
  isLedTo,
  lookForRow,
  type LookedForRow,
  type OtherPlace,
} from '../../../src/sinks/decisions/missing-rows.ts';

const chain = {
  origin: 7,
  chainStartedAt: '2026-03-01T10:00:00.000Z',
  keepPartitionsSince: '2026-01-01T00:00:00.000Z',
};
const believedUntil = '2026-03-02T10:00:00.000Z';
const row: LookedForRow = {
  home: { partition: 1, absence: 'nothing' },
  otherPlaces: [],
  isSeen: false,
  changedAt: '2026-02-01T00:00:00.000Z',
};
/** Walked in full by this chain, which has not met the row there. */
const walked: OtherPlace = {
  partition: 2,
  metBy: 3,
  isLive: true,
  isDue: false,
  origin: 7,
  foundAt: '2026-03-01T10:00:00.000Z',
  isBelowRecord: false,
  fullOrigin: 7,
  absence: 'nothing',
};
const look = (change: Partial<LookedForRow>) => lookForRow({ ...row, ...change }, chain, believedUntil);

describe('a row that its home does not show any more', () => {
  it('is missing where no place is left', () => {
    expect(look({})).toEqual({ kind: 'missing', home: 1, needs: 'nothing', leaves: [] });
  });

  it('moves where this chain has met it', () => {
    const otherPlaces = [walked, { ...walked, partition: 3, metBy: 7 }];
    expect(look({ otherPlaces, isSeen: true })).toEqual({ kind: 'moves', home: 3, leaves: [3] });
  });

  it('stays where this chain has met it outside the places that are noted', () => {
    expect(look({ otherPlaces: [walked], isSeen: true })).toEqual({ kind: 'stays', leaves: [] });
  });

  it('moves to the first place that may still show it, and leaves those that cannot', () => {
    const open = { ...walked, fullOrigin: 6 };
    const otherPlaces = [walked, { ...open, partition: 3 }, { ...open, partition: 4 }];
    expect(look({ otherPlaces })).toEqual({ kind: 'moves', home: 3, leaves: [2, 3] });
  });

  it('stays where something else than this chain has written it meanwhile, unless a clock was wrong', () => {
    expect(look({ changedAt: '2026-03-01T11:00:00.000Z' }).kind).toBe('stays');
    expect(look({ changedAt: '2030-01-01T00:00:00.000Z' }).kind).toBe('missing');
  });

  it('needs what the walk asks for that proves least', () => {
    const otherPlaces: readonly OtherPlace[] = [
      { ...walked, absence: 'get' },
      { ...walked, partition: 3, absence: 'walk' },
      { ...walked, partition: 4, absence: 'walk', isLive: false },
    ];
    expect(look({ otherPlaces })).toEqual({ kind: 'missing', home: 3, needs: 'walk', leaves: [2, 3, 4] });
  });
});

describe('a partition', () => {
  it.each<[string, Partial<OtherPlace>, boolean]>([
    ['that this chain has found', {}, true],
    ['that is due', { origin: 3, isDue: true }, true],
    ['that is a root of other settings', { origin: 3 }, false],
    ['below a record, found lately', { origin: 3, isBelowRecord: true }, true],
    [
      'below a record, not found for long',
      { origin: 3, isBelowRecord: true, foundAt: '2025-12-31T00:00:00.000Z' },
      false,
    ],
    ['below a deleted record', { isLive: false, isDue: true }, false],
  ])('%s is led to: %s', (_what, change, expected) => {
    expect(isLedTo({ ...walked, ...change }, chain)).toBe(expected);
  });
});
