import { describe, expect } from 'vitest';
import { exitCodeOfReport } from '../../src/cli/output/exit-codes.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { EntityTable, Params } from '../../src/core/records.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { listingOf } from '../support/listing-of.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { ApiError } from '../../src/service/api-error.ts';
import { it } from '../support/it.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { builtInDefinition, sampleSeed } from '../support/sample-service.ts';
import type { SampleSinkType } from '../support/sample-sinks.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed, triedSinks } from '../support/trials.ts';

const hourMs = 3_600_000;
const guards = { maxDeleteShare: 0.2, minDeleteRows: 2 };
const trials = repeats('TRIALS', { share: 1, full: 60 });
const first = startSeed(11);

/** What the API pretends; every part by chance, and none of it always. */
interface Lie {
  readonly isOtherAccount: boolean;
  readonly isHidden: (entity: string, params: Params) => boolean;
  readonly isLost: (entity: string, id: string) => boolean;
  readonly isUnknown: (entity: string, params: Params) => boolean;
  /** Lost records are not found by `get` either. */
  readonly isConsistent: boolean;
}

const honest: Lie = {
  isOtherAccount: false,
  isHidden: () => false,
  isLost: () => false,
  isUnknown: () => false,
  isConsistent: true,
};

/** The same text lies on the same side of `share` while the service gives the false answer. */
function isChosen(text: string, salt: number, share: number): boolean {
  let hash = salt;
  for (const letter of text) hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01_00_01_93);
  return seededRandom(hash)() < share;
}

function inventLie(random: () => number, entities: readonly string[]): Lie {
  const salt = Math.floor(random() * 1e9);
  const some = entities.filter(() => random() < 0.4);
  const share = [0.05, 0.15, 0.5, 0.9][Math.floor(random() * 4)] ?? 0.5;
  const unknownShare = random() < 0.3 ? random() : 0;
  const hiddenShare = random() < 0.5 ? 1 : 0.4;
  const isHiding = random() < 0.35;
  const isLosing = random() < 0.6;
  return {
    isOtherAccount: random() < 0.2,
    isHidden: (entity, params) =>
      isHiding && some.includes(entity) && isChosen(JSON.stringify(params), salt, hiddenShare),
    isLost: (entity, id) => isLosing && some.includes(entity) && isChosen(id, salt, share),
    isUnknown: (entity, params) =>
      some.includes(entity) &&
      isChosen(`unknown ${Object.values(params).map(String).join()}`, salt, unknownShare),
    isConsistent: random() < 0.6,
  };
}

function lying(account: SampleAccount, other: SampleAccount, told: () => Lie): SampleAccount {
  const idOf = (record: { readonly id?: unknown }): string => String(record.id);
  const refuse = (entity: string, params: Params): void => {
    if (told().isUnknown(entity, params)) throw new ApiError(404, 'There is no such thing.');
  };
  return {
    list: (entity, params) => {
      refuse(entity, params);
      const lie = told();
      const listing = (lie.isOtherAccount ? other : account).list(entity, params);
      if (lie.isHidden(entity, params)) return listingOf([], listing.metadata);
      const records = listing.slice(0, Number.POSITIVE_INFINITY);
      return listingOf(
        records.filter((record) => !lie.isLost(entity, idOf(record))),
        listing.metadata,
      );
    },
    get: (entity, params) => {
      refuse(entity, params);
      const lie = told();
      const record = (lie.isOtherAccount ? other : account).get(entity, params);
      return record !== null && lie.isConsistent && lie.isLost(entity, idOf(record)) ? null : record;
    },
  };
}

/** How many live rows an entity had after each run, and how many a run deleted. */
class EntityHistory {
  readonly #runs: { readonly atMs: number; readonly live: number; readonly deleted: number }[] = [];

  note(atMs: number, live: number, deleted: number): void {
    this.#runs.push({ atMs, live, deleted });
  }

