import { describe, expect } from 'vitest';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setImmediate as nextEvent } from 'node:timers/promises';
import Database from 'better-sqlite3';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { ApiError, notFound } from '../../src/service/api-error.ts';
import type { Provider } from '../../src/service/provider.ts';
import {
  type StoreStatus,
  firstSyncAt,
  nextSyncAt,
  type StoreProcessEnd,
} from '../../src/service/store/open-context-stores.ts';
import { searchableEntities, storeEntities, emptyLedger } from '../../src/service/store/store-ledger.ts';
import { expectedRows, sameRow, sqliteRows } from '../support/expected-rows.ts';
import { instantClock } from '../support/instant-clock.ts';
import { it } from '../support/it.ts';
import { openPromise } from '../support/open-promise.ts';
import { revisingAccount } from '../support/revising-account.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { asTexts, expectedRecords } from '../support/service/expected-search.ts';
import { object, objects } from '../support/service/served-api.ts';
import {
  execute,
  filledWorld,
  heldProvider,
  never,
  providerOf,
  sampleOf,
  searchable,
  statusWhen,
  storeWorld,
  definitionNamed,
  searchAll,
  syncProcesses,
} from '../support/service/store-world.ts';
import { hasMoreKills, isLong, repeats } from '../support/trials.ts';
import type { Clock } from '../../src/core/clock.ts';
import { takeLock, type Lock } from '../../src/sql/sqlite/lock.ts';
import { testProgram } from '../support/ensure-built.ts';

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
    await expectRefused(world.stores.search('one', 'pages', { query: {} }, never));

    first.open();
    await second.arrived;
    const building = await statusWhen(
      world.stores,
      'one',
      ({ readiness }) => readiness === 'Building Preview',
    );
    expect(recordsOf(building)).toEqual([null, null, null, null]);
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
    expect(ready.entities.map(({ entity }) => entity)).toEqual(['users', 'pages', 'data_sources', 'blocks']);
    const { data } = await world.stores.search('one', 'users', { query: {} }, never);
    expect(data).toHaveLength(Array.isArray(users) ? users.length : -1);
    expect(ready.entities[0]?.records).toBe(Array.isArray(users) ? users.length : 0);
  });

  // Proves specification 3.2, 3.3
  it('is Preview and searched after a first sync that left something out, Ready after one that did not, and stays so', async () => {
    // Nothing is due by itself: each sync is one that the test asks for.
    const sleep: Clock['sleep'] = (_ms, signal) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      });
    await using world = storeWorld({ clock: { now: Date.now, sleep } });
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
    expect(preview.problem).toBe('The last sync left something out of reports (NOT_FOUND).');
    expect(preview.entities.find(({ entity }) => entity === 'reports')?.records).toBe(0);
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

  it('is searched while it is refreshed', async () => {
    await using world = await filledWorld(notes);
    const provider = providerOf(notes, sampleOf(notes));
    let held: Provider = provider;
    world.keep('one', notes, { ...provider, list: (request) => held.list(request) });
    await searchable(world.stores, 'one');
    const gate = heldProvider(provider, () => true);
    held = gate;
    const refreshed = world.refresh('one');
    await gate.arrived;
    expect(world.stores.status('one')).toMatchObject({ readiness: 'Ready', isSyncing: true });
    expect((await world.stores.search('one', 'users', { query: {}, limit: 1 }, never)).data).toHaveLength(1);
    gate.open();
    await refreshed;
    expect(world.stores.status('one').isSyncing).toBe(false);
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
});

async function expectRefused(search: Promise<unknown>): Promise<void> {
  await expect(search).rejects.toMatchObject({
    status: 400,
    body: { errors: [{ error_code: 'context_store_not_ready' }] },
  });
}

