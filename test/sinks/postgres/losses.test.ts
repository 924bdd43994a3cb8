import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, describe } from 'vitest';
import { SyncError } from '../../../src/core/errors.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import { type EntityTable, noCounts } from '../../../src/core/records.ts';
import { tableName } from '../../../src/sinks/postgres/column-types.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import { quoted } from '../../../src/sql/database.ts';
import { mountDisk } from '../../support/small-disk.ts';
import { postgresSinkKind, postgresSinkKindOn } from '../../contracts/postgres-sink-kind.ts';
import { type Bench, identity, members, news, member } from '../../contracts/sink/fixture.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';
import { type Row, byKey } from '../../support/expected-rows.ts';
import { it } from '../../support/it.ts';
import { isCommit, type Passing, type PostgresProxy } from '../../support/postgres-proxy.ts';
import { askPostgres, startPostgres, type PrivatePostgres } from '../../support/postgres.ts';
import { builtInDefinition, startSampleService, storedByDefault } from '../../support/sample-service.ts';
import { differencesFrom, noDifferences } from '../../support/sample-sinks.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { shortenWaits } from '../../support/shorten-waits.ts';
import {
  openBehindProxy,
  PagedRun,
  rowsPerPage,
  startHost,
  until,
  type Told,
} from '../../support/sinks/paged-run.ts';
import { chosenEntities, syncOnce } from '../../support/sync-once.ts';
import { isLong, repeats, startSeed } from '../../support/trials.ts';

/* A server that answers COMMIT before the commit is on its disk, and is killed: it comes back without the last ones. */

const losing = { wal_writer_delay: '10s', wal_writer_flush_after: '1GB', checkpoint_timeout: '1h' };
const kills = repeats('KILLS', { share: 1, full: 60 });
const seed = startSeed();
const size = isLong ? 'small' : { members: 1_200 };

// Proves promise 1.1
it(
  `reads again what a killed server has lost of a run (${kills} kills, seed ${seed})`,
  async ({ folder }) => {
    await using postgres = await startPostgres({ config: losing });
    const service = await startSampleService(size, { latencyMs: 2 });
    onTestFinished(async () => await service.close());
    const kind = await postgresSinkKindOn(postgres);
    const random = seededRandom(seed);
    const name = 'email-marketing';
    const definition = builtInDefinition(name);
    const entities = chosenEntities(definition, ['lists', 'list_members', 'segments']);
    const ends: string[] = [];
    for (let killed = 0; killed < kills; killed += 1) {
      const home = `${folder}/${killed}`;
      const sink: SinkOptions = { ...kind.options(home), durability: 'normal' };
      const sync = async (wrapSink: (opened: Sink) => Sink): Promise<string> => {
        const options = {
          baseUrl: service.url,
          connectorId: 'mailing',
          definition,
          entities,
          sink,
          wrapSink,
        };
        try {
          return (await syncOnce(options)).outcome;
        } catch (error) {
          return error instanceof SyncError ? error.code : String(error);
        }
      };
      const at = 1 + Math.floor(random() * 3);
      ends.push(await sync((opened) => killingAfter(opened, at, postgres)));
      const where = { seed, killed, at };
      const again = [await sync((opened) => opened), await sync((opened) => opened)];
      expect({ ...where, again }).toEqual({ ...where, again: ['ok', 'ok'] });
      const stored = new Map<string, ReadonlyMap<string, Row>>();
      for (const { table } of [...definition.entities.values()].filter((one) => entities.has(one.name))) {
        stored.set(table.entity, rowsOf(table, await kind.readRows(home, name, table)));
      }
      const truth = new Map([...storedByDefault(name, size)].filter(([entity]) => stored.has(entity)));
      const differences = differencesFrom(truth, definition, ({ entity }) => stored.get(entity) ?? new Map());
      expect({ ...where, ...differences }).toEqual({ ...where, ...noDifferences });
    }
    expect(ends.filter((end) => end !== 'ok' && end !== 'FENCED')).toEqual([]);
    expect(ends, 'the kills have lost something').toContain('FENCED');
  },
  60_000 + 20_000 * kills,
);