  /** Rows deleted within the 24 hours before the newest run, and the most that may have been. */
  lastDay(): { readonly deleted: number; readonly limit: number } {
    const sinceMs = (this.#runs.at(-1)?.atMs ?? 0) - 24 * hourMs;
    const before = this.#runs.filter(({ atMs }) => atMs <= sinceMs);
    const began = this.#runs.find(({ live }) => live > 0);
    const base = before.some(({ live }) => live > 0) ? before.at(-1)?.live : began?.live;
    const deleted = this.#runs.reduce((sum, one) => sum + (one.atMs > sinceMs ? one.deleted : 0), 0);
    return { deleted, limit: Math.max(guards.minDeleteRows, guards.maxDeleteShare * (base ?? 0)) };
  }
}

const keysOf = (world: RevisionWorld, tables: readonly EntityTable[]): Map<string, ReadonlySet<string>> =>
  new Map(tables.map((table) => [table.entity, new Set(world.stored(table).keys())]));

/** Parts of the key, or fields, that name the record a row lies below. */
const parents: Readonly<Record<string, readonly [field: string, parent: string]>> = {
  list_members: ['list_id', 'lists'],
  tags: ['list_id', 'lists'],
  segments: ['list_id', 'lists'],
  interest_categories: ['list_id', 'lists'],
};

function checkParents(world: RevisionWorld, tables: readonly EntityTable[], seen: string): void {
  for (const table of tables) {
    const [field, parent] = parents[table.entity] ?? [];
    const parentTable = tables.find(({ entity }) => entity === parent);
    if (field === undefined || parentTable === undefined) continue;
    const ids = new Set([...world.stored(parentTable).values()].map(({ columns }) => columns['id']));
    const orphans = [...world.stored(table).values()].filter(({ columns }) => !ids.has(columns[field]));
    expect(orphans.length, `${seen}: ${table.entity} whose ${parent} is deleted`).toBe(0);
  }
}

async function tryHistory(seed: number, sink: SampleSinkType): Promise<void> {
  const random = seededRandom(seed);
  const definitionName = seed % 3 === 0 ? 'workspace-notes' : 'email-marketing';
  const definition = builtInDefinition(definitionName);
  const tables = [...definition.entities.values()]
    .filter(({ deletes }) => deletes !== 'never')
    .map(({ table }) => table);
  const other = createSampleAccount({ definitionName, seed: sampleSeed + 1, size: 'tiny' });
  let lie = honest;
  await using world = await openRevisionWorld({
    definitionName,
    sink,
    size: 'tiny',
    wrap: (account) => lying(account, other, () => lie),
  });
  let laterMs = 0;
  const clock = { ...systemClock, now: () => Date.now() + laterMs };
  const histories = new Map(tables.map(({ entity }) => [entity as string, new EntityHistory()]));
  let before = keysOf(world, []);

  for (let run = 0; run < 9; run += 1) {
    if (run > 0 && random() < 0.75) lie = inventLie(random, [...definition.entities.keys()]);
    else if (random() < 0.4) lie = honest;
    const report = await world.sync({ guards, isFull: random() < 0.6 }, { clock });
    const seen = `seed ${seed}, ${sink}, run ${run}`;
    const after = keysOf(world, tables);
    const pending = await world.pending();
    for (const one of report.entities) {
      const { withheld, entity } = one;
      if (!histories.has(entity)) continue;
      const live = after.get(entity) ?? new Set();
      const deleted = [...(before.get(entity) ?? [])].filter((key) => !live.has(key)).length;
      const history = histories.get(entity);
      history?.note(clock.now(), live.size, deleted);
      const day = history?.lastDay() ?? { deleted: 0, limit: 0 };
      expect(day.deleted, `${seen}: ${entity} within 24 hours, at most ${day.limit}`).toBeLessThanOrEqual(
        day.limit,
      );
      if (report.outcome === 'ok' || report.outcome === 'degraded') {
        expect(withheld + one.pending, `${seen}: ${entity} kept`).toBe(pending.get(entity)?.size ?? 0);
      }
    }
    if (report.entities.some(({ withheld }) => withheld > 0)) {
      expect([1, 4, 6], seen).toContain(exitCodeOfReport(report));
    }
    if (report.outcome === 'ok' || report.outcome === 'degraded') checkParents(world, tables, seen);
    before = after;
    laterMs += Math.floor((0.2 + random() * 8) * hourMs);
  }

  // Honest again, and a person lets go what is not there: every record is back, and nothing else is left.
  lie = honest;
  const truth = world.truth();
  const isEqual = (): boolean =>
    tables.every(({ entity }) => {
      const kept = before.get(entity) ?? new Set();
      const records = truth.get(entity) ?? new Map();
      return kept.size === records.size && [...records.keys()].every((key) => kept.has(key));
    });
  for (let run = 0; run < 4 && !isEqual(); run += 1) {
    laterMs += hourMs;
    await world.sync({ guards, isFull: true, allowDeletes: true }, { clock });
    before = keysOf(world, tables);
  }
  for (const { entity } of tables) {
    const records = [...(truth.get(entity)?.keys() ?? [])].sort();
    expect([...(before.get(entity) ?? [])].sort(), `seed ${seed}, ${sink}: ${entity} in the end`).toEqual(
      records,
    );
  }
}

describe.each(triedSinks)('whatever an API pretends to have lost (%s)', (sink) => {
  // Proves promise 4
  it(
    `no entity loses more than the guards' share within 24 hours, rows below others included (${trials} histories)`,
    async () => {
      for (let trial = 0; trial < trials; trial += 1) await tryHistory(first + trial, sink);
    },
    60_000 * trials,
  );
});