describe('a refresh', () => {
  // Proves specification 1.4, 4.4.4
  it.each([mailing, 'workspace-notes'])(
    'is what a search waits for, which asks the store of %s and never the account, as list and get do: it brings what was added, changed and deleted',
    async (name) => {
      await using world = await filledWorld(name);
      const account = revisingAccount({ definitionName: name, seed: 7, size: 'tiny' });
      const provider = providerOf(name, account);
      const connector = { connectorId: 'one', definition: name, provider };
      world.keep('one', name, provider);
      await searchable(world.stores, 'one');
      const entities = searchableEntities(definitionNamed(name));
      const before = entities.map((entity) => asTexts(expectedRecords(entity, account)));
      account.moveTo(3);
      for (const [place, { name: entity }] of entities.entries()) {
        const found: JsonObject[] = [];
        let cursor: JsonValue = null;
        do {
          const body = { entity, action: 'context_store_search', params: { query: {}, cursor } };
          const { data = [], meta }: JsonObject = object(await execute(world.stores, connector, body));
          found.push(...objects(data));
          cursor = object(meta)['cursor'] ?? null;
        } while (cursor !== null);
        expect(asTexts(found), entity).toEqual(before[place]);
      }
      const [entity, param] = name === mailing ? ['lists', 'list_id'] : ['users', 'user_id'];
      const [now] = account.list(entity, {}).slice(0, 1);
      const listed = await execute(world.stores, connector, { entity, action: 'list' });
      expect(Array.isArray(listed) ? listed[0] : null).toEqual(now);
      const params = { [param]: now?.['id'] ?? null };
      expect(await execute(world.stores, connector, { entity, action: 'get', params })).toMatchObject(
        now ?? {},
      );

      await world.refresh('one');
      let changed = 0;
      for (const [place, searched] of entities.entries()) {
        const found = await searchAll(world.stores, 'one', searched.name);
        const expected = expectedRecords(searched, account);
        // What was done with a campaign that is gone was done: an event stays.
        const isGone = ({ campaign_id = null }: JsonObject): boolean =>
          searched.deletes === 'never' && !expected.some((event) => event['campaign_id'] === campaign_id);
        const there = found.filter((record) => !isGone(record));
        expect(asTexts(there), searched.name).toEqual(asTexts(expected));
        if (JSON.stringify(asTexts(expected)) !== JSON.stringify(before[place])) changed += 1;
      }
      expect(changed).toBeGreaterThanOrEqual(3);
    },
  );

  // Proves promise 16
  it('neither hides from a concurrent search what existed throughout, nor shows it twice', async () => {
    await using world = storeWorld();
    const lists = Array.from({ length: isLong ? 90 : 60 }, (_, number) => listRecord(number * 10));
    const stayed = new Set(lists.filter((_, place) => place % 5 !== 0).map(({ id }) => id));
    world.keep(
      'one',
      mailing,
      listsProvider(() => lists),
    );
    await searchable(world.stores, 'one');
    for (const sort of [undefined, [{ web_id: 'desc' }]]) {
      const found: unknown[] = [];
      let next = 1_000 + found.length;
      for (let cursor: string | null = null; ;) {
        const more: JsonObject = cursor === null ? {} : { cursor };
        const params: JsonObject = {
          query: sort === undefined ? {} : { sort },
          limit: 35,
          fields: ['id'],
          ...more,
        };
        const { data, meta } = await world.stores.search('one', 'lists', params, never);
        found.push(...data.map(({ id }) => id));
        if (!meta.has_more) break;
        ({ cursor } = meta);
        // Behind the page and before it: one goes, one comes, one changes where it does not stand in the order.
        const leaving = lists.findIndex(({ id }) => !stayed.has(id));
        if (leaving !== -1) lists.splice(leaving, 1);
        for (const number of [next, next % 7]) lists.push(listRecord(number + 0.5));
        next += 1;
        lists[3] = { ...lists[3], visibility: `seen ${next}` };
        await world.refresh('one');
      }
      expect(new Set(found).size).toBe(found.length);
      expect([...stayed].filter((id) => !found.includes(id))).toEqual([]);
    }
  });
});

