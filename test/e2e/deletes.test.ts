import { describe, expect, it } from 'vitest';
import { exitCodeOfReport } from '../../src/cli/output/exit-codes.ts';
import { systemClock, timeMs } from '../../src/core/clock.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { EntityTable, Params } from '../../src/core/records.ts';
import type { ChosenEntities } from '../../src/engine/chosen-entities.ts';
import type { SampleAccount, SampleSize } from '../../src/sample/sample-account.ts';
import { listingOf } from '../support/listing-of.ts';
import { ApiError, notFound } from '../../src/service/api-error.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { type Row, sameRow } from '../support/expected-rows.ts';
import { instantClock } from '../support/instant-clock.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { text } from '../support/service/served-api.ts';
import { chosenEntities, entityNamed, withPages } from '../support/sync-once.ts';
import { triedSinks } from '../support/trials.ts';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';

const sinks = triedSinks;
const lists = entityNamed(builtInDefinition('email-marketing'), 'lists').table;
const members = entityNamed(builtInDefinition('email-marketing'), 'list_members').table;
const automations = entityNamed(builtInDefinition('email-marketing'), 'automations').table;

async function openEdited(sink: (typeof sinks)[number]): Promise<[RevisionWorld, EditedAccount]> {
  let account: EditedAccount | null = null;
  const world = await openRevisionWorld({
    definitionName: 'email-marketing',
    sink,
    size: { members: 400 },
    entities: ['lists', 'list_members', 'automations'],
    wrap: (other) => (account = editAccount(other)),
  });
  if (account === null) throw new Error('the account was not wrapped');
  return [world, account];
}

function removeMembers(world: RevisionWorld, account: EditedAccount, count: number): void {
  const ids = [...world.truthOf('list_members').values()].map(({ columns }) => text(columns['id']));
  for (const id of ids.slice(0, count)) account.remove('list_members', id);
}

const deletes = (report: RunReport, entity: string) => {
  const one = report.entities.find((each) => each.entity === entity);
  return { deleted: one?.deleted, withheld: one?.withheld, why: one?.withheldBecause };
};

describe.each(sinks)('when a third of a list is deleted upstream (%s)', (sink) => {
  // Proves promise 4
  it('keeps the rows and ends with 6 until they are allowed to go', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    removeMembers(world, account, 120);

    const guarded = await world.sync({ isFull: true });
    expect(deletes(guarded, 'list_members')).toEqual({ deleted: 0, withheld: 120, why: 'share' });
    expect(exitCodeOfReport(guarded)).toBe(6);
    expect(world.stored(members).size).toBe(400);

    // It stays so, also when the list is read by its changes only.
    const again = await world.sync();
    expect(deletes(again, 'list_members')).toEqual({ deleted: 0, withheld: 120, why: 'share' });
    expect(exitCodeOfReport(again)).toBe(6);

    const allowed = await world.sync({ allowDeletes: true });
    expect(deletes(allowed, 'list_members')).toEqual({ deleted: 120, withheld: 0, why: null });
    expect(exitCodeOfReport(allowed)).toBe(0);
    expect(world.stored(members).size).toBe(280);
  }, 60_000);
});

// Proves promise 4
it.each(sinks)('asks for more rows than a run can in plain runs, until none is left (%s)', async (sink) => {
  const [world, account] = await openEdited(sink);
  await using _world = world;
  await world.sync();
  removeMembers(world, account, 300);
  const slow = { requestsPerSecond: 0.1 };
  const waiting = ({ entities }: RunReport) =>
    entities.map(({ toConfirm }) => toConfirm).reduce((sum, rows) => sum + rows, 0);
  const first = await world.sync({ isFull: true, allowDeletes: true }, slow);
  expect([deletes(first, 'list_members').deleted, waiting(first)]).toEqual([200, 100]);
  expect(first.confirmation).toEqual({ callsPerRun: 200 });
  const second = await world.sync({}, slow);
  expect([deletes(second, 'list_members').deleted, waiting(second)]).toEqual([100, 0]);
  expect(second.confirmation).toBeUndefined();
  expect(world.stored(members).size).toBe(100);
});

