import { describe, expect, it } from 'vitest';
import { instantClock } from '../../support/instant-clock.ts';
import { ApiError, notFound } from '../../../src/service/api-error.ts';
import type { Provider } from '../../../src/service/provider.ts';
import type { StoreStatus } from '../../../src/service/store/open-context-stores.ts';
import {
  execute,
  heldProvider,
  never,
  openPromise,
  providerOf,
  sampleOf,
  searchable,
  statusWhen,
  storeWorld,
} from '../../support/service/store-world.ts';

const notes = 'workspace-notes';
const mailing = 'email-marketing';

describe('the readiness of a store', () => {
  // Proves specification 1.4, 3.1-3, 7.1
  it('goes from Loading over Building Preview to Ready, while list and get work and search is refused', async () => {
    await using world = storeWorld();
    const provider = providerOf(notes, sampleOf(notes));
    const first = heldProvider(provider, () => true);
    const second = heldProvider(first, (entity) => entity === 'blocks');
    const connector = { connectorId: 'one', definition: notes, provider };
    world.keep('one', notes, second);

    await first.arrived;
    expect(world.stores.status('one')).toMatchObject({ readiness: 'Loading', problem: null });
    expect(namesOf(world.stores.status('one'), 'Initializing')).toEqual([
      'users',
      'pages',
      'data_sources',
      'blocks',
    ]);
    await expectRefused(world.stores.search('one', 'pages', { query: {} }, never));

    first.open();
    await second.arrived;
    const building = await statusWhen(
      world.stores,
      'one',
      ({ readiness }) => readiness === 'Building Preview',
    );
    expect(building.entities.map(({ isSearchable, records }) => [isSearchable, records])).toEqual(
      Array.from({ length: 4 }, () => [false, null]),
    );
    await expectRefused(world.stores.search('one', 'pages', { query: {} }, never));
    const users = await execute(world.stores, connector, { entity: 'users', action: 'list' });
    expect(users).toHaveLength(sampleOf(notes).list('users', {}).slice(0, 1000).length);
    const [user] = Array.isArray(users) ? users : [];
    expect(
      await execute(world.stores, connector, {
        entity: 'users',
        action: 'get',
        params: { user_id: user?.id },
      }),
    ).toMatchObject({ id: user?.id });

    second.open();
    await searchable(world.stores, 'one');
    const ready = world.stores.status('one');
    expect(ready).toMatchObject({ readiness: 'Ready', problem: null });
    expect(namesOf(ready, 'Ready')).toEqual(['users', 'pages', 'data_sources', 'blocks']);
    const { data } = await world.stores.search('one', 'users', { query: {} }, never);
    expect(data).toHaveLength(Array.isArray(users) ? users.length : -1);
    expect(ready.entities[0]).toMatchObject({
      isSearchable: true,
      records: Array.isArray(users) ? users.length : 0,
    });
  });

  // Proves specification 3.2, 3.3
  it('is Preview and searched after a first sync that left something out, Ready after one that did not, and stays so', async () => {
    await using world = storeWorld({ clock: instantClock() });
    let isRefused = true;
    const provider = providerOf(mailing, sampleOf(mailing));
    const partly: Provider = {
      ...provider,
      list: async (request) => {
        if (isRefused && request.entity.name === 'reports') {
          throw notFound('No such resource, says a@example.test');
        }
        return await provider.list(request);
      },
    };
    world.keep(
      'one',
      mailing,
      heldProvider(partly, () => false),
    );
    const preview = await statusWhen(world.stores, 'one', ({ problem }) => problem !== null);
    expect(preview.readiness).toBe('Preview');
    expect(preview.problem).toBe('The last sync left something out: 1 listings of reports (NOT_FOUND).');
    expect(preview.entities.find(({ entity }) => entity === 'reports')).toMatchObject({
      isSearchable: true,
      records: 0,
    });
    const { data } = await world.stores.search('one', 'lists', { query: {} }, never);
    expect(data).toHaveLength(sampleOf(mailing).list('lists', {}).slice(0, 1_000).length);

    isRefused = false;
    await world.refresh('one');
    expect(world.stores.status('one')).toMatchObject({ readiness: 'Ready', problem: null });

    isRefused = true;
    await world.refresh('one');
    const later = world.stores.status('one');
    expect(later.readiness).toBe('Ready');
    expect(later.problem).toContain('left something out');
  });

  it('says Updating of what is refreshed, which is searched meanwhile', async () => {
    await using world = storeWorld();
    const provider = providerOf(notes, sampleOf(notes));
    let held: Provider = provider;
    world.keep('one', notes, { ...provider, list: (request) => held.list(request) });
    await searchable(world.stores, 'one');
    const gate = heldProvider(provider, () => true);
    held = gate;
    const refreshed = world.refresh('one');
    await gate.arrived;
    expect(namesOf(world.stores.status('one'), 'Updating')).toEqual([
      'users',
      'pages',
      'data_sources',
      'blocks',
    ]);
    expect((await world.stores.search('one', 'users', { query: {}, limit: 1 }, never)).data).toHaveLength(1);
    gate.open();
    await refreshed;
    expect(namesOf(world.stores.status('one'), 'Updating')).toEqual([]);
  });

  it('stays Loading, and says why without their words, where the third party refuses', async () => {
    await using world = storeWorld();
    const refuse = async (): Promise<never> => {
      throw new ApiError(401, 'key sk-12345-secret is withdrawn');
    };
    const refused = openPromise();
    world.keep('one', mailing, {
      list: async () => {
        refused.resolve();
        return await refuse();
      },
      get: refuse,
      download: refuse,
    });
    await refused.promise;
    const { readiness, problem } = await statusWhen(world.stores, 'one', (status) => status.problem !== null);
    expect(readiness).toBe('Loading');
    expect(problem).toBe(
      'The last sync failed (AUTH_FAILED): the third party does not take the credentials.',
    );
  });

  it('is Ready of a connector whose account is empty', async () => {
    await using world = storeWorld();
    const empty = async () => ({ records: [], metadata: { has_more: false, next_cursor: null } });
    world.keep('one', mailing, { list: empty, get: async () => null, download: async () => null });
    await searchable(world.stores, 'one');
    expect(world.stores.status('one')).toMatchObject({ readiness: 'Ready', problem: null });
    expect((await world.stores.search('one', 'email_activity', { query: {} }, never)).data).toEqual([]);
  });
});

function namesOf({ entities }: StoreStatus, wanted: string): readonly string[] {
  return entities.filter(({ status }) => status === wanted).map(({ entity }) => entity);
}

async function expectRefused(search: Promise<unknown>): Promise<void> {
  await expect(search).rejects.toMatchObject({
    status: 400,
    body: { errors: [{ error_code: 'context_store_not_ready' }] },
  });
}