function listRecord(number: number): JsonObject {
  return {
    id: `l${number}`,
    web_id: Math.floor(number * 2),
    name: `list ${String(number).padStart(8, '0')}`,
    date_created: new Date(Date.UTC(2024, 0, 1) + number * 60_000).toISOString(),
    visibility: 'pub',
  };
}

/** An account that has lists and nothing else. */
function listsProvider(lists: () => readonly JsonObject[]): Provider {
  return {
    list: async ({ entity, params }) => {
      const sorted = [...(entity.name === 'lists' ? lists() : [])].sort((left, right) =>
        textOf(left['date_created']) < textOf(right['date_created']) ? -1 : 1,
      );
      const offset = Number(params['offset'] ?? 0);
      return { records: sorted.slice(offset, offset + Number(params['count'])), metadata: null };
    },
    get: async ({ params }) => lists().find(({ id }) => id === params['list_id']) ?? null,
    download: async () => null,
  };
}

describe('large store', () => {
  const size = isLong ? 100_000 : 8_000;

  it(`answers get between any two pages of a sync of ${size} records, which is found complete`, async () => {
    await using world = storeWorld();
    let pages = 0;
    let answered = 0;
    /** Of each page, how many gets had been answered when it was asked for. */
    const answeredAtPage: number[] = [];
    const provider: Provider = {
      list: async ({ entity, params }) => {
        if (entity.name !== 'lists') return { records: [], metadata: null };
        pages += 1;
        answeredAtPage.push(answered);
        const offset = Number(params['offset'] ?? 0);
        const count = Math.max(0, Math.min(Number(params['count']), size - offset));
        return { records: Array.from({ length: count }, (_, at) => listRecord(offset + at)), metadata: null };
      },
      get: async ({ params }) => listRecord(Number(textOf(params['list_id']).slice(1))),
      download: async () => null,
    };
    const connector = { connectorId: 'one', definition: mailing, provider };
    world.keep('one', mailing, provider);
    const ready = searchable(world.stores, 'one').then(() => 'ready');
    for (let number = 0; ; number += 1) {
      const list_id = `l${number % size}`;
      const got = await execute(world.stores, connector, {
        entity: 'lists',
        action: 'get',
        params: { list_id },
      });
      expect(got).toMatchObject({ id: list_id });
      answered += 1;
      // A breath: the process of the sync needs a processor too.
      const next = new Promise((resolve) => setTimeout(() => resolve('on'), 1));
      if ((await Promise.race([ready, next])) === 'ready') break;
    }
    expect(pages).toBeGreaterThan(size / 1_000);
    const idle = answeredAtPage.filter((count, page) => page > 0 && count === answeredAtPage[page - 1]);
    // The next page is asked for while this one is stored, so two may come together.
    expect(idle.length).toBeLessThan(pages / 2);
    expect(world.stores.status('one').entities.find(({ entity }) => entity === 'lists')?.records).toBe(size);
    const query = { filter: { eq: { name: `list ${size - 1}` } } };
    const { data } = await world.stores.search('one', 'lists', { query, fields: ['id'] }, never);
    expect(data).toEqual([{ id: `l${size - 1}` }]);
  }, 120_000);

  function listRecord(number: number): JsonObject {
    return {
      id: `l${number}`,
      web_id: number,
      name: `list ${number}`,
      date_created: new Date(Date.UTC(2020, 0, 1) + number * 1_000).toISOString(),
    };
  }
});

const kills = repeats('KILLS', { share: 1, full: 20 });

