import { describe, expect, it } from 'vitest';
import { keysetPagination } from '../../src/pagination/incremental-walks.ts';
import { offsetStyle } from '../../src/pagination/offset.ts';
import { type Advance, type PageSeen, timeParam } from '../../src/pagination/pagination.ts';
import type { Position } from '../../src/sinks/partition.ts';
import {
  longestDelayMs,
  simulatedService,
  type Move,
  type ServiceRules,
  type SimulatedService,
} from '../support/pagination/simulated-service.ts';
import {
  simulatedSync,
  type SimulatedEntity,
  type SimulatedSync,
} from '../support/pagination/simulated-sync.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

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
      sinceParam: { name: 'since', write: timeParam, floor: (ms) => ms },
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

const firstSeed = startSeed();
const trials = repeats('TRIALS', { share: 30, full: 2000 });
const ofChanges: readonly Move[] = ['append', 'delete', 'change', 'bulk-change', 'late-change'];
/** A way to ask for changes, what can happen in such a listing, and what a service may ignore of a request. */
const ways: readonly (readonly [string, SimulatedEntity, readonly Move[], readonly Ignored[]])[] = [
  ['keyset', 'keyset', ofChanges, ['since', 'sort']],
  ['newest-first', 'tokens', ofChanges, ['sort', 'direction']],
  ['since', 'activity', ['insert', 'event', 'event', 'late-event'], ['since']],
];
type Ignored = NonNullable<ServiceRules['ignores']>;

describe.each(ways)('incremental walks: %s', (_way, entity, moves, ignorable) => {
  // Proves promise 2
  it(`never leave anything behind their watermark, and a quiet one brings the rest (seed ${firstSeed})`, async () => {
    expect(await tryIncrementalWalks(entity, moves)).toBeGreaterThan(trials);
  }, 60_000);

  it.each(ignorable)(
    'find out a service that ignores the %s',
    async (ignores) => {
      await expectFoundOut(entity, ignores);
    },
    60_000,
  );
});

const hourMs = 3_600_000;

/**
 * Reads again and again while rows move at every page boundary, with kills and small pages: nothing at or below the
 * watermark is ever missing, and when it is quiet one more walk brings the rest. Gives the number of incremental walks.
 */
async function tryIncrementalWalks(name: SimulatedEntity, moves: readonly Move[]): Promise<number> {
  let incremental = 0;
  for (let seed = firstSeed; seed < firstSeed + trials; seed += 1) {
    const random = seededRandom(seed);
    const rules = rulesFor(name, moves, random);
    const service = simulatedService(random, rules, {
      rows: Math.floor(random() * (name === 'activity' ? 40 : 90)),
    });
    const sync = simulatedSync(name, service, random);
    for (let round = 0; round < 4; round += 1) {
      service.setMoving(true);
      const killShare = random() < 0.4 ? 0.1 : 0;
      const walk = await sync.walk({ killShare, isFull: random() < 0.1 });
      if ('seal' in walk) {
        incremental += walk.mode === 'incremental' ? 1 : 0;
        expect(walk.mode === 'full' || walk.seal.absence === null).toBe(true);
        expect(sync.watermarkMs() ?? 0).toBeLessThanOrEqual(walk.capMs);
      }
      // The next walk looks back as far as times are rounded and as late as a change may show.
      const slackMs = rules.roundMs + longestDelayMs;
      const missing = missingUpTo((sync.watermarkMs() ?? 0) - slackMs, name, service, sync);
      expect({ seed, round, missing }).toEqual({ seed, round, missing: [] });
      service.advance(Math.floor(random() * hourMs));
      service.burst(Math.floor(random() * (name === 'activity' ? 15 : 80)));
    }
    service.setMoving(false);
    // A walk that could not be ended in the storm is made in full; the one after it reads only what changed.
    for (let quiet = 0; quiet < 2; quiet += 1) {
      service.advance(hourMs);
      const walk = await sync.walk();
      expect({ seed, sealed: 'seal' in walk ? null : walk.failure.message }).toEqual({
        seed,
        sealed: null,
      });
      const missing = missingUpTo(Number.POSITIVE_INFINITY, name, service, sync);
      expect({ seed, quiet, missing }).toEqual({ seed, quiet, missing: [] });
    }
  }
  return incremental;
}

