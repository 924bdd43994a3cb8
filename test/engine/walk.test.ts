import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Params } from '../../src/core/records.ts';
import { afterKeys, noProgress, stuckBecause } from '../../src/engine/walk.ts';
import { type SourcePage, readRecords } from '../../src/source/source.ts';
import { seededRandom } from '../support/seeded-random.ts';
import type { SimulatedService } from '../support/pagination/simulated-service.ts';
import { simulatedSync, type SimulatedEntity } from '../support/pagination/simulated-sync.ts';
import { isLong } from '../support/trials.ts';

const nowMs = Date.UTC(2026, 4, 1);
const mostCalls = 6_000;

/** What a hostile service shows: the records of one page, by the number of the call and the parameters. */
type Page = (call: number, params: Params) => readonly JsonObject[];

const row = (index: number, version = 1): JsonObject => ({
  id: `row-${index}`,
  version,
  changed: new Date(nowMs - 9_000_000 + index * 1_000).toISOString(),
  created: new Date(nowMs - 9_000_000 + index * 1_000).toISOString(),
});
const rows = (from: number, to: number, version = 1): readonly JsonObject[] =>
  Array.from({ length: Math.max(0, to - from) }, (_, index) => row(from + index, version));
/** An honest listing of `length` rows in front of what `last` shows at its end. */
const endingIn =
  (length: number, last: (call: number) => JsonObject): Page =>
  (call, { offset, count }) => {
    const start = Number(offset ?? 0);
    return [...rows(0, length), last(call)].slice(start, start + Math.min(25, Number(count)));
  };

const circles: Record<string, Page> = {
  'a last record without an id, different in every answer': endingIn(200, (call) => ({
    version: call,
    note: `n${call}`,
  })),
  'a last record with another id in every answer': endingIn(200, (call) => ({
    ...row(200),
    id: `id-${call}`,
  })),
  'a last record with another content in every answer': endingIn(200, (call) => row(200, call)),
  'the same page again, with other contents': (call) => rows(0, 25, call),
  'two pages in turn, with other contents': (call) =>
    call % 2 === 0 ? rows(0, 25, call) : rows(25, 50, call),
  'seventeen pages round and round': (call) => rows((call % 17) * 25, (call % 17) * 25 + 25, call),
  'one record round and round': (call) => [row(call % 3, call)],
  'known records in ever other combinations': (call) =>
    Array.from({ length: 25 }, (_, index) => row((call * 7 + index * index * (call % 11)) % 120, call)),
  'records without an id, whatever is asked for': (call) => [{ version: call }, { version: -call }],
};

const tokenCircles: Record<string, Page> = {
  ...circles,
  'empty pages': () => [],
  'an empty page after each known one': (call) => (call % 2 === 0 ? [] : rows(0, 25, call)),
  'many empty pages before each known one': (call) => (call % 100 === 0 ? [row(1, call)] : []),
};

/** Every answer names a token that was never given before. */
function circling(page: Page): SimulatedService & { readonly answers: () => number } {
  let calls = 0;
  const list = (params: Params): SourcePage => {
    calls += 1;
    if (calls > mostCalls) throw new Error('the walk does not end');
    const records = readRecords(page(calls, params));
    const next = 'offset' in params ? null : { hasMore: true, token: `token-${calls}` };
    return { records, next, serverTime: null, bytes: records.length * 100 };
  };
  return {
    rows: [],
    calls: () => calls,
    answers: () => calls,
    nowMs: () => nowMs,
    dateMs: () => nowMs,
    advance: () => undefined,
    setMoving: () => undefined,
    burst: () => undefined,
    list,
    shown: (ms) => ms,
  };
}

/** Walks in full, or from a watermark that an honest full walk has left. */
async function walkCircle(name: SimulatedEntity, page: Page, isIncremental: boolean) {
  let isHonest = isIncremental;
  const service = circling((call, params) =>
    isHonest ? rows(Number(params['offset'] ?? 0), 20) : page(call, params),
  );
  const honestly: SimulatedService = {
    ...service,
    list: (params) => {
      const answer = service.list(params);
      return isHonest && answer.next !== null ? { ...answer, next: { hasMore: false, token: null } } : answer;
    },
  };
  const sync = simulatedSync(name, honestly, seededRandom(1));
  if (isIncremental) expect(await sync.walk()).toHaveProperty('seal');
  isHonest = false;
  const before = service.answers();
  const end = await sync.walk();
  return { end, calls: service.answers() - before };
}

