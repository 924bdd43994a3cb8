import { describe, expect, it } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import type { RunEvent } from '../../src/core/events.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { EntityName, RunId } from '../../src/core/names.ts';
import type { Params } from '../../src/core/records.ts';
import { Secret } from '../../src/core/secret.ts';
import {
  answeredMs,
  differenceMs,
  keptDifferences,
  smallestOf,
} from '../../src/engine/prepare/prepare-page.ts';
import { runTally } from '../../src/engine/run-tally.ts';
import {
  afterKeys,
  noProgress,
  stuckBecause,
  type GroupCommits,
  walkContext,
  walkPartition,
  type WalkContext,
  type WalkEnd,
  sealOf,
  walkState,
  type WalkState,
  afterRefusal,
  openPosition,
  sealPosition,
} from '../../src/engine/walk.ts';
import { newWake, workPool, type Pool } from '../../src/engine/sync-connector.ts';
import { openRecordMask } from '../../src/settings/mask-settings.ts';
import type { Partition, Doubt, Proof } from '../../src/sinks/partition.ts';
import type { PageCommit } from '../../src/sinks/sink.ts';
import { type SourcePage, readRecords, type ListRequest } from '../../src/source/source.ts';
import type { SimulatedService } from '../support/pagination/simulated-service.ts';
import { simulatedSync, type SimulatedEntity } from '../support/pagination/simulated-sync.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { chosenEntities, entityNamed, testPartition } from '../support/sync-once.ts';
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
  'the same page, whatever is asked for': () => rows(0, 25),
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

const mailing = builtInDefinition('email-marketing');
const members = entityNamed(mailing, 'list_members');
const capMs = Date.UTC(2026, 4, 1);

