import { describe, expect, it } from 'vitest';
import type { Definition } from '../../src/definitions/definition.ts';
import { isLong } from '../support/trials.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { text } from '../support/service/served-api.ts';
import { isJsonObject, type JsonObject } from '../../src/core/json.ts';
import { listingOf, type SampleAccount } from '../../src/sample/sample-account.ts';
import { notesTime } from '../../src/sample/notes-sample.ts';

const most = 0.15;
const pageLength = isLong ? 1_000 : 200;

/** The definition with pages of so many records. */
function withPages(definition: Definition, maxSize: number): Definition {
  const entities = [...definition.entities].map(([name, entity]) => {
    const { pagination } = entity;
    return [
      name,
      pagination.kind === 'offset' ? { ...entity, pagination: { ...pagination, maxSize } } : entity,
    ] as const;
  });
  return { ...definition, entities: new Map(entities) };
}

function sum(calls: ReadonlyMap<string, number>): number {
  return [...calls.values()].reduce((total, count) => total + count, 0);
}

function everyHundredth(world: RevisionWorld, entity: string): string[] {
  const ids = [...world.truthOf(entity).values()].map(({ columns }) => text(columns['id']));
  return ids.filter((_, index) => index % 100 === 50);
}

/** The account with a later time of editing on some pages, sorted as asked for. */
function withEdits(account: SampleAccount, edited: ReadonlySet<string>, time: string): SampleAccount {
  const edit = (record: JsonObject): JsonObject =>
    edited.has(text(record['id'])) ? { ...record, last_edited_time: time } : record;
  return {
    list: (entity, params) => {
      const listing = account.list(entity, params);
      if (entity !== 'pages') return listing;
      const { sort } = params;
      const sign = isJsonObject(sort) && sort['direction'] === 'ascending' ? 1 : -1;
      const timeOf = (record: JsonObject): number => Date.parse(text(record['last_edited_time']));
      const records = listing.slice(0, 10_000).map(edit);
      return listingOf(
        records.toSorted((left, right) => sign * (timeOf(left) - timeOf(right))),
        listing.metadata,
      );
    },
    get: (entity, params) => account.get(entity, params),
  };
}

describe('a sync of an account of which 1 % has changed', () => {
  // Proves promise 2.1
  it('takes at most 15 % of the calls of a full one where 1 % has changed: a workspace of notes', async () => {
    const edited = new Set<string>();
    const yesterday = notesTime(Date.now() - 24 * 60 * 60 * 1000);
    await using world = await openRevisionWorld({
      definitionName: 'workspace-notes',
      sink: 'sqlite',
      wrap: (account) => withEdits(account, edited, yesterday),
    });
    await world.sync();
    const full = sum(world.takeCalls());
    for (const page of everyHundredth(world, 'pages')) edited.add(page);
    const report = await world.sync();
    const calls = world.takeCalls();
    const updated = report.entities.find(({ entity }) => entity === 'pages')?.counts.updated;
    expect({ outcome: report.outcome, updated }).toEqual({ outcome: 'ok', updated: edited.size });
    console.log(
      `notes: ${sum(calls)} of ${full} calls for ${edited.size} changed pages: ${JSON.stringify([...calls])}`,
    );
    expect(sum(calls)).toBeLessThanOrEqual(full * most);
  }, 60_000);

  // Proves promise 2.1
  it('takes at most 15 % of the calls of a full one where 1 % has changed: members of a list of 25 pages', async () => {
    await using world = await openRevisionWorld({
      definitionName: 'email-marketing',
      sink: 'sqlite',
      size: { members: 25 * pageLength },
      entities: ['lists', 'list_members'],
    });
    const inShortPages = { definition: withPages(builtInDefinition('email-marketing'), pageLength) };
    await world.sync({}, inShortPages);
    const full = world.takeCalls().get('list_members') ?? 0;
    world.moveTo(1);
    const report = await world.sync({}, inShortPages);
    const calls = world.takeCalls().get('list_members') ?? 0;
    const members = report.entities.find(({ entity }) => entity === 'list_members')?.counts;
    expect(report.outcome).toBe('ok');
    expect((members?.inserted ?? 0) + (members?.updated ?? 0)).toBeGreaterThan(pageLength / 10);
    console.log(`members: ${calls} of ${full} calls for ${JSON.stringify(members)}`);
    expect(full).toBeGreaterThan(20);
    expect(calls).toBeLessThanOrEqual(full * most);
  }, 120_000);
});
