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
import { describe, expect } from 'vitest';
import type { Clock } from '../../src/core/clock.ts';
import type { Provider } from '../../src/service/provider.ts';
import {
  type StoreStatus,
  firstSyncAt,
  nextSyncAt,
  type StoreProcessEnd,
} from '../../src/service/store/open-context-stores.ts';
import { emptyLedger } from '../../src/service/store/store-ledger.ts';
import { takeLock, type Lock } from '../../src/sql/sqlite/lock.ts';
import { testProgram } from '../support/ensure-built.ts';
import { instantClock } from '../support/instant-clock.ts';
import { openPromise } from '../support/open-promise.ts';
import { it } from '../support/it.ts';
import {
  heldProvider,
  never,
  providerOf,
  sampleOf,
  searchable,
  statusWhen,
  storeWorld,
  syncProcesses,
} from '../support/service/store-world.ts';
import { isLong } from '../support/trials.ts';

const notes = 'workspace-notes';

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
    const whole = { ...emptyLedger, hasEnded: true, endedAt: new Date(nowMs - hour / 2).toISOString() };
    const context = { readiness: 'Ready', refreshEveryMs: hour, nowMs } as const;
    expect(firstSyncAt(whole, context)).toBe(nowMs + hour / 2);
    expect(firstSyncAt({ ...whole, problem: 'cut off' }, context)).toBe(nowMs);
    expect(firstSyncAt(whole, { ...context, readiness: 'Preview' })).toBe(nowMs);
    expect(firstSyncAt(emptyLedger, context)).toBe(nowMs);
  });

  it('is not put off for long by a clock that was years ahead when the last one ended', () => {
    const ahead = { ...emptyLedger, hasEnded: true, endedAt: '2031-01-01T00:00:00.000Z' };
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
