import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../../src/core/names.ts';
import {
  believedUntil,
  decideMode,
  isUnchanged,
  learnPageLength,
  neverWalked,
  standingOfParent,
  type ChainReading,
  type KnownWalks,
} from '../../../src/sinks/decisions/becoming-due.ts';

const reading: ChainReading = {
  isIncremental: true,
  fullBefore: '2026-02-01T00:00:00.000Z',
  mayMove: false,
  isFull: false,
  believedUntil: '2026-03-02T00:00:00.000Z',
  scope: 's1',
};
const known: KnownWalks = {
  dueSince: null,
  watermark: '2026-02-20T00:00:00.000Z',
  marker: 'm1',
  fullAt: '2026-02-20T00:00:00.000Z',
  sealedScope: 's1',
};
const marker = { value: 'm1', isSettled: true };

describe('a partition that becomes due', () => {
  it.each<[string, Partial<KnownWalks>, Partial<ChainReading>, 'full' | 'incremental']>([
    ['by its changes', {}, {}, 'incremental'],
    ['in full without a watermark', { watermark: null }, {}, 'full'],
    ['in full where the entity has no changes', {}, { isIncremental: false }, 'full'],
    ['in full where a full run asks for it', {}, { isFull: true }, 'full'],
    ['in full where its newest full walk is too old', { fullAt: '2026-02-01T00:00:00.000Z' }, {}, 'full'],
    ['in full where that walk is dated in the future', { fullAt: '2030-01-01T00:00:00.000Z' }, {}, 'full'],
    ['in full where that walk was withdrawn', { fullAt: null }, {}, 'full'],
    ['in full where it was sealed under another scope', { sealedScope: 's0' }, {}, 'full'],
  ])('is read %s', (_what, walks, change, mode) => {
    expect(decideMode({ ...known, ...walks }, { ...reading, ...change })).toBe(mode);
  });

  it('is read in full where the run does not read the entity', () => {
    expect(decideMode(known, undefined)).toBe('full');
  });
});

describe('a partition that is found again', () => {
  it.each<[string, Partial<KnownWalks>, boolean]>([
    ['with the same marker', {}, true],
    ['with another marker', { marker: 'm0' }, false],
    ['while it is due', { dueSince: '2026-02-25T00:00:00.000Z' }, false],
    ['after too long', { fullAt: null }, false],
  ])('%s need not be read: %s', (_what, walks, expected) => {
    expect(isUnchanged({ ...known, ...walks }, marker, reading)).toBe(expected);
  });

  it('is read where there is no marker, no reading, or no walk', () => {
    expect(isUnchanged(known, null, reading)).toBe(false);
    expect(isUnchanged(known, marker, undefined)).toBe(false);
    expect(isUnchanged(neverWalked, marker, reading)).toBe(false);
  });
});

it('believes times up to a day ahead', () => {
  expect(believedUntil('2026-03-01T10:00:00.000Z')).toBe('2026-03-02T10:00:00.000Z');
});

describe('a walk that ended after a page of its size was followed by more', () => {
  const members = 'members' as EntityName;
  const followed = { size: 1000, records: 256 };
  it.each([
    ['ended too early with a page exactly as long', 256, followed],
    ['ended too early with a longer page', 257, followed],
    ['counts with a shorter page', 255, null],
  ])('%s', (_what, records, expected) => {
    const known = new Map<string, number>();
    expect(learnPageLength(known, members, { followed, seal: null })).toEqual(followed);
    const seal = {
      proof: { kind: 'single', isOrdered: false },
      watermark: null,
      absence: null,
      lastPage: { size: 1000, records },
    } as const;
    expect(learnPageLength(known, members, { seal })).toEqual(expected);
  });
});

describe('the parent of a due partition that the chain has not found', () => {
  it.each([
    ['is there where no full walk of its owner says otherwise', null, false, 'is-there'],
    ['is there where the full walk is older than the finding', 3, false, 'is-there'],
    ['seems gone where this chain has walked its owner and not met it', 7, false, 'seems-gone'],
    ['leads elsewhere where this chain has met it and was not led here', 7, true, 'leads-elsewhere'],
    ['leads elsewhere where a later chain was not led here', 6, false, 'leads-elsewhere'],
  ] as const)('%s', (_what, walkedBy, isSeen, expected) => {
    expect(standingOfParent({ walkedBy, isSeen }, { origin: 7, foundOrigin: 5 })).toBe(expected);
  });
});