// Proves promise 1.5
it('ends the run of a holder whose commits a killed server has lost, and gives none of their numbers again', async () => {
  await using postgres = await startPostgres({ config: losing });
  const bench = benchOfTest(await postgresSinkKindOn(postgres));
  await using sink = await openNormal(bench);
  const run = await PagedRun.begin(bench, sink);
  const pages = 4;
  for (let stored = 0; stored < pages; stored += 1) await run.store();
  expect(await bench.rows()).toHaveLength(pages * rowsPerPage);
  await postgres.restart();
  await expect(run.store()).rejects.toMatchObject({
    code: 'FENCED',
    recovery: 'retry',
    message: expect.stringContaining('has lost the last commits of connector "news"') as string,
  });
  expect((await bench.rows()).length, 'some are gone').toBeLessThan(pages * rowsPerPage);
  const kept = new Set((await bench.rows()).map(({ _seq }) => _seq));
  await run.giveUp();

  await using next = await openNormal(bench);
  await (await PagedRun.begin(bench, next)).store();
  const added = (await bench.rows()).map(({ _seq }) => _seq).filter((seq) => !kept.has(seq));
  expect(added).toHaveLength(rowsPerPage);
  expect(Math.min(...added.map(Number))).toBeGreaterThan(2 ** 32);
}, 60_000);

// Proves promise 1.5
it('notices lost commits where no connection broke, as behind a pooler', async () => {
  const bench = benchOfTest(await postgresSinkKind());
  await using sink = await openNormal(bench);
  const run = await PagedRun.begin(bench, sink);
  await run.store();
  const [before] = await bench.ledger('SELECT last_commit::text AS token FROM _sync_counters');
  await run.store();
  await bench.ledger(`UPDATE _sync_counters SET last_commit = '${String(before?.['token'])}'`);
  await expect(run.store()).rejects.toMatchObject({
    code: 'FENCED',
    message: expect.stringContaining('has lost the last commits') as string,
  });
  await run.giveUp();
});

it('keeps a lease through a kill of the server that loses all that was stored with it', async () => {
  await using postgres = await startPostgres({ config: losing });
  const bench = benchOfTest(await postgresSinkKindOn(postgres));
  await using sink = await openNormal(bench);
  const lease = await sink.acquire(identity());
  await postgres.restart();
  expect(await bench.ledger('SELECT epoch FROM _sync_counters')).toEqual([{ epoch: lease.epoch }]);
  await sink.startRun(lease, bench.plan('r1'));
  await lease[Symbol.asyncDispose]();
}, 60_000);

// Proves promise 1.5
it('loses nothing with durability full where the server has synchronous_commit off', async () => {
  await using postgres = await startPostgres({ config: { ...losing, synchronous_commit: 'off' } });
  const bench = benchOfTest(await postgresSinkKindOn(postgres));
  const run = await PagedRun.begin(bench, await bench.open());
  for (let stored = 0; stored < 4; stored += 1) {
    await run.store();
    if (stored % 2 === 1) await postgres.restart();
  }
  await run.finish();
}, 60_000);

async function openNormal({ kind, folder, clock }: Bench): Promise<Sink> {
  return await openSink({ ...kind.options(folder), durability: 'normal' }, { clock });
}

/** The server is killed behind the commit of this number, and comes back. */
function killingAfter(sink: Sink, number: number, postgres: PrivatePostgres): Sink {
  let commits = 0;
  return {
    ...sink,
    commit: async (lease, pages) => {
      const committed = await sink.commit(lease, pages);
      commits += 1;
      if (commits === number) await postgres.restart();
      return committed;
    },
  };
}

function rowsOf(table: EntityTable, stored: readonly JsonObject[]): ReadonlyMap<string, Row> {
  return byKey(
    table,
    stored.map((row) => ({
      columns: Object.fromEntries(table.columns.map(({ name }) => [name, row[name] ?? null])),
      extra: (row['_extra'] as JsonObject | null) ?? null,
    })),
  );
}

/* The server loses what it had in memory, and recovers from what it had written to the disk. */

async function begin(): Promise<{ readonly postgres: PrivatePostgres; readonly bench: Bench }> {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const bench = benchOfTest(await postgresSinkKindOn(postgres));
  return { postgres, bench };
}

// Proves promise 1.1
it('stores a page whose transaction was lost with the server, though another one has its number by now', async () => {
  const { postgres, bench } = await begin();
  const { proxy, sink } = await openBehindProxy(bench);
  const run = await PagedRun.begin(bench, sink);
  await run.store();
  await askPostgres(postgres.url, 'CREATE TABLE other (id xid8)', 'CHECKPOINT');
  let lost = 0;
  proxy.rule(() => ({
    fromClient: async (bytes) => {
      if (!isCommit(bytes) || lost > 0) return bytes.length;
      lost += 1;
      await postgres.restart();
      const taken = Array<string>(20).fill('INSERT INTO other VALUES (pg_current_xact_id())');
      await askPostgres(postgres.url, ...taken);
      return 0;
    },
    fromServer: ({ length }) => length,
  }));
  await run.store();
  expect(lost).toBe(1);
  proxy.rule(null);
  await run.finish();
}, 60_000);