describe.each(sinks)('when deletes come little by little (%s)', (sink) => {
  // Proves promise 4
  it('counts those of 24 hours together, against the rows before them', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    const later = (hours: number) => ({
      clock: { ...systemClock, now: () => Date.now() + hours * 3_600_000 },
    });
    removeMembers(world, account, 60);
    const first = await world.sync({ isFull: true }, later(1));
    expect(deletes(first, 'list_members')).toEqual({ deleted: 60, withheld: 0, why: null });
    removeMembers(world, account, 60);
    const second = await world.sync({ isFull: true }, later(2));
    expect(deletes(second, 'list_members')).toEqual({ deleted: 0, withheld: 60, why: 'share' });
    expect(second.entities.find(({ entity }) => entity === 'list_members')?.withholding).toMatchObject({
      dayAgo: 400,
      deletedInDay: 60,
    });
    expect(exitCodeOfReport(second)).toBe(6);
    const nextDay = await world.sync({}, later(27));
    expect(deletes(nextDay, 'list_members')).toEqual({ deleted: 60, withheld: 0, why: null });
    expect(exitCodeOfReport(nextDay)).toBe(0);
  }, 60_000);
});

describe.each(sinks)('when lists with many members are deleted (%s)', (sink) => {
  // Proves promise 4
  it('keeps a list that came back empty together with its members, however often it does', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    account.hide((entity) => entity === 'lists');
    for (const why of ['empty', 'along', 'along']) {
      const report = await world.sync();
      expect(deletes(report, 'lists')).toEqual({ deleted: 0, withheld: 1, why });
      expect(deletes(report, 'list_members')).toMatchObject({ deleted: 0 });
      expect(exitCodeOfReport(report)).toBe(6);
    }
    expect(world.stored(members).size).toBe(400);
    const cutShort = await world.sync({ maxCalls: 1 });
    expect(cutShort.outcome).toBe('partial');
    expect(exitCodeOfReport(cutShort), 'what is withheld is withheld still').toBe(6);
    const allowed = await world.sync({ allowDeletes: true });
    expect(deletes(allowed, 'list_members')).toMatchObject({ deleted: 400 });
    expect(exitCodeOfReport(allowed)).toBe(0);
  }, 60_000);

  // Proves promise 4
  it('keeps all of it where another list came in its place', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    const [list] = [...world.stored(lists).values()];
    account.remove('lists', text(list?.columns['id']));
    account.add('lists', { ...account.list('lists', {}).slice(0, 1)[0], id: 'other', name: 'Another list' });
    for (let run = 0; run < 2; run += 1) {
      const report = await world.sync();
      expect(deletes(report, 'lists')).toEqual({ deleted: 0, withheld: 1, why: 'replaced' });
      expect(exitCodeOfReport(report)).toBe(6);
    }
    expect(world.stored(members).size).toBe(400);
  }, 60_000);
});

describe.each(sinks)('when an entity comes back empty (%s)', (sink) => {
  // Proves promise 4
  it('is untouched the first time, and a second run that agrees deletes', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    const had = world.stored(automations).size;
    expect(had).toBeGreaterThan(0);
    account.hide((entity) => entity === 'automations');

    const once = await world.sync();
    expect(deletes(once, 'automations')).toEqual({ deleted: 0, withheld: had, why: 'empty' });
    expect(exitCodeOfReport(once)).toBe(6);
    expect(world.stored(automations).size).toBe(had);

    const twice = await world.sync();
    expect(deletes(twice, 'automations')).toEqual({ deleted: had, withheld: 0, why: null });
    expect(world.stored(automations).size).toBe(0);
  }, 60_000);
});

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

/** The lists of a small account, each with the members alone that have not changed for longest. */
function withFewMembers(account: SampleAccount): SampleAccount {
  const few = new Map<string, readonly JsonObject[]>();
  const list: SampleAccount['list'] = (entity, params) => {
    const { list_id = null, since_last_changed: since = null } = params;
    if (entity !== 'list_members') return account.list(entity, params);
    const listing = account.list(entity, { list_id, sort_field: 'last_changed', sort_dir: 'ASC' });
    const records = few.get(text(list_id)) ?? listing.slice(0, 60);
    few.set(text(list_id), records);
    const sinceMs = timeMs(since) ?? Number.NEGATIVE_INFINITY;
    const isAsked = (record: JsonObject): boolean => (timeMs(record['last_changed'] ?? null) ?? 0) >= sinceMs;
    return listingOf(records.filter(isAsked), listing.metadata);
  };
  return { ...account, list };
}