/** Walks the members of one list, and gives what was asked for and stored beside the end. */
async function walkMembers(
  list: (request: ListRequest) => SourcePage,
  more: { readonly partition?: Partial<Partition>; readonly context?: Partial<WalkContext> } = {},
): Promise<{ end: WalkEnd; asked: ListRequest[]; stored: PageCommit[]; dropped: number }> {
  const asked: ListRequest[] = [];
  const stored: PageCommit[] = [];
  let dropped = 0;
  const commits: GroupCommits = {
    submit: (page) => {
      stored.push(page);
      return Promise.resolve({ counts: [], newlyDue: 0 });
    },
    waitFor: (waiting) => waiting,
    walkOpened: () => undefined,
    walkClosed: () => undefined,
  };
  const run = {
    id: 'r' as RunId,
    source: {
      connect: () => Promise.resolve(),
      list: async (request: ListRequest) => {
        asked.push(request);
        return await Promise.resolve(list(request));
      },
      get: () => Promise.resolve(null),
      stats: () => ({ calls: 0, retries: 0, waitedMs: 0, bytes: 0, serverTime: null }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    },
    tally: runTally([members.name]),
    capMs,
    clock: { now: () => capMs, sleep: () => Promise.resolve() },
    onEvent: ({ kind }: RunEvent) => {
      if (kind === 'page-dropped') dropped += 1;
    },
    signal: new AbortController().signal,
    definition: mailing,
    entities: chosenEntities(mailing, ['list_members']),
    policies: new Map(),
    concurrency: 1,
    asked: { window: null },
  };
  const context: WalkContext = {
    ...walkContext(run, members, { commits, inFlight: { bytes: 0, maxBytes: 1e6 } }),
    ...more.context,
  };
  const listing = { params: { list_id: 'a1' }, inject: { list_id: 'a1' }, rank: 1 };
  const end = await walkPartition(
    context,
    testPartition('list_members', {
      ...listing,
      mode: 'incremental',
      watermark: '2026-04-01T00:00:30.500Z',
      ...more.partition,
    }),
  );
  return { end, asked, stored, dropped };
}

function page(...records: readonly { readonly id: string; readonly last_changed: string }[]): SourcePage {
  return { records: readRecords(records), next: null, serverTime: null, bytes: 100 };
}

const sortedByChange = { sort_field: 'last_changed', sort_dir: 'ASC' };

describe('a service that is too slow for large pages', () => {
  const failed = (code: 'TIMEOUT' | 'BODY_TOO_LARGE'): never => {
    throw new SyncError('a smaller page', { code, recovery: 'smaller-page' });
  };
  const full = { mode: 'full', watermark: null } as const;

  it('is asked for smaller ones in the other listings of the entity, which do not learn it by themselves', async () => {
    const slowPages = { halvings: 0 };
    let refused = 0;
    for (let listing = 0; listing < 18; listing += 1) {
      const { end } = await walkMembers(
        ({ params }) => (Number(params['count']) > 250 ? ((refused += 1), failed('TIMEOUT')) : page()),
        { partition: full, context: { slowPages } },
      );
      expect(end.kind).toBe('sealed');
    }
    expect(refused).toBe(2);
  });

  it('is asked at once for what others found out where a walk had begun with larger pages', async () => {
    const slowPages = { halvings: 0 };
    const { asked } = await walkMembers(
      ({ params }) => {
        slowPages.halvings = 3;
        return Number(params['count']) > 125 ? failed('TIMEOUT') : page();
      },
      { partition: full, context: { slowPages } },
    );
    expect(asked.map(({ params }) => params['count'])).toEqual([1000, 125]);
  });

  it('ends a walk whose pages cannot be made smaller', async () => {
    const { end } = await walkMembers(() => failed('TIMEOUT'), { partition: full });
    expect(end).toMatchObject({ kind: 'set-aside', failure: { code: 'TIMEOUT' } });
  });
});

describe('a service that refuses the pages behind what seems to be the end', () => {
  const shown = (count: number, from = 0): SourcePage =>
    page(
      ...Array.from({ length: count }, (_, index) => ({
        id: `m${from + index}`,
        last_changed: '2026-04-02T00:00:00+00:00',
      })),
    );
  /** Four records, then refusals: of the pages behind, or of everything. */
  const refusing = async (status: number, isDown: boolean) =>
    await walkMembers(
      ({ params }) => {
        const offset = Number(params['offset']);
        isRefusing ||= offset > 3;
        if (offset < 4 && !(isDown && isRefusing)) return shown(4 - offset, offset);
        const code = status === 500 ? 'UPSTREAM' : 'REQUEST_REFUSED';
        throw new SyncError('refused', { code, recovery: 'retry', context: { status } });
      },
      { partition: { mode: 'full', watermark: null, storedRows: 20 } },
    );
  let isRefusing = false;

  it.each([500, 404])('has an end there where it still shows its first page (%i)', async (status) => {
    isRefusing = false;
    const { end } = await refusing(status, false);
    expect(end.kind).toBe('sealed');
  });

  it.each([500, 404])('has none where it refuses everything (%i)', async (status) => {
    isRefusing = false;
    const { end, stored } = await refusing(status, true);
    expect(end.kind).toBe('set-aside');
    expect(stored.every(({ seal }) => seal === null)).toBe(true);
  });
});

describe('a listing whose records move faster than pages can follow', () => {
  it('is begun again three times, and then set aside', async () => {
    let records = 0;
    const next = () => ({ id: `m${(records += 1)}`, last_changed: '2026-04-02T00:00:00+00:00' });
    const { end, asked } = await walkMembers(() => page(...Array.from({ length: 1000 }, next)), {
      partition: { mode: 'full', watermark: null },
    });
    expect(end).toMatchObject({
      kind: 'set-aside',
      failure: { code: 'SEAM_LOST', message: expect.stringContaining('begun again 3 times') },
    });
    expect(asked.filter(({ params }) => params['offset'] === 0)).toHaveLength(4);
  });
});

describe('a walk that reads only what changed', () => {
  it('asks from its watermark on, less the lookback, and stores where it stands', async () => {
    const { end, asked, stored } = await walkMembers(({ params }) =>
      params['offset'] === 0 ? page({ id: 'm1', last_changed: '2026-04-02T00:00:00+00:00' }) : page(),
    );
    expect(asked[0]?.params).toEqual({
      ...sortedByChange,
      list_id: 'a1',
      count: 1000,
      offset: 0,
      since_last_changed: '2026-03-31T23:59:30+00:00',
    });
    expect(end).toMatchObject({ kind: 'sealed', seal: { proof: { kind: 'keyset', isOrdered: true } } });
    expect(stored.at(-1)?.seal).toEqual({
      proof: { kind: 'keyset', isOrdered: true },
      watermark: '2026-04-02T00:00:00.000Z',
      absence: null,
      clockDifferences: [24 * 60 * 60 * 1000],
    });
    expect(stored[0]?.position).toMatchObject({ read: 1, cap: capMs, refused: 0 });
  });

  it('is read in full by the next run where the service refuses to be asked so', async () => {
    const refuse = (): never => {
      throw new SyncError('no such filter', { code: 'REQUEST_REFUSED', recovery: 'skip-partition' });
    };
    expect((await walkMembers(refuse)).end).toMatchObject({
      kind: 'set-aside',
      failure: { code: 'REQUEST_REFUSED', dropWatermark: true, dropPosition: true },
    });
    expect((await walkMembers(refuse, { partition: { mode: 'full' } })).end).toMatchObject({
      kind: 'set-aside',
      failure: { dropWatermark: false, dropPosition: false },
    });
  });

  it('does not ask for what changed in a full walk', async () => {
    const { asked, stored } = await walkMembers(() => page(), { partition: { mode: 'full' } });
    expect(asked[0]?.params).toEqual({ ...sortedByChange, list_id: 'a1', count: 1000, offset: 0 });
    expect(stored.at(-1)?.seal).toEqual({
      proof: { kind: 'single', isOrdered: true },
      watermark: null,
      absence: 'get',
      reach: 0,
    });
  });
});

describe('a page that must not be stored', () => {
  it('is dropped, and sets its walk aside', async () => {
    const changed = new SyncError('list_members has a new field', {
      code: 'SCHEMA_CHANGED',
      recovery: 'skip-entity',
    });
    const { end, stored, dropped } = await walkMembers(
      () => page({ id: 'm1', last_changed: '2026-04-02T00:00:00+00:00' }),
      {
        context: {
          preparePage: () => {
            throw changed;
          },
        },
      },
    );
    expect(end).toMatchObject({
      kind: 'set-aside',
      failure: { code: 'SCHEMA_CHANGED', recovery: 'skip-entity', dropPosition: false },
    });
    expect({ stored, dropped }).toEqual({ stored: [], dropped: 1 });
  });
});

const notes = builtInDefinition('workspace-notes');

const walked: WalkState = { ...walkState.parse({ cap: capMs }), read: 9, high: capMs - 1000 };
const ordered: Proof = { kind: 'seam', isOrdered: true };

function seal(
  name: string,
  more: {
    proof?: Proof;
    doubt?: Doubt;
    state?: WalkState;
    mode?: Partition['mode'];
    isFiltered?: boolean;
    clockDifferences?: readonly number[];
  } = {},
) {
  const { mode = 'full', clockDifferences = [] } = more;
  const definition = mailing.entities.has(name as EntityName) ? mailing : notes;
  const params = name === 'interests' ? { list_id: 'l', interest_category_id: 'c' } : {};
  const partition = testPartition(name, { params, mode, clockDifferences });
  return (isBackfill: boolean) =>
    sealOf(
      {
        entity: entityNamed(definition, name),
        partition,
        isBackfill,
        isFiltered: more.isFiltered ?? false,
      },
      more.state ?? walked,
      { proof: more.proof ?? ordered, ...(more.doubt === undefined ? {} : { doubt: more.doubt }) },
    );
}

describe('the end of a full walk', () => {
  const unordered: Proof = { kind: 'seam', isOrdered: false };
  const refused: WalkState = { ...walked, refused: 1 };

  it.each([
    ['lists', {}, 'nothing'],
    ['lists', { proof: unordered }, 'get'],
    ['lists', { state: refused }, 'get'],
    ['lists', { state: { ...walked, isSorted: false } }, 'get'],
    ['list_members', {}, 'get'],
    ['interests', { proof: unordered }, 'get'],
    ['segment_members', {}, 'nothing'],
    ['segment_members', { proof: unordered }, 'walk'],
    ['segment_members', { proof: unordered, state: refused }, null],
    ['automations', { state: refused }, null],
    ['lists', { isFiltered: true }, 'get'],
    ['list_members', { isFiltered: true }, 'get'],
    ['segment_members', { isFiltered: true }, null],
    ['unsubscribes', {}, null],
    ['users', { proof: { kind: 'token', isOrdered: true } as const }, 'get'],
    ['comments', { proof: { kind: 'token', isOrdered: true } as const }, 'nothing'],
    ['comments', { state: { ...walked, partial: 1 } }, 'nothing'],
    ['blocks', { proof: { kind: 'token', isOrdered: true } as const }, 'get'],
    ['blocks', { state: { ...walked, partial: 1 } }, null],
  ])('concludes of %s after %j that missing records are deleted if %j agrees', (name, more, absence) => {
    expect(seal(name, more)(false).absence).toBe(absence);
  });

  it('moves the watermark to the highest change value, if the walk is proven', () => {
    expect(seal('list_members')(false).watermark).toBe('2026-04-30T23:59:59.000Z');
    expect(seal('list_members', { proof: unordered })(false).watermark).toBeNull();
    expect(seal('list_members', { state: { ...walked, isSorted: false } })(false)).toMatchObject({
      proof: unordered,
      watermark: null,
    });
    expect(seal('lists')(false).watermark).toBeNull();
  });

  // Proves promise 7.1
  it('leaves the watermark where records came in part and could not be asked for', () => {
    expect(seal('list_members', { state: { ...walked, partial: 2 } })(false).watermark).not.toBeNull();
    const state = { ...walked, partial: 2, unanswered: 1 };
    expect(seal('list_members', { state })(false).watermark).toBeNull();
  });

  it('keeps the watermark before the walk began by as much as the clock of the records may be behind', () => {
    const state: WalkState = { ...walked, high: capMs, behind: 5000 };
    expect(seal('list_members', { state })(false)).toMatchObject({
      watermark: '2026-04-30T23:59:55.000Z',
      clockDifferences: [5000],
    });
    const known = seal('list_members', { state, clockDifferences: [9000, 2000] })(false);
    expect(known).toMatchObject({
      watermark: '2026-04-30T23:59:58.000Z',
      clockDifferences: [9000, 2000, 5000],
    });
  });

  it('is proven by pages that came in another order only where no row ever leaves', () => {
    const state = { ...walked, isSorted: false };
    expect(seal('unsubscribes', { state })(false).proof).toEqual(ordered);
    expect(seal('lists', { state })(false).proof).toEqual(unordered);
  });
});

describe('what a walk may not conclude', () => {
  it('is anything about absence from an incremental walk', () => {
    const incremental = { mode: 'incremental', proof: { kind: 'keyset', isOrdered: true } } as const;
    expect(seal('list_members', incremental)(false)).toMatchObject({
      absence: null,
      watermark: '2026-04-30T23:59:59.000Z',
    });
  });

  it('is anything at all from an end that is in doubt', () => {
    const doubt: Doubt = { kind: 'total', total: 37, shown: 7 };
    for (const name of ['lists', 'list_members', 'segment_members']) {
      expect(seal(name, { doubt })(false)).toEqual({
        doubt,
        proof: { kind: 'seam', isOrdered: false },
        watermark: null,
        absence: null,
      });
    }
  });

  it('is anything at all from a backfill', () => {
    expect(seal('list_members')(true)).toEqual({ proof: ordered, watermark: null, absence: null });
  });
});

const refused = new SyncError('items list was answered with 404', {
  code: 'NOT_FOUND',
  recovery: 'skip-partition',
});

it('takes a refused page for an empty one where nothing was expected behind the last page', () => {
  expect(afterRefusal(() => 'empty', refused)).toMatchObject({
    page: { records: { length: 0 }, next: null },
  });
});

it('keeps a refusal that may be the end a failure, and says what the definition lacks', () => {
  const { error } = afterRefusal(() => 'perhapsEmpty', refused) as { error: SyncError };
  expect(error).toMatchObject({ code: 'NOT_FOUND', recovery: 'skip-partition' });
  expect(error.message).toContain('the paging of the definition needs its end');
});

it('leaves every other failure as it is', () => {
  const network = new SyncError('no answer', { code: 'NETWORK', recovery: 'retry' });
  for (const error of [network, new TypeError('a defect')]) {
    expect(afterRefusal(() => 'empty', error)).toEqual({ error });
  }
  expect(afterRefusal(() => null, refused)).toEqual({ error: refused });
});

describe('clock difference', () => {
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
});

const maskWith = (byte: number) => ({
  mask: openRecordMask(
    { fields: new Map([['email', { kind: 'drop' }]]), unknownFields: 'keep' },
    new Secret(Buffer.alloc(32, byte).toString('base64')),
  ),
});
const unmasked = { mask: null };
const position = { kind: 'pageToken', token: 'after ann@example.com', read: 5, high: null };

describe('a position of a masked entity', () => {
  it('is stored encrypted, and resumes the walk', () => {
    const stored = sealPosition(maskWith(1), position);
    expect(stored.kind).toBe('sealed');
    expect(JSON.stringify(stored)).not.toMatch(/ann@|pageToken|YW5uQG/);
    expect(openPosition(maskWith(1), stored)).toEqual(position);
    expect(sealPosition(maskWith(1), position)).not.toEqual(stored);
  });

  it('starts the walk from the beginning where it was stored with another key, without a mask, or is damaged', () => {
    const stored = sealPosition(maskWith(1), position);
    expect(openPosition(maskWith(2), stored)).toBeNull();
    expect(openPosition(unmasked, stored)).toBeNull();
    expect(openPosition(maskWith(1), position)).toBeNull();
    expect(openPosition(maskWith(1), { kind: 'sealed', text: 'AAAA' })).toBeNull();
    expect(openPosition(maskWith(1), null)).toBeNull();
  });

  it('is as it was where the entity has no mask', () => {
    expect(sealPosition(unmasked, position)).toBe(position);
    expect(openPosition(unmasked, position)).toBe(position);
  });
});

interface Item {
  readonly id: number;
}

/** Works off `due` (ids); work takes its id out when it ends. */
function pool(due: Set<number>, options: Partial<Pool<Item>> & Pick<Pool<Item>, 'work'>): Pool<Item> {
  return {
    concurrency: 3,
    isOver: () => false,
    next: (limit) => Promise.resolve([...due].slice(0, limit).map((id) => ({ id }))),
    onError: (error) => {
      throw error;
    },
    ...options,
  };
}

describe('workPool', () => {
  it('walks everything that is due, never more at a time than allowed, and none twice', async () => {
    const due = new Set(Array.from({ length: 50 }, (_, index) => index + 1));
    const walked: number[] = [];
    let [open, most] = [0, 0];
    const work = async ({ id }: Item): Promise<void> => {
      open += 1;
      most = Math.max(most, open);
      walked.push(id);
      await new Promise(setImmediate);
      due.delete(id);
      open -= 1;
    };
    await workPool(pool(due, { work }));
    expect({ walked: new Set(walked).size, times: walked.length, most }).toEqual({
      walked: 50,
      times: 50,
      most: 3,
    });
  });

  it('starts what a commit makes due while other walks are still open', async () => {
    const due = new Set([1]);
    const wake = newWake();
    let endFirst = (): void => undefined;
    const first = new Promise<void>((resolve) => (endFirst = resolve));
    const work = async ({ id }: Item): Promise<void> => {
      if (id === 1) {
        due.add(2);
        wake.wake();
        await first;
      } else endFirst();
      due.delete(id);
    };
    await workPool(pool(due, { work }), wake);
    expect(due.size).toBe(0);
  });

  it('trusts no answer that is older than the end of a walk: neither what it repeats nor what it leaves out', async () => {
    const due = new Set([1]);
    const wake = newWake();
    const walked: number[] = [];
    const work = async ({ id }: Item): Promise<void> => {
      walked.push(id);
      await new Promise(setImmediate);
      // A page was stored: the pool looks for more while this walk comes to its end.
      wake.wake();
      await new Promise(setImmediate);
      if (id < 5) due.add(id + 1);
      due.delete(id);
    };
    const next = async (limit: number): Promise<readonly Item[]> => {
      const found = [...due].slice(0, limit).map((id) => ({ id }));
      for (let turn = 0; turn < 3; turn += 1) await new Promise(setImmediate);
      return found;
    };
    await workPool(pool(due, { work, next }), wake);
    expect(walked).toEqual([1, 2, 3, 4, 5]);
  });

  it('reports an error that must end the run, and waits for the open walks', async () => {
    const due = new Set([1, 2]);
    const stop = new AbortController();
    const errors: unknown[] = [];
    let hasEnded = false;
    const work = async ({ id }: Item): Promise<void> => {
      if (id === 1) throw new Error('disk full');
      await new Promise(setImmediate);
      hasEnded = true;
    };
    const onError = (error: unknown): void => {
      errors.push(error);
      stop.abort();
    };
    await workPool(pool(due, { work, onError, isOver: () => stop.signal.aborted }));
    expect({ errors: errors.map(String), hasEnded }).toEqual({
      errors: ['Error: disk full'],
      hasEnded: true,
    });
  });

  it('starts nothing more once it is closing, and lets open walks end', async () => {
    const due = new Set([1, 2, 3, 4, 5]);
    const walked: number[] = [];
    const work = async ({ id }: Item): Promise<void> => {
      await new Promise(setImmediate);
      due.delete(id);
      walked.push(id);
    };
    await workPool(pool(due, { work, isOver: () => walked.length > 0 }));
    expect(walked).toEqual([1, 2, 3]);
  });
});
