import { describe, expect, it } from 'vitest';
import { offsetPagination } from '../../src/pagination/offset.ts';
import type { PageLengths } from '../../src/pagination/pagination.ts';
import type { Proof } from '../../src/sinks/partition.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { startSeed } from '../support/trials.ts';

interface Server {
  rows: string[];
  cap: number;
}

interface Walked {
  readonly seen: ReadonlySet<string>;
  readonly calls: number;
  readonly end:
    { readonly kind: 'proof'; readonly proof: Proof } | { readonly kind: 'failed'; readonly code: string };
}

/** Walks as the engine does: three restarts, everything received counts as read. `between` runs before each call. */
function walk(
  server: Server,
  options: {
    isOrdered?: boolean;
    between?: (call: number) => void;
    page?: (offset: number, count: number) => string[];
    pageLengths?: PageLengths;
    storedRows?: number;
    size?: number;
  } = {},
): Walked {
  const pagination = offsetPagination(
    {
      kind: 'offset',
      offsetParam: 'offset',
      sizeParam: 'count',
      maxSize: options.size ?? 100,
      totalKeys: [],
    },
    {
      isOrdered: options.isOrdered ?? true,
      growsOnly: false,
      pageLengths: options.pageLengths ?? new Map(),
      storedRows: options.storedRows ?? 0,
      trustsTotal: true,
    },
  );
  const seen = new Set<string>();
  let position = pagination.begin();
  let restarts = 0;
  for (let calls = 1; calls < 5000; calls += 1) {
    options.between?.(calls);
    const { offset, count } = pagination.request(position) as { offset: number; count: number };
    const marks =
      options.page?.(offset, count) ?? server.rows.slice(offset, offset + Math.min(count, server.cap));
    for (const mark of marks) seen.add(keyOf(mark));
    const advance = pagination.advance(position, {
      marks,
      changes: [],
      capMs: 0,
      bytes: marks.length * 100,
      next: null,
      nowMs: 0,
    });
    if (advance.kind === 'end') return { seen, calls, end: { kind: 'proof', proof: advance.proof } };
    if (advance.kind === 'broken') return { seen, calls, end: { kind: 'failed', code: advance.code } };
    if (advance.kind === 'restart') {
      restarts += 1;
      if (restarts > 3) return { seen, calls, end: { kind: 'failed', code: advance.code } };
      position = pagination.begin();
    } else {
      // What the ledger keeps is JSON: a walk must survive the way there and back.
      position = JSON.parse(JSON.stringify(advance.position)) as typeof position;
    }
  }
  throw new Error('the walk does not end');
}

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `row-${index}`);
}

/** A changed row moves to the end, and its mark changes with it: the sort value is part of the mark. */
function changed(mark: string): string {
  return `${mark}'`;
}

function keyOf(mark: string): string {
  return mark.replaceAll("'", '');
}