function rulesFor(name: SimulatedEntity, moves: readonly Move[], random: () => number): ServiceRules {
  const pick = <Value>(values: readonly Value[]): Value =>
    values[Math.floor(random() * values.length)] as Value;
  return {
    roundMs: pick(name === 'tokens' ? [1, 1000, 60_000] : [1, 1000]),
    cap: random() < 0.2 ? 2 + Math.floor(random() * 10) : 12 + Math.floor(random() * 30),
    dateAheadMs: pick([0, 0, hourMs]),
    violence: Math.floor(random() * 10),
    moves,
    nullShare: 0.05,
    futureShare: random() < 0.3 ? 0.03 : 0,
    isExclusive: random() < 0.3,
    ...(name === 'activity'
      ? { eventFilter: pick(['shortens-all', 'only-rows-with', 'whole-rows-with'] as const) }
      : {}),
  };
}

/** Rows that are there now with a change at or before `untilMs`, and are not stored as they are. */
function missingUpTo(
  untilMs: number,
  name: SimulatedEntity,
  service: SimulatedService,
  { stored }: SimulatedSync,
): readonly string[] {
  return service.rows.flatMap(({ id, version, changedMs, events }) => {
    if (name === 'activity') {
      return events
        .filter(({ atMs, id: event }) => service.shown(atMs) <= untilMs && !stored.has(`${id}/${event}`))
        .map((event) => `${id}/${event.id}`);
    }
    const isDue = changedMs !== null && service.shown(changedMs) <= untilMs;
    return isDue && stored.get(id) !== version ? [id] : [];
  });
}

/**
 * A walk in full, then an incremental one of a service that has stopped to do as it is asked, then one in full again.
 */
async function expectFoundOut(name: SimulatedEntity, ignores: Ignored): Promise<void> {
  for (let seed = firstSeed; seed < firstSeed + 40; seed += 1) {
    const random = seededRandom(seed);
    const rules: ServiceRules = {
      ...rulesFor(name, [], random),
      roundMs: 1000,
      cap: 20,
      futureShare: 0,
      violence: 0,
    };
    const service = simulatedService(random, rules, { rows: 200 });
    const sync = simulatedSync(name, service, random);
    expect('seal' in (await sync.walk())).toBe(true);
    expect(sync.watermarkMs()).not.toBeNull();
    Object.assign(rules, { ignores });
    if (ignores === 'sort') changeAllRecently(service, random);
    const walk = await sync.walk();
    expect({ seed, failure: 'failure' in walk ? walk.failure : null }).toMatchObject({
      seed,
      failure: { code: 'PAGING_BROKEN', dropWatermark: true, dropPosition: true },
    });
    expect('seal' in (await sync.walk())).toBe(true);
  }
}

/** So that a lower bound hides none of them, and the order in which they lie is not that of their times. */
function changeAllRecently({ rows }: SimulatedService, random: () => number): void {
  const newestMs = Math.max(...rows.map(({ changedMs }) => changedMs ?? 0));
  for (const row of rows) row.changedMs = newestMs + Math.floor(random() * 40_000);
}