// `npm test` kills one while it waits for a page, below.
it.runIf(hasMoreKills).each([notes, mailing])(
  'has all of %s after its syncs were killed at any moment',
  async (name) => {
    await using world = storeWorld({ clock: instantClock() });
    const account = sampleOf(name);
    const random = seededRandom(kills);
    const provider = providerOf(name, account);
    const killed: number[] = [];
    let callsLeft = 1;
    const murderous: Provider = {
      ...provider,
      list: async (request) => {
        callsLeft -= 1;
        if (callsLeft === 0 && killed.length < kills) {
          callsLeft = 1 + Math.floor(random() * 12);
          const [pid] = syncProcesses();
          // One that was killed still asks until the signal has reached it.
          if (pid !== undefined && !killed.includes(pid)) {
            killed.push(pid);
            // Now, or while it stores what came before.
            setTimeout(() => process.kill(pid, 'SIGKILL'), Math.floor(random() * 5));
          }
        }
        return await provider.list(request);
      },
    };
    world.keep('one', name, murderous);
    await searchable(world.stores, 'one');
    while (killed.length < kills) await world.refresh('one');
    await world.refresh('one');

    expect(new Set(killed).size).toBe(kills);
    expect(world.stores.status('one')).toMatchObject({ readiness: 'Ready', problem: null });
    const definition = definitionNamed(name);
    for (const entityName of storeEntities(definition).keys()) {
      const entity = definition.entities.get(entityName);
      if (entity === undefined) throw new Error(entityName);
      const { rows, exploded } = expectedRows(entity, sampleTruth(account, entityName));
      const tables = [[entity.table, rows] as const];
      if (entity.explodedTable !== null) tables.push([entity.explodedTable, exploded]);
      for (const [table, expected] of tables) {
        const stored = sqliteRows(world.file('one'), 'store', table);
        expect([...stored.keys()].sort()).toEqual([...expected.keys()].sort());
        const different = [...expected].filter(([key, row]) => {
          const found = stored.get(key);
          return found === undefined || !sameRow(found, row);
        });
        expect(different.map(([key]) => `${table.entity} ${key}`)).toEqual([]);
      }
    }
  },
);

function notesProvider(seed = 7): Provider {
  return providerOf(notes, sampleOf(notes, 'tiny', seed));
}

/** A provider that says how many calls reached it. */
function counted(provider: Provider): Provider & { calls(): number } {
  let calls = 0;
  return {
    ...provider,
    list: async (request) => {
      calls += 1;
      return await provider.list(request);
    },
    calls: () => calls,
  };
}