describe('cut connections', () => {
  /* A connection that is cut at COMMIT says nothing of what became of the transaction. */

  const pages = repeats('TRIALS', { share: 20, full: 1_000 });

  async function begin(): Promise<{ readonly run: PagedRun; readonly proxy: PostgresProxy }> {
    // Of a write that is tried again: a cut costs a second of them.
    shortenWaits(0.02);
    const bench = benchOfTest(await postgresSinkKind());
    const { proxy, sink } = await openBehindProxy(bench);
    return { run: await PagedRun.begin(bench, sink), proxy };
  }

  // Proves promise 1.1
  it(
    'stores each page once, whether a COMMIT whose answer was lost had come through or not',
    async () => {
      const { run, proxy } = await begin();
      const random = seededRandom(startSeed());
      const cuts = { stored: 0, dropped: 0 };
      proxy.rule((): Passing => {
        let isAnswered = true;
        return {
          fromClient: (bytes) => {
            const chance = isCommit(bytes) ? random() : 1;
            if (chance < 0.25) {
              cuts.dropped += 1;
              return 0;
            }
            if (chance < 0.5) {
              cuts.stored += 1;
              isAnswered = false;
            }
            return bytes.length;
          },
          fromServer: ({ length }) => (isAnswered ? length : 0),
        };
      });
      for (let stored = 0; stored < pages; stored += 1) await run.store();
      proxy.rule(null);
      await run.finish();
      expect(Math.min(cuts.stored, cuts.dropped), 'both were tried').toBeGreaterThan(3);
    },
    60_000 + 1_000 * pages,
  );

  it(
    'stores each page once, wherever its connections are cut, also within a message',
    async () => {
      const { run, proxy } = await begin();
      const random = seededRandom(startSeed());
      let cuts = 0;
      proxy.rule((): Passing => {
        // What one page sends and is sent is some 10,000 bytes.
        const left = { client: Math.ceil(random() * 40_000), server: Math.ceil(random() * 40_000) };
        const passing = (side: 'client' | 'server') => (bytes: Buffer) => {
          const count = Math.min(bytes.length, left[side]);
          left[side] -= count;
          if (count < bytes.length) cuts += 1;
          return count;
        };
        return { fromClient: passing('client'), fromServer: passing('server') };
      });
      for (let stored = 0; stored < pages; stored += 1) await run.store();
      proxy.rule(null);
      await run.finish();
      expect(cuts).toBeGreaterThan(pages / 5);
    },
    60_000 + 1_000 * pages,
  );
});

