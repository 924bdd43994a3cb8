import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { historyName } from '../../src/core/names.ts';
import type { PublishEnd } from '../../src/publish/publication.ts';
import { members } from '../contracts/sink/fixture.ts';
import {
  connectorOf,
  openPublishWorld,
  type Change,
  type PublishWorld,
} from '../support/publish/publish-world.ts';
import { lakeManifests, readLake } from '../support/publish/read-lake.ts';

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

const history = historyName(members);

function historyIn(end: PublishEnd) {
  if (end.kind !== 'published') throw new Error(`Expected a publication, got ${end.kind}`);
  return end.published.manifest.entities.find(({ entity }) => entity === history);
}

describe('the history of an entity', () => {
  // Proves promise 20.11
  it('has each version of a row once, in rows of their own', async () => {
    const settings = {
      name: 'lake',
      connectors: [connectorOf(world.sink, { keepMs: null })],
      snapshotEveryMs: null,
      keepMs: null,
    };
    const history = historyName(members);
    const publish = async (change: Change) => {
      await world.run({ ...change, hasHistory: true });
      return historyIn(await world.publish({ settings }));
    };
    const ada = ['1', 'Ada'] as const;
    expect(await publish({ upserts: [ada, ['2', 'Bob']] })).toMatchObject({ upserts: 2, deletes: 0 });
    expect(await publish({ upserts: [ada, ['2', 'Bea']], deletes: ['1'] })).toMatchObject({
      upserts: 2,
      deletes: 0,
      key: ['list_id', 'id', '_version'],
    });
    expect(await publish({ upserts: [ada, ['2', 'Bea']] })).toMatchObject({ upserts: 1, deletes: 0 });
    expect((await world.publish({ settings })).kind).toBe('unchanged');
    const manifests = lakeManifests(world.lake);
    const lake = readLake(world.lake, manifests, manifests.at(-1)?.publication ?? 0);
    const lines = [...(lake.get(history)?.values() ?? [])].map(({ line }) => line);
    const rows = lines.toSorted((left, right) => Number(left['_version']) - Number(right['_version']));
    expect(rows.map((row) => [row['id'], row['name'], row['_is_deleted'], row['_changed_at']])).toEqual([
      ['1', 'Ada', false, '2026-03-01T10:01:00.000Z'],
      ['2', 'Bob', false, '2026-03-01T10:01:00.000Z'],
      ['2', 'Bea', false, '2026-03-01T10:02:00.000Z'],
      ['1', 'Ada', true, '2026-03-01T10:02:00.000Z'],
      ['1', 'Ada', false, '2026-03-01T10:03:00.000Z'],
    ]);
    await using target = world.target();
    expect((await target.check(new AbortController().signal)).problems).toEqual([]);
  });
});
