import { describe, expect, it } from 'vitest';
import {
  answeredMs,
  differenceMs,
  keptDifferences,
  smallestOf,
} from '../../src/engine/prepare/prepare-page.ts';

const capMs = Date.UTC(2026, 0, 1, 12);
const hourMs = 3_600_000;
const at = (ageMs: number) => ({ lowestMs: capMs - ageMs, highestMs: capMs - ageMs });

describe('how far the clock that dates the records is behind', () => {
  it('is at most the age of the newest record of a page, whatever is dated later', () => {
    expect(differenceMs(capMs, [at(3 * hourMs), at(hourMs), null, at(-hourMs)])).toBe(hourMs);
    expect(differenceMs(capMs, [null, at(-1)])).toBeNull();
    expect(differenceMs(capMs, [{ lowestMs: capMs - 5, highestMs: capMs + 5 }])).toBe(5);
  });

  // Proves promise 2
  it('is never more than a day', () => {
    expect(differenceMs(capMs, [at(90 * 24 * hourMs)])).toBe(24 * hourMs);
  });

  // Proves promise 2
  it('is the smallest that this walk and the last five have shown', () => {
    const kept = [1, 2, 3, 4, 5, 6].reduce<readonly number[]>(keptDifferences, []);
    expect(kept).toEqual([2, 3, 4, 5, 6]);
    expect(keptDifferences(kept, null)).toEqual(kept);
    expect([smallestOf(kept, 9), smallestOf(kept, 1), smallestOf([], null)]).toEqual([2, 1, null]);
  });

  it("counts from the answer's Date, or from this machine's clock where there is none", () => {
    const now = { capMs, nowMs: capMs + 500 };
    expect(answeredMs('2026-01-01T12:00:07.000Z', now)).toBe(capMs + 8000);
    expect(answeredMs('2020-01-01T12:00:07.000Z', now)).toBe(capMs);
    expect(answeredMs(null, now)).toBe(capMs + 500);
  });
});
