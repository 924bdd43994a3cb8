import { describe, expect, it } from 'vitest';
import { keysetPagination } from '../../src/pagination/incremental-walks.ts';
import { offsetStyle } from '../../src/pagination/offset.ts';
import type { Advance, PageSeen } from '../../src/pagination/pagination.ts';
import { timeParam } from '../../src/pagination/pagination.ts';
import type { Position } from '../../src/sinks/partition.ts';

const secondMs = Date.UTC(2026, 4, 1, 10);

const rules = {
  kind: 'offset',
  offsetParam: 'offset',
  sizeParam: 'count',
  maxSize: 30,
  totalKeys: [],
} as const;

function keyset() {
  return keysetPagination(
    { style: offsetStyle(rules), maxSize: rules.maxSize },
    {
      sinceParam: { name: 'since', write: timeParam },
      sinceMs: secondMs - 59_500,
      pageLengths: new Map(),
      trustsTotal: true,
    },
  );
}

/** Thirty records, all of one time. */
function page(from: number, changedMs: number, capMs = Infinity): PageSeen {
  return {
    marks: Array.from({ length: 30 }, (_, index) => `row-${from + index}`),
    changes: Array.from({ length: 30 }, () => ({ lowestMs: changedMs, highestMs: changedMs })),
    capMs,
    bytes: 3000,
    next: null,
    nowMs: 0,
  };
}

function onward(advance: Advance): Position {
  if (advance.kind !== 'continue') throw new Error(`expected the walk to go on, got ${advance.kind}`);
  return advance.position;
}

describe('the bound of a keyset walk', () => {
  it('is a whole second, in the form that services are known to read', () => {
    expect(keyset().request(keyset().begin())).toEqual({
      count: 30,
      offset: 0,
      since: '2026-05-01T09:59:00+00:00',
    });
  });

  it('moves up to a second before the last value, and stays where a whole page shares that second', () => {
    const walk = keyset();
    const second = onward(walk.advance(walk.begin(), page(0, secondMs)));
    expect(walk.request(second)).toEqual({ count: 30, offset: 0, since: '2026-05-01T09:59:59+00:00' });
    const third = onward(walk.advance(second, page(0, secondMs)));
    expect(walk.request(third)).toEqual({ count: 30, offset: 24, since: '2026-05-01T09:59:59+00:00' });
  });

  // Proves promise 2
  it('does not move over what a lost seam may hide', () => {
    const walk = keyset();
    const second = onward(walk.advance(walk.begin(), page(0, secondMs)));
    const third = onward(walk.advance(second, page(0, secondMs)));
    const afterLoss = onward(walk.advance(third, page(100, secondMs + 60_000)));
    expect(walk.request(afterLoss)).toEqual({ count: 30, offset: 4, since: '2026-05-01T09:59:59+00:00' });
  });

  it("never passes the walk's beginning, whatever one record says of the future", () => {
    const walk = keyset();
    const { changes, ...rest } = page(0, secondMs - 30_000, secondMs);
    const future = { lowestMs: Date.UTC(2999, 0), highestMs: Date.UTC(2999, 0) };
    const next = onward(walk.advance(walk.begin(), { ...rest, changes: [...changes.slice(1), future] }));
    expect(walk.request(next)['since']).toBe('2026-05-01T09:59:29+00:00');
  });

  it('keeps a page size that was halved', () => {
    const walk = keyset();
    const halved = walk.halve(walk.begin());
    if (halved === null) throw new Error('expected half a page');
    expect(walk.request(onward(walk.advance(halved, page(0, secondMs))))['count']).toBe(15);
  });
});
