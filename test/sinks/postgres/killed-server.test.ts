import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Bench } from '../../contracts/sink/fixture.ts';
import { postgresSinkKindOn } from '../../contracts/postgres-sink-kind.ts';
import { isCommit, startPostgresProxy } from '../../support/postgres-proxy.ts';
import { startPostgres, type PrivatePostgres } from '../../support/postgres.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { atPort, PagedRun } from '../../support/sinks/paged-run.ts';
import { repeats, startSeed } from '../../support/trials.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

/* The server loses what it had in memory, and recovers from what it had written to the disk. */

async function begin(): Promise<{ readonly postgres: PrivatePostgres; readonly bench: Bench }> {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const bench = benchOfTest(await postgresSinkKindOn(postgres));
  return { postgres, bench };
}

const kills = repeats('KILLS', { share: 2, full: 100 });

// Proves promise 1.1
it(
  'resumes its run when the server is killed and comes back, again and again',
  async () => {
    const { postgres, bench } = await begin();
    const run = await PagedRun.begin(bench, await bench.open());
    const random = seededRandom(startSeed());
    let stored = 0;
    for (let killed = 0; killed < kills; killed += 1) {
      const again = (async () => {
        await pause(random() * 100);
        await postgres.restart();
        return 'again';
      })();
      while ((await Promise.race([again, pause(0)])) !== 'again') {
        await run.store();
        stored += 1;
      }
    }
    expect(stored, 'each kill hit a page').toBeGreaterThanOrEqual(kills);
    await run.finish();
  },
  60_000 + 10_000 * kills,
);

// Proves promise 1.1
it('stores a page whose transaction was lost with the server, though another one has its number by now', async () => {
  const { postgres, bench } = await begin();
  const proxy = await startPostgresProxy(postgres.port);
  onTestFinished(() => proxy.close());
  const sink = await openSink(atPort(bench, proxy.port), { clock: bench.clock });
  onTestFinished(async () => await sink[Symbol.asyncDispose]());
  const run = await PagedRun.begin(bench, sink);
  await run.store();
  await ask(postgres, ['CREATE TABLE other (id xid8)', 'CHECKPOINT']);
  let lost = 0;
  proxy.rule(() => ({
    fromClient: async (bytes) => {
      if (!isCommit(bytes) || lost > 0) return bytes.length;
      lost += 1;
      await postgres.restart();
      await ask(postgres, Array<string>(20).fill('INSERT INTO other VALUES (pg_current_xact_id())'));
      return 0;
    },
    fromServer: ({ length }) => length,
  }));
  await run.store();
  expect(lost).toBe(1);
  proxy.rule(null);
  await run.finish();
}, 60_000);

async function ask({ url }: PrivatePostgres, statements: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}
