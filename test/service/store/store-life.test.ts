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
import { setImmediate as nextEvent } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../../src/core/clock.ts';
import type { Provider } from '../../../src/service/provider.ts';
import type { StoreStatus } from '../../../src/service/store/open-context-stores.ts';
import { takeLock } from '../../../src/sql/sqlite/lock.ts';
import { instantClock } from '../../support/instant-clock.ts';
import {
  heldProvider,
  never,
  openPromise,
  providerOf,
  sampleOf,
  searchable,
  statusWhen,
  storeWorld,
  syncProcesses,
} from '../../support/service/store-world.ts';
import { isLong } from '../../support/trials.ts';

const notes = 'workspace-notes';
const mailing = 'email-marketing';

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
    const clock = instantClock();
    await using world = storeWorld({ clock });
    world.keep('one', notes, notesProvider());
    await searchable(world.stores, 'one');
    const before = world.stores.status('one');

    await world.restart();
    const again = counted(notesProvider());
    world.keep('one', notes, again);
    await nextEvent();
    expect(world.stores.status('one')).toEqual(before);
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
    await using world = storeWorld({ clock: instantClock() });
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
    await using world = storeWorld();
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

  it.runIf(isLong)('is made again where a search finds that it is missing', async () => {
    await using world = storeWorld();
    world.keep('one', notes, notesProvider());
    await searchable(world.stores, 'one');
    rmSync(world.file('one'));
    const search = world.stores.search('one', 'pages', { query: {} }, never);
    await expect(search).rejects.toMatchObject({
      body: { errors: [{ error_code: 'context_store_not_ready' }] },
    });
    await searchable(world.stores, 'one');
    expect((await world.stores.search('one', 'pages', { query: {} }, never)).data).not.toEqual([]);
  });

  it('is removed with its connector by a service that keeps none', async () => {
    await using world = storeWorld();
    world.keep('one', notes, notesProvider());
    await searchable(world.stores, 'one');
    await world.restart({ isKept: false });
    world.keep('one', notes, notesProvider());
    expect(world.stores.status('one')).toMatchObject({
      readiness: 'Loading',
      problem: expect.stringContaining('to keep none'),
    });
    await world.stores.drop('one');
    expect(readdirSync(path.join(world.folder, 'stores'))).toEqual([]);
  });

  it('is not begun where the stores are closed', async () => {
    await using world = storeWorld();
    await world.stores[Symbol.asyncDispose]();
    const provider = counted(notesProvider());
    world.keep('one', notes, provider);
    expect(world.stores.status('one').readiness).toBe('Loading');
    expect([provider.calls(), syncProcesses()]).toEqual([0, []]);
  });

  it('is made again from nothing where it holds another kind of connector', async () => {
    await using world = storeWorld({ clock: instantClock() });
    world.keep('one', mailing, providerOf(mailing, sampleOf(mailing)));
    await searchable(world.stores, 'one');
    await world.restart();
    world.keep('one', notes, notesProvider());
    await searchable(world.stores, 'one');
    expect(world.stores.status('one')).toMatchObject({ readiness: 'Ready', problem: null });
    expect(world.stores.status('one').entities.map(({ entity }) => entity)).toContain('blocks');
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
    providers[2]?.open();
    await Promise.all(ids.map((id) => searchable(world.stores, id)));
  });

  it('is not kept under an id that could leave its folder', async () => {
    await using world = storeWorld();
    for (const id of ['../one', 'a/b', '', 'a.b', 'x'.repeat(129)]) {
      expect(() => world.keep(id, notes, notesProvider())).toThrow(/connector id/);
    }
    expect(existsSync(path.join(world.folder, 'stores'))).toBe(false);
    await expect(world.stores.drop('../one')).rejects.toThrow(/connector id/);
  });

  it('is not there to be searched where its connector is not kept', async () => {
    await using world = storeWorld();
    await expect(world.stores.search('other', 'pages', { query: {} }, never)).rejects.toMatchObject({
      status: 400,
    });
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