const named = /^(PAGING_BROKEN|SEAM_LOST)$/;
/** Different records of the listings that have an end. */
const ended = new Map([['a last record with another content in every answer', 201]]);

/** In `npm test` each kind of answer to a third of the walks. */
const share = (pages: Record<string, Page>, walk: number): readonly string[] =>
  Object.keys(pages).filter((_, at) => isLong || at % 3 === walk % 3);
const walks = [
  ['ordered', circles, false],
  ['unordered', circles, false],
  ['growing', circles, false],
  ['keyset', circles, false],
  ['keyset', circles, true],
  ['activity', circles, false],
  ['tokens', tokenCircles, false],
  ['tokens', tokenCircles, true],
] as const;

describe.each(walks.map((walk, at) => [...walk, at] as const))(
  'a walk of %s that leads nowhere',
  (name, pages, isIncremental, at) => {
    // Proves promise 8.2
    it.each(share(pages, at))(`ends with a reason, incremental ${isIncremental}: %s`, async (title) => {
      const page = pages[title];
      if (page === undefined) throw new Error(title);
      const { end, calls } = await walkCircle(name, page, isIncremental);
      // Where the order does not depend on what changes, a listing can be read to its end all the same.
      if ('seal' in end) expect({ title, met: end.met.size }).toEqual({ title, met: ended.get(title) });
      else {
        expect({ title, code: end.failure.code }).toMatchObject({
          code: expect.stringMatching(named) as string,
        });
      }
      expect(calls).toBeLessThan(mostCalls);
    });
  },
);

describe('a walk that makes progress', () => {
  /**
   * Pages of `size` keys from `from` on, each overlapping the one before it by `overlap`; gives why it would be stuck.
   */
  function walkOn(start: { from: number; to: number; size: number; overlap: number }, before = noProgress) {
    let progress = before;
    for (let at = start.from; at < start.to; at += start.size - start.overlap) {
      const keys = Array.from({ length: start.size }, (_, index) => `[${at + index}]`);
      progress = afterKeys(progress, keys, true);
      const why = stuckBecause(progress);
      if (why !== null) return { progress, why };
    }
    return { progress, why: null };
  }

  // Proves promise 8.2
  it('is not taken for one that does not, however much its pages overlap', () => {
    expect(walkOn({ from: 0, to: 6_000, size: 11, overlap: 10 }).why).toBeNull();
    expect(walkOn({ from: 0, to: 6_000, size: 2, overlap: 1 }).why).toBeNull();
  });

  it('may read little at a time after it has read much', () => {
    const { progress } = walkOn({ from: 0, to: 100_000, size: 1_000, overlap: 10 });
    expect(walkOn({ from: 100_000, to: 110_000, size: 12, overlap: 10 }, progress).why).toBeNull();
    expect(walkOn({ from: 100_000, to: 102_000, size: 2, overlap: 1 }, progress).why).toBeNull();
  });

  it('may meet all it has read four times again, and a thousand empty pages in a row', () => {
    let { progress } = walkOn({ from: 0, to: 5_000, size: 100, overlap: 0 });
    for (let again = 0; again < 4; again += 1) {
      const once = walkOn({ from: 0, to: 5_000, size: 100, overlap: 0 }, progress);
      expect(once.why).toBeNull();
      progress = once.progress;
    }
    for (let empty = 0; empty < 1_000; empty += 1) progress = afterKeys(progress, [], false);
    expect(stuckBecause(progress)).toBeNull();
    expect(stuckBecause(afterKeys(progress, [], false))).toContain('1001 in a row');
  });

  it('says what it has seen and what to do when it is stuck', () => {
    let progress = walkOn({ from: 0, to: 5_000, size: 100, overlap: 0 }).progress;
    for (let again = 0; stuckBecause(progress) === null; again += 1) {
      expect(again).toBeLessThan(400);
      progress = afterKeys(progress, ['[1]', '[2]', '[3]', '[4]', '[5]', '[6]', '[7]', '[8]'], true);
    }
    expect(stuckBecause(progress)).toMatch(
      /^expected each page to lead to other records, got the same ones again and again: the last \d+ were 8 different ones; what was read is kept/,
    );
  });
});
