import { describe, expect, it } from 'vitest';
import { offsetStyle } from '../../src/pagination/offset.ts';
import type { PageLengths } from '../../src/pagination/pagination.ts';
import type { PageLength, Proof } from '../../src/sinks/partition.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

/* What the pages of one listing tell about those of another: several listings of one entity, in one run. */

const rules = {
  kind: 'offset',
  offsetParam: 'offset',
  sizeParam: 'count',
  maxSize: 100,
  totalKeys: [],
} as const;

interface Walked {
  readonly calls: number;
  readonly isAll: boolean;
  readonly proof: Proof;
  readonly lastPage: PageLength | null;
}

interface Service {
  /** Records that a page has at most, whatever is asked for. */
  readonly cap?: number;
  readonly honoursSize?: true;
  readonly numbered?: { readonly isFixed: boolean; readonly endsByRepeat: boolean; readonly endStatus: null };
  readonly bytesOf?: (row: number) => number;
  /** Bytes after which a page is cut, once it has a record. */
  readonly maxBytes?: number;
}

/** Walks listings of one entity one after the other. */
function openEntity({ cap = Infinity, bytesOf = () => 100, maxBytes = Infinity, ...more }: Service) {
  const pageLengths: PageLengths = new Map();
  const followed: PageLength[] = [];
  const pageOf = (rows: number, offset: number, count: number): readonly number[] => {
    const page: number[] = [];
    let bytes = 0;
    for (let row = offset; row < Math.min(rows, offset + Math.min(count, cap)); row += 1) {
      bytes += bytesOf(row);
      if (page.length > 0 && bytes > maxBytes) break;
      page.push(row);
    }
    return page;
  };
  const walk = (rows: number): Walked => {
    const pagination = offsetStyle({ ...rules, ...more }).walk({
      isOrdered: true,
      growsOnly: false,
      pageLengths,
      storedRows: 0,
      trustsTotal: true,
    });
    const seen = new Set<number>();
    let position = pagination.begin();
    for (let calls = 1; calls < 1_000; calls += 1) {
      const { offset, count } = pagination.request(position) as { offset: number; count: number };
      const page = pageOf(rows, offset, count);
      for (const row of page) seen.add(row);
      const advance = pagination.advance(position, {
        marks: page.map((row) => `${rows}-${row}`),
        changes: [],
        capMs: 0,
        bytes: page.reduce((sum, row) => sum + bytesOf(row), 0),
        next: null,
        nowMs: 0,
      });
      if ('followed' in advance && advance.followed !== undefined) followed.push(advance.followed);
      if (advance.kind === 'end') {
        const { proof, lastPage = null } = advance;
        return { calls, isAll: seen.size === rows, proof, lastPage };
      }
      if (advance.kind !== 'continue') throw new Error(advance.why);
      position = advance.position;
    }
    throw new Error('the walk does not end');
  };
  /** The ledger makes such a walk again. */
  const isTakenBack = ({ lastPage }: Walked): boolean =>
    lastPage !== null &&
    followed.some(({ size, records }) => size === lastPage.size && records <= lastPage.records);
  return { walk, isTakenBack };
}

const honoursSize = true;

describe.each([
  ['offset', {}],
  ['page numbers', { numbered: { isFixed: false, endsByRepeat: false, endStatus: null } }],
] as const)('by %s, where the service documents that it honours the size', (_name, style) => {
  it('confirms the end of a page once for each length that is the largest so far', () => {
    const { walk } = openEntity({ honoursSize, ...style });
    expect([3, 3, 3, 2, 1, 5, 4, 3, 5].map((rows) => walk(rows).calls)).toEqual([2, 1, 1, 1, 1, 2, 1, 1, 1]);
  });

  it('does so for bytes, by which a service may cut silently', () => {
    let size = 100;
    const { walk } = openEntity({ honoursSize, ...style, bytesOf: () => size });
    walk(5);
    expect(walk(5).calls).toBe(1);
    size = 101;
    expect(walk(5).calls).toBe(2);
    expect(walk(5).calls).toBe(1);
    size = 50;
    expect(walk(6).calls, 'more records in fewer bytes').toBe(2);
  });

  it('confirms a full page', () => {
    const { walk } = openEntity({ honoursSize, ...style });
    expect(walk(250).isAll).toBe(true);
    expect(walk(100)).toMatchObject({ isAll: true });
    expect(walk(100).calls).toBeGreaterThan(1);
    expect(walk(99).calls).toBe(1);
  });

  it('ends no walk by a length that more came after, and takes back those that it has ended', () => {
    let size = 100;
    const { walk, isTakenBack } = openEntity({ honoursSize, ...style, cap: 20, bytesOf: () => size });
    expect(walk(20).calls, 'it is whole, by chance as long as pages get here').toBeGreaterThan(1);
    const cut = walk(50);
    expect(cut).toMatchObject({ isAll: false, calls: 1, lastPage: { size: 100, records: 20 } });
    expect(isTakenBack(cut)).toBe(false);
    size = 101;
    expect(walk(50), 'its first page is the largest so far').toMatchObject({ isAll: true });
    expect(isTakenBack(cut)).toBe(true);
    size = 100;
    expect(walk(50)).toMatchObject({ isAll: true });
  });
});

const seed = startSeed();
const trials = repeats('TRIALS', { share: 25, full: 2000 });
// Proves promise 3
it(`claims no proof of a listing that it has not read whole, where pages are cut by records or bytes (seed ${seed})`, () => {
  const random = seededRandom(seed);
  const int = (below: number): number => Math.floor(random() * below);
  for (let trial = 0; trial < trials; trial += 1) {
    const cap = 2 + int(random() < 0.5 ? 20 : 150);
    const maxBytes = random() < 0.3 ? 1_000 + int(5_000) : Infinity;
    const { walk, isTakenBack } = openEntity({
      cap,
      maxBytes,
      ...(cap >= rules.maxSize && maxBytes === Infinity ? { honoursSize } : {}),
      bytesOf: (row) => 100 + ((row * 37) % 50),
    });
    const walks = Array.from({ length: 40 }, () => walk(int(random() < 0.7 ? 30 : 300)));
    const missed = walks.filter((one) => !one.isAll && !isTakenBack(one));
    expect({ trial, cap, missed }).toEqual({ trial, cap, missed: [] });
  }
}, 600_000);