describe('a store', () => {
  it('leaves neither a process nor a lock when it is closed in the middle of a sync', async () => {
    await using world = storeWorld();
    const provider = heldProvider(notesProvider(), (entity) => entity === 'blocks');
    world.keep('one', notes, provider);
    await provider.arrived;
    expect(syncProcesses()).toHaveLength(1);
    await world.stores[Symbol.asyncDispose]();
    expect(syncProcesses()).toEqual([]);
    const lock = takeLock(`${world.file('one')}.store.lock`);
    expect(lock).not.toBeNull();
    lock?.release();
  });

  it('is removed with everything beside it in the middle of a sync, and can be kept again', async () => {
    await using world = storeWorld();
    const provider = heldProvider(notesProvider(), (entity) => entity === 'blocks');
    world.keep('one', notes, provider);
    await provider.arrived;
    const dropped = world.stores.drop('one');
    await expect(world.stores.search('one', 'pages', { query: {} }, never)).rejects.toMatchObject({
      status: 400,
    });
    // Before the old one is gone: the new one waits for that.
    world.keep('one', notes, notesProvider());
    await dropped;
    await searchable(world.stores, 'one');
    expect(world.stores.status('one').problem).toBeNull();
    await world.stores.drop('one');
    expect(readdirSync(path.join(world.folder, 'stores'))).toEqual([]);
    expect(syncProcesses()).toEqual([]);
    expect(world.stores.status('one').readiness).toBe('Loading');
  });

  it('is found again by a restart, which reads nothing before it is due', async () => {
    await using world = await filledWorld(notes, { clock: instantClock() });
    const again = counted(notesProvider());
    world.keep('one', notes, again);
    const { readiness, problem, entities } = await searchable(world.stores, 'one');
    const users = sampleOf(notes).list('users', {}).slice(0, 1_000).length;
    expect({ readiness, problem, users: entities[0]?.records }).toEqual({
      readiness: 'Ready',
      problem: null,
      users,
    });
    await nextEvent();
    expect([again.calls(), syncProcesses()]).toEqual([0, []]);
    await world.refresh('one');
    expect(again.calls()).toBeGreaterThan(0);
  });

  it('is refreshed at its time, counted from the end of the sync before, also over a restart', async () => {
    let now = Date.parse('2026-03-01T00:00:00Z');
    const asleep: { ms: number; wake: () => void }[] = [];
    const clock = {
      now: () => now,
      sleep: (ms: number, signal?: AbortSignal) =>
        new Promise<void>((resolve, reject) => {
          asleep.push({ ms, wake: resolve });
          signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        }),
    };
    const hour = 3_600_000;
    await using world = storeWorld({ clock, refreshEveryMs: hour });
    const provider = counted(notesProvider());
    world.keep('one', notes, provider);
    await searchable(world.stores, 'one');
    const first = provider.calls();
    await statusWhen(world.stores, 'one', () => asleep.length > 0);
    expect(asleep.map(({ ms }) => ms)).toEqual([hour]);

    now += hour;
    asleep.shift()?.wake();
    await statusWhen(world.stores, 'one', () => asleep.length > 0);
    expect(provider.calls()).toBeGreaterThan(first);

    asleep.length = 0;
    now += hour / 4;
    await world.restart();
    world.keep('one', notes, provider);
    await statusWhen(world.stores, 'one', () => asleep.length > 0);
    const [wait] = asleep;
    expect(wait?.ms).toBeGreaterThan(0.7 * hour);
    expect(wait?.ms).toBeLessThan(0.8 * hour);
  });

  it('resumes where a restart interrupted it', async () => {
    await using world = storeWorld();
    const held = heldProvider(notesProvider(), (entity) => entity === 'blocks');
    world.keep('one', notes, held);
    await held.arrived;
    await statusWhen(world.stores, 'one', ({ readiness }) => readiness === 'Building Preview');
    await world.restart();
    const again = heldProvider(notesProvider(), () => true);
    world.keep('one', notes, again);
    await nextEvent();
    const { readiness, problem } = world.stores.status('one');
    expect(readiness).toBe('Building Preview');
    expect(problem).toBe('The last sync was cut off before its end; the next one resumes.');
    again.open();
    await searchable(world.stores, 'one');
    expect(world.stores.status('one')).toMatchObject({ readiness: 'Ready', problem: null });
  });

  it('tries again after a while when its process dies, and says so', async () => {
    const clock = instantClock();
    const stopped = openPromise();
    const held: Clock = {
      ...clock,
      sleep: async (ms, signal) => {
        await stopped.promise;
        await clock.sleep(ms, signal);
      },
    };
    await using world = storeWorld({ clock: held });
    const provider = heldProvider(notesProvider(), () => true);
    world.keep('one', notes, provider);
    await provider.arrived;
    for (const pid of syncProcesses()) process.kill(pid, 'SIGKILL');
    const { readiness, problem } = await statusWhen(world.stores, 'one', (status) => status.problem !== null);
    expect(readiness).toBe('Loading');
    expect(problem).toMatch(/cut off before its end|ended too early \(SIGKILL\)/);
    provider.open();
    clock.advance(1_000);
    stopped.resolve();
    await searchable(world.stores, 'one');
    expect(world.stores.status('one').problem).toBeNull();
  });

  it('is made again where its file is no database, is torn, belongs to another program, or has runs that cannot be read', async () => {
    await using world = await filledWorld(notes, { clock: instantClock() });
    world.keep('one', notes, notesProvider());
    await searchable(world.stores, 'one');
    const before = recordsOf(world.stores.status('one'));
    const damages = [
      makeOther,
      spoilReports,
      (file: string) => overwrite(file, 3 * 16_384, 200 * 16_384),
      (file: string) => writeFileSync(file, 'no database at all'.repeat(1000)),
    ];
    // A search of `npm test` meets one that is no database, below.
    for (const damage of damages.slice(0, isLong ? 4 : 2)) {
      await world.stores[Symbol.asyncDispose]();
      damage(world.file('one'));

      await world.restart();
      const problems: (string | null)[] = [];
      const provider = notesProvider();
      world.keep('one', notes, {
        ...provider,
        list: async (request) => {
          problems.push(world.stores.status('one').problem);
          return await provider.list(request);
        },
      });
      await statusWhen(world.stores, 'one', () => problems.length > 0);
      await searchable(world.stores, 'one');
      const after = world.stores.status('one');
      expect(after, damage.name).toMatchObject({ readiness: 'Ready', problem: null });
      expect(recordsOf(after), damage.name).toEqual(before);
      expect(problems[0], damage.name).toMatch(/made again from nothing/);
    }
  });

  it('is made again where a search finds that it cannot be read', async () => {
    await using world = await filledWorld(notes);
    world.keep('one', notes, notesProvider());
    await searchable(world.stores, 'one');
    writeFileSync(world.file('one'), 'no database at all'.repeat(1000));
    const search = world.stores.search('one', 'pages', { query: {} }, never);
    await expect(search).rejects.toMatchObject({
      body: { errors: [{ error_code: 'context_store_not_ready' }] },
    });
    expect(world.stores.status('one').problem).toMatch(/made again from nothing/);
    await searchable(world.stores, 'one');
    expect((await world.stores.search('one', 'pages', { query: {} }, never)).data).not.toEqual([]);
  });

  it('is synced again after a change that came in the middle of a sync', async () => {
    await using world = storeWorld();
    const provider = counted(notesProvider());
    const held = heldProvider(provider, (entity) => entity === 'blocks');
    world.keep('one', notes, held);
    await held.arrived;
    const refreshed = world.refresh('one');
    held.open();
    await statusWhen(world.stores, 'one', ({ readiness }) => readiness === 'Ready');
    const calls = provider.calls();
    await refreshed;
    expect(provider.calls()).toBeGreaterThan(calls);
  });

  it('syncs two connectors at a time; the next waits', async () => {
    await using world = storeWorld();
    const ids = ['one', 'two', 'three'];
    const providers = ids.map(() => heldProvider(notesProvider(), () => true));
    for (const [place, id] of ids.entries()) world.keep(id, notes, providers[place] ?? notesProvider());
    await Promise.all([providers[0]?.arrived, providers[1]?.arrived]);
    expect(syncProcesses()).toHaveLength(2);
    for (const provider of providers.slice(0, 2)) provider.open();
    await providers[2]?.arrived;
  });

  it('is not kept under an id that could leave its folder', async () => {
    await using world = storeWorld();
    for (const id of ['../one', 'a/b', '', 'a.b', 'x'.repeat(129)]) {
      expect(() => world.keep(id, notes, notesProvider())).toThrow(/connector id/);
    }
    expect(existsSync(path.join(world.folder, 'stores'))).toBe(false);
    await expect(world.stores.drop('../one')).rejects.toThrow(/connector id/);
  });
});

