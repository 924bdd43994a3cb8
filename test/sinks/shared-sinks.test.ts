import { readlinkSync, readdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import Sqlite from 'better-sqlite3';
import { describe, expect, vi } from 'vitest';
import { systemClock, type Clock } from '../../src/core/clock.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { openSink } from '../../src/sinks/registry.ts';
import { shareSinks } from '../../src/sinks/share-sinks.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';
import type { Database } from '../../src/sql/database.ts';
import { sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';
import { postgresSinkKind } from '../contracts/postgres-sink-kind.ts';
import {
  type Bench,
  identity,
  member,
  membersTable,
  sealed,
  type SinkKind,
} from '../contracts/sink/fixture.ts';
import { benchOfTest } from '../contracts/sink/use-bench.ts';
import { it } from '../support/it.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { randomTurns } from '../support/seeded-random.ts';
import { delayed } from '../support/sql/delayed.ts';
import { repeats, startSeed } from '../support/trials.ts';

/** What each statement of a database that is opened now will wait for. */
const statements = vi.hoisted((): { delay: (() => Promise<void>) | null } => ({ delay: null }));

vi.mock(import('../../src/sql/sqlite/open-sqlite-database.ts'), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    openSqliteDatabase: (options) => delayedIfAsked(original.openSqliteDatabase(options)),
  };
});

vi.mock(import('../../src/sql/postgres/server.ts'), async (importOriginal) => {
  const original = await importOriginal();
  return { ...original, openServer: (options) => delayedIfAsked(original.openServer(options)) };
});

function delayedIfAsked<Of extends Database>(db: Of): Of {
  return statements.delay === null ? db : delayed(db, statements.delay);
}

/** A clock whose waits are over when the test says so. */
function heldClock() {
  const ends = new Set<() => void>();
  const clock: Clock = {
    now: () => systemClock.now(),
    sleep: (_ms, signal) =>
      new Promise((resolve, reject) => {
        ends.add(resolve);
        signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      }),
  };
  return { clock, passTime: () => ends.forEach((end) => end()) };
}

