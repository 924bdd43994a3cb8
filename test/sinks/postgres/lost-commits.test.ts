import { expect, onTestFinished } from 'vitest';
import { SyncError } from '../../../src/core/errors.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { EntityTable } from '../../../src/core/records.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import { postgresSinkKind, postgresSinkKindOn } from '../../contracts/postgres-sink-kind.ts';
import type { Bench } from '../../contracts/sink/fixture.ts';
import { identity, type SinkKind } from '../../contracts/sink/fixture.ts';
import type { Row } from '../../support/expected-rows.ts';
import { it } from '../../support/it.ts';
import { startPostgres, type PrivatePostgres } from '../../support/postgres.ts';
import { builtInDefinition, startSampleService, storedByDefault } from '../../support/sample-service.ts';
import { differencesFrom, noDifferences } from '../../support/sample-sinks.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { PagedRun, rowsPerPage } from '../../support/sinks/paged-run.ts';
import { byKey } from '../../support/stored-rows.ts';
import { chosenEntities, syncOnce } from '../../support/sync-once.ts';
import { isLong, repeats, startSeed } from '../../support/trials.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

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
  const bench = openBench(await postgresSinkKindOn(postgres));
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
  const bench = openBench(await postgresSinkKind());
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
  const bench = openBench(await postgresSinkKindOn(postgres));
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
  const bench = openBench(await postgresSinkKindOn(postgres));
  const run = await PagedRun.begin(bench, await bench.open());
  for (let stored = 0; stored < 4; stored += 1) {
    await run.store();
    if (stored % 2 === 1) await postgres.restart();
  }
  await run.finish();
}, 60_000);

function openBench(kind: SinkKind): Bench {
  const bench = benchOfTest(kind);
  return bench;
}

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