describe('killed hosts', () => {
  const hosts = 3;
  const kills = repeats('KILLS', { share: 2, full: 300 });
  const seed = startSeed(7);

  interface Host {
    readonly child: ChildProcess;
    /** Of the lease that it was heard of with; 0: it waits for one. */
    epoch: number;
  }

  // Proves promise 1.1
  it(
    'loses, doubles and tears nothing when hosts that share a connector are killed one after the other, and a reader of its numbers misses nothing',
    async () => {
      const bench = benchOfTest(await postgresSinkKind());
      await (await bench.open())[Symbol.asyncDispose]();
      const told: Told[] = [];
      const begin = (): Host => {
        const host: Host = { child: startHost(bench, told), epoch: 0 };
        host.child.on('message', (message) => (host.epoch = (message as Told).epoch));
        return host;
      };
      const running = Array.from({ length: hosts }, begin);
      await until(() => told.length > 0);
      const reader = readOn(bench);

      const random = seededRandom(seed);
      const kill = async (host: Host): Promise<void> => {
        const gone = once(host.child, 'exit');
        host.child.kill('SIGKILL');
        await gone;
      };
      let ofHolders = 0;
      for (let killed = 0; killed < kills; killed += 1) {
        const enough = told.length + 1 + Math.floor(random() * 10);
        await until(() => told.length >= enough);
        await pause(random() * 50);
        const newest = Math.max(...running.map(({ epoch }) => epoch));
        const holder = running.findIndex(({ epoch }) => epoch === newest);
        // Most of the time the one that writes, otherwise one that waits or is only starting.
        const index = random() < 0.7 ? holder : Math.floor(random() * hosts);
        const host = running[index];
        if (host === undefined) throw new RangeError('a host should be running');
        if (index === holder) ofHolders += 1;
        await kill(host);
        running[index] = begin();
      }
      const before = told.length;
      await until(() => told.length > before);
      for (const host of running) await kill(host);
      const read = await reader.end();

      const rows = await bench.rows();
      const seqs = rows.map(({ _seq }) => Number(_seq)).toSorted((one, other) => one - other);
      console.log(
        `${kills} kills (seed ${seed}), ${ofHolders} of the host that wrote: ${rows.length} rows, of ${told.length} pages told; a reader saw ${read.length}`,
      );
      const keys = new Set(rows.map(({ id }) => Number(id)));
      const storedPages = Math.max(...told.map(({ page = 0 }) => page)) + 1;
      expect(rows.length, 'what was told is stored').toBeGreaterThanOrEqual(storedPages * rowsPerPage);
      expect(rows.length % rowsPerPage, 'no page torn').toBe(0);
      expect(
        Array.from({ length: rows.length }, (_, key) => key).filter((key) => !keys.has(key)),
        'none lost in between',
      ).toEqual([]);
      expect(new Set(seqs).size, 'no number twice').toBe(rows.length);
      expect(read, 'the reader saw each change, once').toEqual(seqs);
      const epochs = rows
        .toSorted((one, other) => Number(one['_seq']) - Number(other['_seq']))
        .map(({ _run_id: run }) => Number((run as string).slice(1)));
      expect(epochs, 'no holder that was overtaken has stored anything').toEqual(
        epochs.toSorted((one, other) => one - other),
      );
      expect(new Set(epochs).size, 'several took part').toBeGreaterThan(ofHolders / 2);
      const sums = 'sum(fetched)::integer AS fetched, sum(inserted)::integer AS inserted';
      expect(await bench.ledger(`SELECT ${sums} FROM _sync_counts`), 'no page twice').toEqual([
        { fetched: rows.length, inserted: rows.length },
      ]);
      const pagesTold = told.map((one) => one.page);
      expect(new Set(pagesTold).size, 'what was told is told once').toBe(pagesTold.length);
    },
    180_000 + 10_000 * kills,
  );

  /** Reads in plain SQL what is above the highest number that it has seen, again and again. */
  function readOn(bench: Bench): { readonly end: () => Promise<readonly number[]> } {
    const seen: number[] = [];
    let isOver = false;
    const reading = (async () => {
      for (;;) {
        const isLast = isOver;
        const found = await bench.ledger(
          `SELECT _seq::double precision AS seq FROM ${quoted(tableName(news, members))} WHERE _seq > ${seen.at(-1) ?? 0} ORDER BY _seq`,
        );
        seen.push(...found.map(({ seq }) => Number(seq)));
        if (isLast && found.length === 0) return seen;
        await pause(10);
      }
    })();
    // `end` reports a failure.
    reading.catch(() => undefined);
    return {
      end: async () => {
        isOver = true;
        return await reading;
      },
    };
  }
});

describe('full disk', () => {
  const rowsPerPage = 100;

  // Proves promise 1.1
  it('stops with SINK_FULL where the disk is full, keeps whole commits, and continues in the same process when there is room', async ({
    skip,
  }) => {
    const postgres = await startPostgres();
    onTestFinished(async () => await postgres.stop());
    const disk = join(postgres.data, '..', 'disk');
    using small = mountDisk(disk, '24m', skip);
    const bench = benchOfTest(await postgresSinkKindOn(postgres));
    if (process.getuid?.() === 0) chownSync(disk, 65_534, 65_534);
    // What is made from now on lies on this disk; the log of the server does not.
    const place = `CREATE TABLESPACE small LOCATION '${disk}'`;
    await askPostgres(postgres.url, place, 'ALTER ROLE sync SET default_tablespace = small');
    writeFileSync(join(disk, 'ballast'), Buffer.alloc(12 * 1_024 * 1_024));

    const { sink, started, commit } = await bench.walking();
    const random = seededRandom(1);
    const text = (): string => Array.from({ length: 200 }, () => random().toString(36).slice(2)).join('');
    const store = async (offset: number): Promise<unknown> => {
      const records = Array.from({ length: rowsPerPage }, (_, row) => member(String(offset + row), text()));
      const position = { kind: 'offset' as const, offset: offset + rowsPerPage };
      return (await commit(records, { position })).counts[0]?.counts;
    };
    const counted = { ...noCounts, fetched: rowsPerPage, inserted: rowsPerPage };
    let stored = 0;
    let full: unknown = null;
    while (full === null) {
      try {
        expect(await store(stored)).toEqual(counted);
        stored += rowsPerPage;
      } catch (error) {
        full = error;
      }
    }
    expect(full).toMatchObject({ code: 'SINK_FULL', recovery: 'retry' });
    expect(stored).toBeGreaterThan(0);
    await expect(store(stored), 'still').rejects.toMatchObject({ code: 'SINK_FULL' });
    expect(await bench.rows()).toHaveLength(stored);
    const [partition] = await sink.nextPartitions(started.lease, 1);
    expect(partition?.position, 'as of the last whole commit').toEqual({ kind: 'offset', offset: stored });
    small.free();
    expect(await store(stored)).toEqual(counted);
    expect(await bench.rows()).toHaveLength(stored + rowsPerPage);
  }, 120_000);
});
