import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import type { EntityName } from '../../../src/core/names.ts';
import { purgeStore } from '../../../src/service/store/purge-store.ts';
import { filesWith } from '../../support/files-with.ts';
import {
  never,
  providerOf,
  sampleOf,
  searchable,
  searchAll,
  storeWorld,
} from '../../support/service/store-world.ts';

describe('a purged record', () => {
  it('is in no byte of the indexed store, and stays away when that is refreshed', async () => {
    await using world = storeWorld();
    world.keep('one', 'email-marketing', providerOf('email-marketing', sampleOf('email-marketing')));
    await searchable(world.stores, 'one');
    const entity = 'campaigns' as EntityName;
    const before = await searchAll(world.stores, 'one', entity);
    const [found] = before;
    const [text = ''] = textsIn(found).toSorted((one, other) => other.length - one.length);
    expect(filesWith(world.folder, text).length).toBeGreaterThan(0);
    const request = {
      of: [{ entity, keyTexts: [JSON.stringify([found?.['id']])] }],
      canReturn: false,
      signal: never,
    };
    const at = { folder: world.folder, connectorId: 'one', clock: systemClock };
    const end = await purgeStore(at, request);
    expect(end?.entities.find((one) => one.entity === entity)).toMatchObject({ rows: 1 });
    expect(end?.left).toEqual([]);
    expect(filesWith(world.folder, text)).toEqual([]);
    await world.refresh('one');
    expect(await searchAll(world.stores, 'one', entity)).toHaveLength(before.length - 1);
    expect(world.stores.status('one').readiness).toBe('Ready');
    expect(await purgeStore({ ...at, connectorId: 'two' }, request)).toBeNull();
  });
});

function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
