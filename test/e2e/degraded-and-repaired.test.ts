import { describe, expect, it } from 'vitest';
import type { EntityTable, Params } from '../../src/core/records.ts';
import { ApiError, notFound } from '../../src/service/api-error.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { editAccount, type EditedAccount } from '../support/service/edited-account.ts';
import { text } from '../support/service/served-api.ts';
import type { Row } from '../support/expected-rows.ts';
import { instantClock } from '../support/instant-clock.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { sameRow } from '../support/same-row.ts';
import { entityNamed } from '../support/sync-once.ts';

interface Edited {
  readonly world: RevisionWorld;
  readonly account: EditedAccount;
}

async function openEdited(definitionName: string, entities?: readonly string[]): Promise<Edited> {
  let account: EditedAccount | null = null;
  const world = await openRevisionWorld({
    definitionName,
    sink: 'sqlite',
    ...(entities === undefined ? {} : { entities }),
    wrap: (other) => (account = editAccount(other)),
  });
  if (account === null) throw new Error('the account was not wrapped');
  return { world, account };
}

/** Waits are over at once, and few: what fails for good fails fast. */
const impatient = () => ({ clock: instantClock(Date.now()), limits: { retries: 1 } });

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
    const { world, account } = await openEdited('email-marketing', belowLists);
    await using _world = world;
    expect((await world.sync()).outcome).toBe('ok');
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

    const degraded = await world.sync({ isFull: true }, impatient());
    expect(degraded.outcome).toBe('degraded');
    expect(deletedIn(degraded, 'list_members')).toBe(0);
    expect(storedOf(world, 'list_members').size).toBe(before);

    world.obstruct(null);
    account.remove('lists', vanished);
    account.hide((entity, params) => params['list_id'] === vanished && entity !== 'lists');
    // The list would take more members along than the guards let pass.
    const repaired = await world.sync({ allowDeletes: true }, impatient());
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
    const { world } = await openEdited('workspace-notes');
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