describe('share sinks', () => {
  const never = new AbortController().signal;
  let folder = '';
  it.beforeEach(({ folder: made }) => {
    folder = made;
  });

  /** How often this process has the file open; Linux tells. */
  function opened(file: string): number {
    return readdirSync('/proc/self/fd').filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`) === file;
      } catch {
        return false; // The descriptor that lists the others is gone by now.
      }
    }).length;
  }

  describe.each(['sqlite', 'jsonl'] as const)('a %s sink that several runs use', (type) => {
    const options = () => sampleSinks[type].options(folder);
    const file = (): string => path.join(folder, type === 'sqlite' ? 'test.db' : 'lake/_ledger.db');

    it('is opened once, stays open for a while after the last of them, and is closed then', async () => {
      const { clock, passTime } = heldClock();
      await using shared = shareSinks(clock, 1);
      const deps = { signal: never, sinkId: null };
      const [first, second] = await Promise.all([shared.open(options(), deps), shared.open(options(), deps)]);
      const third = await shared.open(options(), deps);
      expect([second.sink === first.sink, third.sink === first.sink]).toEqual([true, true]);
      if (process.platform === 'linux') expect(opened(file())).toBe(1);
      await first[Symbol.asyncDispose]();
      await second[Symbol.asyncDispose]();
      expect(await third.sink.resume(['newsletter' as never])).toEqual(new Set());
      await third[Symbol.asyncDispose]();
      const soon = await shared.open(options(), deps);
      expect(soon.sink).toBe(first.sink);
      passTime();
      expect(await soon.sink.resume(['newsletter' as never]), 'nobody closes it in use').toEqual(new Set());
      await soon[Symbol.asyncDispose]();
      passTime();
      await vi.waitFor(() => {
        if (process.platform === 'linux') expect(opened(file())).toBe(0);
      });
      await using again = await shared.open(options(), deps);
      expect([again.sink === first.sink, again.sink.id]).toEqual([false, first.sink.id]);
    });

    it('is closed at once when the runs of the process are over', async () => {
      const shared = shareSinks(systemClock, 1);
      const deps = { signal: never, sinkId: null };
      const first = await shared.open(options(), deps);
      await first[Symbol.asyncDispose]();
      const late = await shared.open(options(), deps);
      await shared[Symbol.asyncDispose]();
      expect(await late.sink.resume(['newsletter' as never])).toEqual(new Set());
      await late[Symbol.asyncDispose]();
      if (process.platform === 'linux') expect(opened(file())).toBe(0);
    });

    it('is reopened by the next run when another file is at its place', async () => {
      await using shared = shareSinks(systemClock, 1);
      const { open } = shared;
      await using first = await open(options(), { signal: never, sinkId: null });
      renameSync(file(), `${file()}.away`);
      for (const beside of ['-wal', '-shm']) rmSync(`${file()}${beside}`, { force: true });
      await expect(open(options(), { signal: never, sinkId: first.sink.id })).rejects.toMatchObject({
        code: 'SINK_MOVED',
      });
      await using next = await open(options(), { signal: never, sinkId: null });
      expect(next.sink.id).not.toBe(first.sink.id);
    });

    it('ends its wait for the write lock when all runs that use it are aborted, not before', async () => {
      await using shared = shareSinks(systemClock, 1);
      const { open } = shared;
      const [one, other] = [new AbortController(), new AbortController()];
      await using first = await open(options(), { signal: one.signal, sinkId: null });
      await using second = await open(options(), { signal: other.signal, sinkId: null });
      const holder = new Sqlite(file());
      holder.exec('BEGIN IMMEDIATE');
      let isOver = false;
      const waiting = first.sink.resume(['newsletter' as never]).finally(() => (isOver = true));
      one.abort(new Error('told to end'));
      await new Promise((resolve) => setImmediate(resolve));
      expect(isOver).toBe(false);
      const failing = expect(waiting).rejects.toThrow();
      other.abort(new Error('told to end'));
      await failing;
      holder.close();
      expect(second.sink).toBe(first.sink);
      await using third = await open(options(), { signal: never, sinkId: null });
      expect(third.sink).not.toBe(first.sink);
    });

    it('that cannot be opened fails each of them, and is opened again by the next', async () => {
      await using shared = shareSinks(systemClock, 1);
      const { open } = shared;
      const deps = { signal: never, sinkId: 'some-other-id' };
      const both = await Promise.allSettled([open(options(), deps), open(options(), deps)]);
      expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      await using made = await open(options(), { signal: never, sinkId: null });
      expect(made.sink.id).not.toBe('');
    });
  });
});

/*
 * Four runs of one process share a sink, each for a connector of its own; every statement of its database takes a
 * random turn of the event loop.
 */

const connectors = ['one', 'two', 'three', 'four'] as ConnectorName[];
const pages = 6;
const trials = repeats('TRIALS', { share: 2, full: 40 });
const seed = startSeed(11);

/**
 * Stores pages of new records, with one of the page before that has changed; in the middle it gives the connector back,
 * and continues.
 */
async function runInto(bench: Bench, sink: Sink, connector: ConnectorName): Promise<void> {
  const walk = async (run: string) =>
    await bench.walking(run, {}, { sink, lease: await sink.acquire(identity({ connector })) });
  const first = await walk(`r-${connector}`);
  const store = async ({ commit }: Pick<typeof first, 'commit'>, number: number): Promise<void> => {
    const fresh = Array.from({ length: 5 }, (_, row) => member(`${connector}-${5 * number + row}`));
    const changed = number === 0 ? [] : [member(`${connector}-${5 * number - 1}`, `changed by ${number}`)];
    const committed = await commit([...fresh, ...changed], {
      position: { kind: 'offset', offset: number + 1 },
      seal: number === pages - 1 ? sealed : null,
    });
    expect(committed.counts[0]?.counts).toMatchObject({ inserted: 5, updated: changed.length });
  };
  for (let number = 0; number < pages / 2; number += 1) await store(first, number);
  await first.release();
  const again = await walk(`r-${connector}-2`);
  expect(again.position).toMatchObject({ offset: pages / 2 });
  for (let number = pages / 2; number < pages; number += 1) await store(again, number);
  await again.finish({ connector });
  await again.release();
}

function expected(connector: ConnectorName): ReadonlyMap<unknown, unknown> {
  return new Map(
    Array.from({ length: 5 * pages }, (_, number) => {
      const isChanged = number % 5 === 4 && number < 5 * pages - 1;
      return [`${connector}-${number}`, isChanged ? `changed by ${(number + 1) / 5}` : 'Ada'];
    }),
  );
}

const kinds: readonly { readonly name: string; readonly kind: () => Promise<SinkKind> }[] = [
  { name: 'SQLite', kind: async () => sqliteKind },
  { name: 'PostgreSQL', kind: postgresSinkKind },
];

describe.each(kinds)('four runs that share one sink of $name', ({ kind: kindOf }) => {
  it('each store what they store alone, whatever their statements wait for', async () => {
    const kind = await kindOf();
    for (let trial = 0; trial < trials; trial += 1) {
      const bench = benchOfTest(kind);
      let turns = 0;
      const random = randomTurns(seed + trial);
      statements.delay = async () => {
        turns += 1;
        await random();
      };
      const sink = await openSink(kind.options(bench.folder), { clock: bench.clock });
      statements.delay = null;
      const runs = connectors.map(async (connector) => await runInto(bench, sink, connector));
      const overview = await sink.history.overview();
      expect(overview.length).toBeLessThanOrEqual(connectors.length);
      await Promise.all(runs);
      await sink[Symbol.asyncDispose]();
      expect(turns, 'statements were delayed').toBeGreaterThan(100);
      for (const connector of connectors) {
        const rows: readonly JsonObject[] = await kind.readRows(bench.folder, connector, membersTable);
        const found = new Map(rows.map(({ id, name }) => [id, name]));
        expect(found, `trial ${trial} of seed ${seed}`).toEqual(expected(connector));
        expect(new Set(rows.map(({ _seq }) => _seq)).size, 'no change number twice').toBe(rows.length);
      }
      expect(await bench.count('_sync_runs', 'finished_at IS NULL')).toBe(connectors.length);
    }
  });
});