describe('full walks', () => {
  const trials = repeats('TRIALS', { share: 40, full: 2000 });
  /** Seeds of services that earlier rules got wrong. */
  const hard = [250, 278, 676, 876, 1017, 1028, 2086, 2195, 5466, 10_496];
  /** The same of services that cap their pages low and change the cap at every fourth call. */
  const hardOfLowCaps = [953, 2241, 2407, 4834, 5980, 6034, 6460];

  /** What can happen in such a listing, and how many of the walks should come to their end with a proof. */
  const kinds: readonly (readonly [SimulatedEntity, readonly Move[], number])[] = [
    ['ordered', ['append', 'delete', 'delete'], 0.5],
    ['unordered', ['append', 'insert', 'delete', 'move', 'change'], 0],
    ['growing', ['append', 'insert', 'insert'], 0.5],
  ];

  /** The same by numbers and by the last record, with totals and flags and without, under caps that change. */
  const ownKinds: typeof kinds = [
    ['ordered_pages', ['append', 'delete', 'delete'], 0.3],
    ['unordered_pages', ['append', 'insert', 'delete', 'move', 'change'], 0],
    ['growing_pages', ['append', 'insert', 'insert'], 0.3],
    ['fixed_pages', ['append', 'delete'], 0.1],
    ['last_key', ['append', 'delete', 'change', 'move'], 0.5],
    ['last_date', ['append', 'delete'], 0],
  ];

  const changes: readonly Move[] = ['append', 'delete', 'change', 'bulk-change'];
  /** Sorted by the time of the change, so that a changed row moves to the end, however coarse the times are. */
  const byChange: typeof kinds = [
    ['tokens', changes, 0.5],
    ['keyset', changes, 0.3],
  ];

  describe.each([...kinds, ...ownKinds, ...byChange])(
    'a full walk of a listing: %s',
    (name, moves, provenShare) => {
      // Proves promise 3
      it(`that claims an ordered proof has met every row that was there throughout (seed ${firstSeed})`, async () => {
        expect(await tryFullWalks(name, moves)).toBeGreaterThanOrEqual(trials * provenShare);
      }, 60_000);
    },
  );

  describe('a full walk by offset', () => {
    it('proves nothing where the service ignores the sort', async () => {
      for (let seed = firstSeed; seed < firstSeed + 40; seed += 1) {
        const random = seededRandom(seed);
        const service = simulatedService(
          random,
          { roundMs: 1000, cap: 20, violence: 0, moves: [], ignores: 'sort' },
          { rows: 120 },
        );
        service.rows
          .toSorted(() => random() - 0.5)
          .forEach((row, index) => Object.assign(service.rows, { [index]: row }));
        const walk = await simulatedSync('ordered', service, random).walk();
        if (!('seal' in walk)) throw new Error(walk.failure.message);
        expect(walk.seal).toMatchObject({ proof: { kind: 'seam', isOrdered: false }, absence: 'walk' });
        expect(walk.met.size).toBe(120);
      }
    });

    it('of several pages without a known order proves nothing, one of one page does', async () => {
      for (const [rows, isOrdered] of [
        [100, false],
        [8, true],
      ] as const) {
        const random = seededRandom(firstSeed);
        const service = simulatedService(random, { roundMs: 1, cap: 30, violence: 0, moves: [] }, { rows });
        const walk = await simulatedSync('unordered', service, random).walk();
        expect('seal' in walk && walk.seal.proof.isOrdered).toBe(isOrdered);
      }
    });
  });

  /**
   * Walks listings in full while rows move at every page boundary, with kills and small pages; gives how many
   * walks ended with an ordered proof. Each of those has met every row that was there throughout.
   */
  async function tryFullWalks(name: SimulatedEntity, moves: readonly Move[]): Promise<number> {
    let proven = 0;
    const seeds = Array.from({ length: trials }, (_, index) => firstSeed + index);
    const services = [
      ...[...seeds, ...hard].map((seed) => ({ seed, hasLowCap: false })),
      ...[...seeds, ...hardOfLowCaps].map((seed) => ({ seed, hasLowCap: true })),
    ];
    for (const { seed, hasLowCap } of services) {
      const random = seededRandom(seed);
      const service = simulatedService(random, rulesFor(name, moves, random, hasLowCap), {
        rows: Math.floor(random() * 110),
      });
      const sync = simulatedSync(name, service, random);
      const before = new Set(service.rows.map(({ id }) => id));
      const walk = await sync.walk({ isFull: true, killShare: random() < 0.5 ? 0.08 : 0 });
      if (!('seal' in walk) || !walk.seal.proof.isOrdered) continue;
      if (!hasLowCap) proven += 1;
      const missed = service.rows.filter(({ id }) => before.has(id) && !walk.met.has(id)).map(({ id }) => id);
      const came = { seed, hasLowCap, proof: walk.seal.proof };
      expect({ ...came, missed }).toEqual({ ...came, missed: [] });
      expect(walk.seal.absence).toBe(name.startsWith('growing') ? null : 'nothing');
    }
    return proven;
  }

  function rulesFor(
    name: SimulatedEntity,
    moves: readonly Move[],
    random: () => number,
    hasLowCap: boolean,
  ): ServiceRules {
    const isByChange = name === 'tokens' || name === 'keyset';
    const isOwn = name.endsWith('_pages') || name.startsWith('last_');
    return {
      roundMs: [1, 1000, 60_000][Math.floor(random() * 3)] ?? 1,
      cap:
        name === 'fixed_pages'
          ? 30
          : random() < (hasLowCap ? 0.8 : 0.2)
            ? 2 + Math.floor(random() * 10)
            : 12 + Math.floor(random() * 30),
      violence: Math.floor(random() * 12),
      moves,
      nullShare: isByChange ? 0.05 : 0,
      futureShare: random() < 0.3 ? 0.03 : 0,
      ...(isOwn
        ? {
            saysTotal: random() < (hasLowCap ? 0.1 : 0.6),
            saysMore: random() < (hasLowCap ? 0.2 : 0.5),
            capChanges: hasLowCap
              ? random() < 0.9 && name !== 'fixed_pages'
                ? 0.25
                : 0
              : random() < 0.3 && name !== 'fixed_pages'
                ? 0.1
                : 0,
          }
        : {}),
    };
  }
});