function recordsOf({ entities }: StoreStatus): readonly (number | null)[] {
  return entities.map(({ records }) => records);
}

function overwrite(file: string, from: number, to: number): void {
  const descriptor = openSync(file, 'r+');
  const end = Math.min(to, fstatSync(descriptor).size);
  writeSync(descriptor, Buffer.alloc(end - from, 0xa5), 0, end - from, from);
  closeSync(descriptor);
}

function spoilReports(file: string): void {
  const db = new Database(file);
  db.exec(`UPDATE _sync_runs SET report = '{' || report`);
  db.close();
}

function makeOther(file: string): void {
  rmSync(file);
  const db = new Database(file);
  db.exec('CREATE TABLE notes (text TEXT); PRAGMA user_version = 7');
  db.close();
}

const nowMs = Date.parse('2026-01-01T00:00:00Z');
const hour = 3_600_000;
const ok: StoreProcessEnd = { kind: 'run', outcome: 'ok', resumeAt: null };
const degraded: StoreProcessEnd = { ...ok, outcome: 'degraded' };
const died: StoreProcessEnd = { kind: 'died', how: 'SIGKILL' };

describe('the next sync of a store', () => {
  it('comes after the refresh time, or not by itself where there is none', () => {
    const context = { readiness: 'Ready', failures: 0, nowMs } as const;
    expect(nextSyncAt(ok, { ...context, refreshEveryMs: hour })).toBe(nowMs + hour);
    expect(nextSyncAt(ok, { ...context, refreshEveryMs: null })).toBeNull();
    expect(nextSyncAt(degraded, { ...context, refreshEveryMs: null })).toBeNull();
  });

  it('comes after a doubling back-off where one came to nothing, never later than the refresh', () => {
    const after = (end: StoreProcessEnd, failures: number, refreshEveryMs: number | null): number =>
      (nextSyncAt(end, { readiness: 'Preview', failures, refreshEveryMs, nowMs }) ?? NaN) - nowMs;
    expect([1, 2, 3, 50].map((failures) => after(died, failures, null))).toEqual([
      1_000, 2_000, 4_000, 900_000,
    ]);
    expect(after(degraded, 1, hour)).toBe(1_000);
    expect(after({ kind: 'error', code: 'SINK_FULL' }, 50, 60_000)).toBe(60_000);
  });

  it('comes at the time that the third party asked for, also where that is far ahead', () => {
    const resumeAt = new Date(nowMs + 2 * hour).toISOString();
    const end: StoreProcessEnd = { kind: 'run', outcome: 'partial', resumeAt };
    const context = { readiness: 'Loading', failures: 1, refreshEveryMs: hour } as const;
    expect(nextSyncAt(end, { ...context, nowMs })).toBe(nowMs + 2 * hour);
    expect(nextSyncAt(end, { ...context, nowMs: nowMs + 3 * hour })).toBe(nowMs + 3 * hour);
  });

  it('comes at once at the start of the service where the store is not complete', () => {
    const whole = { ...emptyLedger, endedAt: new Date(nowMs - hour / 2).toISOString() };
    const context = { readiness: 'Ready', refreshEveryMs: hour, nowMs } as const;
    expect(firstSyncAt(whole, context)).toBe(nowMs + hour / 2);
    expect(firstSyncAt({ ...whole, problem: 'cut off' }, context)).toBe(nowMs);
    expect(firstSyncAt(whole, { ...context, readiness: 'Preview' })).toBe(nowMs);
    expect(firstSyncAt(emptyLedger, context)).toBe(nowMs);
  });

  it('is not put off for long by a clock that was years ahead when the last one ended', () => {
    const ahead = { ...emptyLedger, endedAt: '2031-01-01T00:00:00.000Z' };
    expect(firstSyncAt(ahead, { readiness: 'Ready', refreshEveryMs: hour, nowMs })).toBe(nowMs + hour);
  });
});

const program = testProgram('service/store/syncing-service.mjs');

it('ends the sync of a service that was killed, and frees the store for the next one', async ({ folder }) => {
  const service = spawn(process.execPath, [program, folder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    // The sync holds the store and waits for a page that never comes.
    await once(createInterface({ input: service.stdout }), 'line');
    const lockFile = path.join(folder, 'stores', 'one.db.store.lock');
    expect(existsSync(lockFile)).toBe(true);
    expect(takeLock(lockFile)).toBeNull();
    service.kill('SIGKILL');
    await once(service, 'exit');
    const lock = await lockWhenFree(lockFile);
    lock.release();
  } finally {
    service.kill('SIGKILL');
  }
});

async function lockWhenFree(file: string): Promise<Lock> {
  for (;;) {
    const lock = takeLock(file);
    if (lock !== null) return lock;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
