import { expect } from 'vitest';
import type { ConnectorSettings } from '../../src/settings/settings.ts';
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