async function openMoving() {
  const statuses = new Map<string, string>();
  const world = await openRevisionWorld({
    definitionName: 'email-marketing',
    sink: 'sqlite',
    entities: ['lists', 'list_members', 'campaigns'],
    wrap: (account) =>
      withStatuses(withFewMembers(account), (entity, id) => statuses.get(`${entity} ${id}`) ?? null),
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

describe('parts that fail', () => {
  interface Edited {
    readonly world: RevisionWorld;
    readonly account: EditedAccount;
  }

  async function openEdited(
    definitionName: string,
    more: { readonly size?: SampleSize; readonly entities?: readonly string[] },
  ): Promise<Edited> {
    let account: EditedAccount | null = null;
    const world = await openRevisionWorld({
      definitionName,
      sink: 'sqlite',
      ...more,
      wrap: (other) => (account = editAccount(withFewMembers(other))),
    });
    if (account === null) throw new Error('the account was not wrapped');
    return { world, account };
  }

  /** Waits are over at once, and few: what fails for good fails fast. */
  const impatient = () => ({ clock: instantClock(Date.now()), limits: { retries: 1 } });
  const inShortPages = { definition: withPages(definition, 25) };

  /** All that stands below a list. */
  const belowLists = ['lists', 'list_members', 'tags', 'interest_categories', 'interests', 'segments'];

  function idsOf(world: RevisionWorld, entity: string): string[] {
    return [...world.truthOf(entity).values()].map(({ columns }) => text(columns['id']));
  }

  function tableOf(world: RevisionWorld, entity: string): EntityTable {
    return entityNamed(builtInDefinition(world.definitionName), entity).table;
  }

  function storedOf(world: RevisionWorld, entity: string): ReadonlyMap<string, Row> {
    return world.stored(tableOf(world, entity));
  }

  /** Keys in which the sink and the account differ, over all tables. */
  function differences(world: RevisionWorld): string[] {
    const truth = world.truth();
    return [...builtInDefinition(world.definitionName).entities.values()].flatMap(({ table }) => {
      const expected = truth.get(table.entity) ?? new Map<string, Row>();
      const stored = world.stored(table);
      return [
        ...[...expected].filter(([key, row]) => {
          const found = stored.get(key);
          return found === undefined || !sameRow(found, row);
        }),
        ...[...stored].filter(([key]) => !expected.has(key)),
      ].map(([key]) => `${table.entity} ${key}`);
    });
  }

  const deletedIn = (report: RunReport, entity: string): number =>
    report.entities.find((one) => one.entity === entity)?.deleted ?? Number.NaN;

  describe('a run in which one parent vanished, one is forbidden and one page fails', () => {
    // Proves promise 4
    it('is degraded, deletes nothing under them, and the next run repairs it', async () => {
      const { world, account } = await openEdited('email-marketing', { entities: belowLists });
      await using _world = world;
      expect((await world.sync({}, inShortPages)).outcome).toBe('ok');
      const [failing = '', vanished = '', forbidden = ''] = [...new Set(membersByList(world))]
        .toSorted((left, right) => right[1] - left[1])
        .map(([list]) => list);
      const before = storedOf(world, 'list_members').size;
      // What is deleted under the failing ones must not be seen as deleted by a run that could not read them.
      for (const list of [failing, forbidden]) {
        const [gone = ''] = memberIds(world, list);
        account.remove('list_members', gone);
      }
      world.obstruct((entity, params) => {
        if (params['list_id'] === vanished) throw notFound('Resource Not Found');
        if (entity !== 'list_members') return;
        if (params['list_id'] === forbidden) throw new ApiError(403, 'You may not see this list.');
        if (params['list_id'] === failing && Number(params['offset'] ?? 0) > 0) {
          throw new ApiError(500, 'An unexpected error occurred.');
        }
      });

      const degraded = await world.sync({ isFull: true }, { ...inShortPages, ...impatient() });
      expect(degraded.outcome).toBe('degraded');
      expect(deletedIn(degraded, 'list_members')).toBe(0);
      expect(storedOf(world, 'list_members').size).toBe(before);

      world.obstruct(null);
      account.remove('lists', vanished);
      account.hide((entity, params) => params['list_id'] === vanished && entity !== 'lists');
      // The list would take more members along than the guards let pass.
      const repaired = await world.sync({ allowDeletes: true }, { ...inShortPages, ...impatient() });
      expect({ outcome: repaired.outcome, failures: repaired.failures }).toEqual({
        outcome: 'ok',
        failures: [],
      });
      expect(differences(world)).toEqual([]);
    }, 120_000);
  });

  describe('a run in which parts of a workspace fail', () => {
    // Proves promise 4
    it('is repaired by the next run, although that one has nothing new to read', async () => {
      const { world } = await openEdited('workspace-notes', { size: 'tiny' });
      await using _world = world;
      world.moveTo(1);
      const withBlocks = new Set(
        [...world.truthOf('blocks').values()].map(({ columns }) => columns['page_id']),
      );
      const [first = '', second = '', third = ''] = idsOf(world, 'pages').filter((page) =>
        withBlocks.has(page),
      );
      world.obstruct((entity, params: Params) => {
        if (params['block_id'] === first) throw notFound('Could not find block');
        if (params['block_id'] === second) throw new ApiError(403, 'Insufficient permissions for this page.');
        if (entity === 'blocks' && params['block_id'] === third) {
          throw new ApiError(500, 'Something went wrong.');
        }
      });
      const degraded = await world.sync({}, impatient());
      expect(degraded.outcome).toBe('degraded');
      expect(degraded.left.map(({ entity }) => entity).toSorted()).toEqual(['blocks', 'comments']);
      expect(differences(world).length).toBeGreaterThan(0);

      world.obstruct(null);
      world.takeCalls();
      const repaired = await world.sync({}, impatient());
      expect({ outcome: repaired.outcome, failures: repaired.failures }).toEqual({
        outcome: 'ok',
        failures: [],
      });
      expect(differences(world)).toEqual([]);
      expect(repaired.left).toEqual([]);
      // Only what failed: neither all pages nor all trees again.
      expect(world.takeCalls().get('blocks')).toBeLessThan(100);
    }, 60_000);
  });

  function membersByList(world: RevisionWorld): [string, number][] {
    const counts = new Map<string, number>();
    for (const { columns } of world.truthOf('list_members').values()) {
      const list = text(columns['list_id']);
      counts.set(list, (counts.get(list) ?? 0) + 1);
    }
    return [...counts];
  }

  /** Of people who are in no other list: an edit of the account goes by a member's id, which is the same in all. */
  function memberIds(world: RevisionWorld, list: string): string[] {
    const listsById = new Map<string, string[]>();
    for (const { columns } of world.truthOf('list_members').values()) {
      const id = text(columns['id']);
      listsById.set(id, [...(listsById.get(id) ?? []), text(columns['list_id'])]);
    }
    return [...listsById].filter(([, lists]) => lists.length === 1 && lists[0] === list).map(([id]) => id);
  }
});

type EditedAccount = ReturnType<typeof editAccount>;

/**
 * A sample account that changes while it is served: give it to a service with `wrap`. Edits lie over the lists as the
 * account filtered and sorted them; edited entities are read whole, so keep to small accounts.
 */
function editAccount(account: SampleAccount) {
  const removed = new Set<string>();
  const added: { readonly entity: string; readonly record: JsonObject }[] = [];
  let isHidden: (entity: string, params: Params) => boolean = () => false;
  const nameOf = (entity: string, id: JsonValue | undefined): string => `${entity} ${text(id)}`;
  return {
    list(entity: string, params: Params) {
      const listing = account.list(entity, params);
      if (isHidden(entity, params)) return listingOf([], listing.metadata);
      const others = added.filter((one) => one.entity === entity).map(({ record }) => record);
      if (others.length === 0 && ![...removed].some((one) => one.startsWith(`${entity} `))) return listing;
      const records = [...listing.slice(0, Number.POSITIVE_INFINITY), ...others];
      return listingOf(
        records.filter(({ id }) => !removed.has(nameOf(entity, id))),
        listing.metadata,
      );
    },
    get(entity: string, params: Params) {
      const ids = Object.values(params);
      const other = added.find((one) => one.entity === entity && ids.includes(one.record['id'] ?? null));
      const record = other?.record ?? account.get(entity, params);
      return record === null || removed.has(nameOf(entity, record['id'])) ? null : record;
    },
    /** Lists for which this is true are empty until another rule is given. */
    hide: (rule: typeof isHidden) => {
      isHidden = rule;
    },
    /** The record is no longer in a list, and `get` does not find it. */
    remove: (entity: string, id: string) => void removed.add(nameOf(entity, id)),
    /** At the end of every list of the entity. */
    add: (entity: string, record: JsonObject) => void added.push({ entity, record }),
  };
}
