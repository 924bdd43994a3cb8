import { describe, expect, it } from 'vitest';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { text } from '../support/service/served-api.ts';
import { chosenEntities, entityNamed } from '../support/sync-once.ts';
import { exitCodeOfReport } from '../../src/cli/output/exit-codes.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { Params } from '../../src/core/records.ts';
import type { ChosenEntities } from '../../src/engine/chosen-entities.ts';
import { listingOf, type SampleAccount, type SampleSize } from '../../src/sample/sample-account.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';

const definition = builtInDefinition('email-marketing');
/** An account in which records go from one status to another, each shown by the listings of its status alone. */
function withStatuses(
  account: SampleAccount,
  statusOf: (entity: string, id: string) => string | null,
): SampleAccount {
  return {
    list: (entity, params) => {
      if (params['status'] === undefined) return account.list(entity, params);
      const { status, ...others } = params;
      const listing = account.list(entity, others);
      const records = listing
        .slice(0, Number.POSITIVE_INFINITY)
        .map((record) => ({
          ...record,
          status: statusOf(entity, text(record['id'])) ?? record['status'] ?? null,
        }))
        .filter((record) => record.status === status);
      return listingOf(records, listing.metadata);
    },
    get: (entity, params) => {
      const record = account.get(entity, params);
      return record === null
        ? null
        : { ...record, status: statusOf(entity, text(record['id'])) ?? record['status'] ?? null };
    },
  };
}

async function openMoving(size: SampleSize = 'small') {
  const statuses = new Map<string, string>();
  const world = await openRevisionWorld({
    definitionName: 'email-marketing',
    sink: 'sqlite',
    size,
    entities: ['lists', 'list_members', 'campaigns'],
    wrap: (account) => withStatuses(account, (entity, id) => statuses.get(`${entity} ${id}`) ?? null),
  });
  return { world, statuses };
}

function only(name: string, variants: readonly Params[], parents: readonly string[] = []): ChosenEntities {
  return new Map(
    [...chosenEntities(definition, [...parents, name])].map(([one, chosen]) => [
      one,
      one === name ? { ...chosen, variants } : chosen,
    ]),
  );
}

const idsOf = (world: RevisionWorld, name: string): ReadonlySet<string> =>
  new Set(
    [...world.stored(entityNamed(definition, name).table).values()].map(({ columns }) => text(columns['id'])),
  );

const standing = (report: RunReport, name: string) => {
  const found = report.entities.find(({ entity }) => entity === (name as EntityName));
  return {
    outcome: report.outcome,
    deleted: found?.deleted,
    withdrawn: found?.withdrawn,
    pending: found?.pending,
  };
};
const fine = { outcome: 'ok', deleted: 0, withdrawn: 0, pending: 0 };

describe('a record that a filter of the settings hides', () => {
  // Proves promise 4
  it.each<[string, readonly string[], string, string]>([
    ['campaigns', [], 'save', 'sent'],
    ['list_members', ['lists'], 'subscribed', 'unsubscribed'],
  ])(
    'is not deleted, and is no fault of the walk: %s',
    async (name, parents, status, later) => {
      const { world, statuses } = await openMoving();
      await using _world = world;
      const entities = only(name, [{ status }], parents);
      await world.sync({}, { entities });
      const [id = ''] = idsOf(world, name);
      const before = idsOf(world, name).size;
      expect(before).toBeGreaterThan(1);

      statuses.set(`${name} ${id}`, later);
      for (let round = 0; round < 3; round += 1) {
        expect(standing(await world.sync({ isFull: true }, { entities }), name), `${round}`).toEqual(fine);
        expect(idsOf(world, name).has(id)).toBe(true);
      }
      const [row] = [...world.stored(entityNamed(definition, name).table).values()].filter(
        ({ columns }) => columns['id'] === id,
      );
      expect(row?.columns['status'], 'as it is now').toBe(later);
    },
    60_000,
  );
});

describe('a record that goes from one filter to another while both are read', () => {
  // Proves promise 4
  it('is not deleted because neither walk has met it', async () => {
    const { world, statuses } = await openMoving();
    await using _world = world;
    const entities = only('campaigns', [{ status: 'sent' }, { status: 'save' }]);
    await world.sync({}, { entities });
    const drafts = [...world.stored(entityNamed(definition, 'campaigns').table).values()].filter(
      ({ columns }) => columns['status'] === 'save',
    );
    const id = text(drafts[0]?.columns['id'] ?? null);
    // Sent just after those that are sent have been read.
    let sentRead = 0;
    world.obstruct((entity, params) => {
      if (entity !== 'campaigns') return;
      if (params['status'] === 'sent') sentRead += 1;
      else if (sentRead > 0) statuses.set(`campaigns ${id}`, 'sent');
    });
    await world.sync({}, { entities, concurrency: 1 });
    expect(sentRead).toBeGreaterThan(0);
    expect(statuses.size).toBe(1);
    world.obstruct(null);
    expect(idsOf(world, 'campaigns').has(id)).toBe(true);
    expect(standing(await world.sync({}, { entities }), 'campaigns')).toEqual(fine);
    expect(idsOf(world, 'campaigns').has(id)).toBe(true);
  }, 60_000);
});

describe('records that listings leave out, a third of all', () => {
  // Proves promise 4
  it('hold nothing up once each of them has been asked for', async () => {
    const { world, statuses } = await openMoving({ members: 400 });
    await using _world = world;
    const entities = only('list_members', [{ status: 'subscribed' }], ['lists']);
    await world.sync({}, { entities });
    const ids = [...idsOf(world, 'list_members')];
    const left = ids.slice(0, Math.ceil(ids.length / 3));
    expect(left.length).toBeGreaterThan(20);
    for (const id of left) statuses.set(`list_members ${id}`, 'unsubscribed');
    const guarded = await world.sync({ isFull: true }, { entities });
    expect(exitCodeOfReport(guarded), 'so many at once are for a person to look at').toBe(6);
    for (let round = 0; round < 9; round += 1) {
      const allowed = await world.sync({ allowDeletes: true }, { entities });
      if (standing(allowed, 'list_members').pending === 0) break;
    }
    for (let round = 0; round < 2; round += 1) {
      const later = await world.sync({ isFull: true }, { entities });
      expect(exitCodeOfReport(later)).toBe(0);
      expect(standing(later, 'list_members')).toEqual(fine);
    }
    expect(idsOf(world, 'list_members').size).toBe(ids.length);
  }, 120_000);
});
