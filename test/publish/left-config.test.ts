import { expect } from 'vitest';
import type { ConnectorSettings } from '../../src/settings/settings.ts';
import { news } from '../contracts/sink/fixture.ts';
import { lakeManifests } from '../support/publish/read-lake.ts';
import { connectorOf, openPublishWorld } from '../support/publish/publish-world.ts';
import { it } from '../support/it.ts';

it('leaves an entity that the config no longer chooses out of the next snapshot, stored or not', async () => {
  await using world = openPublishWorld();
  await world.run({ upserts: [['1', 'Ada']] });
  await world.publish();
  const without = { ...connectorOf(world.sink), entities: new Map() } as unknown as ConnectorSettings;
  const settings = { name: 'lake', connectors: [without], snapshotEveryMs: null, keepMs: null };
  expect(await world.publish({ settings })).toMatchObject({ kind: 'unchanged', heldBack: [] });
  await world.publish({ settings, isSnapshotAsked: true });
  expect(lakeManifests(world.lake).map(({ entities }) => entities.length)).toEqual([2, 0]);
});

it('publishes an entity as a generation without rows once its connector is removed from the sink', async () => {
  await using world = openPublishWorld();
  await world.run({ upserts: [['1', 'Ada']] });
  await world.publish();
  const other = { ...connectorOf(world.sink), name: 'other', entities: new Map() } as unknown;
  // `as`: as of a connector whose entities were never stored.
  const connectors = [other as ConnectorSettings];
  const settings = { name: 'lake', connectors, snapshotEveryMs: null, keepMs: null };
  expect(await world.publish({ settings })).toMatchObject({ kind: 'unchanged' });
  await world.withSink(async (sink) => {
    const holder = { pid: 1, host: 'here', command: 'remove', since: '2026-01-01T00:00:00.000Z' };
    await using removal = await sink.repair.remove(news, holder);
    while ((await removal.dropSome()) !== null);
    await removal.finish();
  });
  const reason = 'what the sink held of it was removed';
  expect(await world.publish({ settings })).toMatchObject({
    kind: 'published',
    newGenerations: [
      { entity: 'members', reason },
      { entity: 'member_opens', reason },
    ],
  });
  expect(lakeManifests(world.lake).at(-1)?.entities).toMatchObject(
    ['members', 'member_opens'].map((entity) => ({
      entity,
      generation: 2,
      base: 2,
      through: 0,
      files: [],
      asOf: null,
    })),
  );
  expect(await world.publish({ settings })).toMatchObject({ kind: 'unchanged' });
  // Added again, it is published at once, under a generation of its own.
  await world.run({ upserts: [['2', 'Bea']] });
  expect(await world.publish()).toMatchObject({ kind: 'published', heldBack: [] });
  expect(lakeManifests(world.lake).at(-1)?.entities[0]).toMatchObject({ generation: 3, upserts: 1 });
});
