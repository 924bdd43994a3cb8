import { describe, expect, it } from 'vitest';
import {
  concludeWalk,
  weakestAbsence,
  type EndedWalk,
  type WalkProof,
} from '../../../src/sinks/decisions/conclude-walk.ts';

const [before, start, later] = [
  '2026-03-01T08:00:00.000Z',
  '2026-03-01T10:00:00.000Z',
  '2026-03-01T12:00:00.000Z',
];
const known: EndedWalk = {
  mode: 'full',
  isMidway: false,
  origin: 7,
  watermark: before,
  foundMarker: null,
  fullAt: before,
  fullOrigin: 3,
  isBelowRecord: false,
};
const proof: WalkProof = {
  isDoubted: false,
  absence: 'nothing',
  watermark: start,
  chainStartedAt: start,
};

describe('what a walk proves', () => {
  it('has a full walk swept that says something of what it did not meet', () => {
    expect(concludeWalk(known, proof)).toEqual({
      watermark: start,
      marker: null,
      fullAt: before,
      fullOrigin: 7,
      sweepOrigin: 7,
    });
  });

  it.each(['full', 'incremental'] as const)('concludes nothing from a %s walk with a doubt', (mode) => {
    const walk = { ...known, mode, foundMarker: later };
    const doubted = { ...proof, isDoubted: true };
    const asBefore = { watermark: before, marker: null, fullAt: before, fullOrigin: 3, sweepOrigin: null };
    expect(concludeWalk(walk, doubted)).toEqual(asBefore);
    const belowRecord = concludeWalk({ ...walk, isBelowRecord: true }, doubted);
    expect(belowRecord, 'read again, whether or not its parent changes').toEqual({
      ...asBefore,
      fullAt: null,
    });
  });

  it('counts a full walk that says nothing of absences without a sweep', () => {
    const concluded = concludeWalk(known, { ...proof, absence: null });
    expect(concluded).toMatchObject({ fullAt: start, fullOrigin: 3, sweepOrigin: null });
  });

  it('leaves the newest full walk as it is after an incremental one', () => {
    const concluded = concludeWalk({ ...known, mode: 'incremental' }, { ...proof, absence: null });
    expect(concluded).toMatchObject({ fullAt: before, fullOrigin: 3, sweepOrigin: null });
  });

  it.each<[string, Partial<EndedWalk>, string | null, string | null]>([
    ['advances', {}, later, later],
    ['goes back to what a full walk says', { watermark: later }, start, start],
    ['never goes back for an incremental walk', { mode: 'incremental', watermark: later }, start, later],
    ['advances for an incremental walk', { mode: 'incremental' }, later, later],
    ['begins with the first walk', { mode: 'incremental', watermark: null }, start, start],
    ['stays where the walk says nothing', {}, null, before],
  ])('has a watermark that %s', (_what, walk, watermark, expected) => {
    expect(concludeWalk({ ...known, ...walk }, { ...proof, watermark }).watermark).toBe(expected);
  });

  it.each<[Partial<EndedWalk>, string | null]>([
    [{ mode: 'full' }, null],
    [{ mode: 'incremental', foundMarker: 'm1' }, null],
    [{ mode: 'incremental' }, before],
  ])('makes the next walk full after one that began midway, but for changes: %o', (walk, fullAt) => {
    const concluded = concludeWalk({ ...known, ...walk, isMidway: true }, proof);
    expect(concluded).toMatchObject({ fullAt, fullOrigin: 3, sweepOrigin: null });
  });

  it('believes of a tree what its least certain listing says', () => {
    expect(weakestAbsence(['nothing', 'get'])).toBe('get');
    expect(weakestAbsence(['get', 'walk', 'nothing'])).toBe('walk');
    expect(weakestAbsence(['nothing', null])).toBe(null);
    expect(weakestAbsence(['nothing'])).toBe('nothing');
  });
});
