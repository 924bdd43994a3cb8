import { describe, expect, it } from 'vitest';
import { seededRandom } from '../support/seeded-random.ts';
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
import { repeats, startSeed } from '../support/trials.ts';

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