describe('offset pagination', () => {
  it.each([0, 1, 2, 9, 10, 11, 99, 100, 101, 189, 190, 191, 1000, 1234])(
    'reads all %i rows and proves it',
    (count) => {
      const walked = walk({ rows: numbered(count), cap: 100 });
      expect(walked.seen.size).toBe(count);
      expect(walked.end.kind).toBe('proof');
    },
  );

  it('reads everything from a server that caps the page size silently', () => {
    for (const cap of [2, 3, 7, 11, 12, 50]) {
      const walked = walk({ rows: numbered(333), cap }, { size: 1000 });
      expect({ cap, seen: walked.seen.size }).toEqual({ cap, seen: 333 });
      expect(walked.end.kind).toBe('proof');
    }
  });

  it('ends a one-page partition with one call once a larger page has been seen', () => {
    const pageLengths: PageLengths = new Map();
    walk({ rows: numbered(300), cap: 100 }, { pageLengths });
    expect(walk({ rows: numbered(40), cap: 100 }, { pageLengths }).calls).toBe(1);
    // A full page may be followed by one that the service leaves all records out of.
    expect(walk({ rows: numbered(100), cap: 100 }, { pageLengths }).calls).toBe(4);
  });

  it('says that the order was unknown when a walk of several pages has no fixed order', () => {
    expect(walk({ rows: numbered(300), cap: 100 }, { isOrdered: false }).end).toEqual({
      kind: 'proof',
      proof: { kind: 'seam', isOrdered: false },
    });
    expect(walk({ rows: numbered(30), cap: 100 }, { isOrdered: false }).end).toEqual({
      kind: 'proof',
      proof: { kind: 'single', isOrdered: true },
    });
  });

  it('does not take two pages for one when a row moved in front of the walk between them', () => {
    const server = { rows: numbered(101), cap: 100 };
    const walked = walk(server, {
      isOrdered: false,
      between: (call) => {
        if (call === 2) server.rows.unshift(...server.rows.splice(100, 1));
      },
    });
    expect(walked.end.kind === 'proof' && walked.seen.size < 101 && walked.end.proof.isOrdered).toBe(false);
  });

  it('says that pages of one record cannot be fitted together', () => {
    expect(walk({ rows: numbered(5), cap: 1 }).end).toEqual({ kind: 'failed', code: 'PAGING_BROKEN' });
    expect(walk({ rows: numbered(1), cap: 1 }).seen.size).toBe(1);
  });

  it('notices a server that ignores the offset', () => {
    const rows = numbered(100);
    expect(walk({ rows, cap: 100 }, { page: () => rows }).end).toEqual({
      kind: 'failed',
      code: 'PAGING_BROKEN',
    });
  });

  it('is not fooled into an early end by rows inserted in front', () => {
    const server = { rows: numbered(500), cap: 90 };
    const original = [...server.rows];
    const walked = walk(server, {
      size: 90,
      between: (call) => {
        if (call === 3) server.rows.unshift(...Array.from({ length: 80 }, (_, index) => `new-${index}`));
      },
    });
    expect(walked.end.kind).toBe('proof');
    expect(original.filter((row) => !walked.seen.has(row))).toEqual([]);
  });

  it('restarts, and then gives up with a clear reason, when rows move faster than it can follow', () => {
    const server = { rows: numbered(5000), cap: 100 };
    const walked = walk(server, { between: () => server.rows.splice(0, 60) });
    if (walked.end.kind === 'failed') expect(walked.end.code).toBe('SEAM_LOST');
    else expect(server.rows.filter((row) => !walked.seen.has(row))).toEqual([]);
  });

  const seed = startSeed();
  // Proves promise 3
  it(`misses no row that was there throughout, whatever vanishes, moves to the end or is appended (seed ${seed})`, () => {
    const random = seededRandom(seed);
    const int = (below: number): number => Math.floor(random() * below);
    let proven = 0;
    for (let trial = 0; trial < 600; trial += 1) {
      const server = { rows: numbered(int(900)), cap: 12 + int(120) };
      const throughout = new Set(server.rows);
      let fresh = 0;
      const violence = int(30);
      const walked = walk(server, {
        between: () => {
          for (let change = int(violence + 1); change > 0; change -= 1) {
            const kind = random();
            const at = int(server.rows.length);
            if (kind < 0.5) for (const gone of server.rows.splice(at, 1)) throughout.delete(keyOf(gone));
            else if (kind < 0.75) server.rows.push(...server.rows.splice(at, 1).map(changed));
            else server.rows.push(`fresh-${(fresh += 1)}`);
          }
        },
      });
      if (walked.end.kind !== 'proof') continue;
      proven += 1;
      const missed = [...throughout].filter((row) => !walked.seen.has(row));
      expect({ trial, seed, proof: walked.end.proof, missed }).toEqual({
        trial,
        seed,
        proof: walked.end.proof,
        missed: [],
      });
    }
    expect(proven).toBeGreaterThan(300);
  });
});
