import pg from 'pg';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { accessSink } from '../../../src/sinks/registry.ts';
import { member, page, sealed } from '../../contracts/sink/fixture.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { testProgram } from '../../support/ensure-built.ts';
import { sharedPostgres } from '../../support/postgres.ts';
import { startScript } from '../../support/run-cli.ts';
import { lastStep } from '../../support/sinks/made-up-versions.ts';

/* No release has migrations yet: version 3 here is made up, and version 1 is what this program writes. */

const kind = await postgresSinkKind();
const { url } = await sharedPostgres();
const script = testProgram('sinks/postgres/migrating-process.mjs');
const bench = useBench(kind);

/** A sink of version 1 after one run of three members. */
beforeEach(async () => {
  const { sink, started, id } = await bench().walking();
  await sink.commit(started.lease, [
    page(
      started,
      id,
      ['1', '2', '3'].map((one) => member(one)),
      { seal: sealed },
    ),
  ]);
  await bench().closeSinks();
});

async function stored() {
  const [madeUp] = await bench().ledger("SELECT to_regclass('_sync_made_up')::text AS name");
  const [column] = await bench().ledger(
    "SELECT count(*) AS columns FROM pg_attribute WHERE attrelid = '_sync_runs'::regclass AND attname = 'made_up'",
  );
  return {
    version: (await bench().ledger('SELECT version FROM _sync_meta'))[0]?.['version'],
    rows: await bench().ledger('SELECT * FROM news__members ORDER BY _row'),
    madeUp: madeUp?.['name'] === null ? null : await bench().ledger('SELECT * FROM _sync_made_up'),
    columns: column?.['columns'],
  };
}

const migrated = { version: 3, madeUp: [{ connector: 'news', runs: 2 }], columns: 1 };
const migrate = () => startScript([script, JSON.stringify(kind.options(bench().folder))], bench().folder);

async function connected(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(async () => await client.end());
  return client;
}

// Proves promise 1.7
it('brings version 1 to a later one, with everything in it; version 1 of the program then refuses it', async () => {
  const before = await stored();
  expect(before).toMatchObject({ version: 1, madeUp: null, columns: 0 });
  expect(await migrate().result).toMatchObject({ code: 0, stderr: '' });
  expect(await stored()).toEqual({ ...before, ...migrated });
  await expect(bench().open()).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
});

// Proves promise 1.7
it.each(Array.from({ length: lastStep + 1 }, (_, step) => step))(
  'is of version 1, and whole, after a SIGKILL at step %i, and the next opening completes it',
  async (step) => {
    const before = await stored();
    const blocker = await connected();
    await blocker.query('SELECT pg_advisory_lock($1)', [41 + step]);
    const { child, result } = migrate();
    await vi.waitFor(async () => {
      const { rowCount } = await blocker.query(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted",
        [41 + step],
      );
      expect(rowCount).toBe(1);
    }, 20_000);
    child.kill('SIGKILL');
    await result;
    expect(await stored()).toEqual(before);
    await blocker.query('SELECT pg_advisory_unlock($1)', [41 + step]);
    expect(await migrate().result).toMatchObject({ code: 0, stderr: '' });
    expect(await stored()).toEqual({ ...before, ...migrated });
  },
);

// Proves promise 1.7
it('is migrated once by several processes that open it at the same time', async () => {
  const before = await stored();
  for (const { result } of Array.from({ length: 4 }, migrate)) {
    expect(await result).toMatchObject({ code: 0, stderr: '' });
  }
  expect(await stored()).toEqual({ ...before, ...migrated });
});

// Proves promise 1.7
it.each([0, 2, 5])('is refused with tables of version %i, and says what to do', async (version) => {
  await bench().ledger(`UPDATE _sync_meta SET version = ${version}`);
  const refused = {
    code: 'SINK_INCOMPATIBLE',
    message: expect.stringContaining(
      `expected tables of version 1, found version ${version}, which another connector-sync wrote. Nothing in it was changed. ` +
        'Use the connector-sync that wrote it. Or keep it, and sync into a new sink at another place',
    ) as string,
  };
  await expect(bench().open()).rejects.toMatchObject(refused);
  const access = accessSink(kind.options(bench().folder));
  await expect(access.openHistory()).rejects.toMatchObject(refused);
  await expect(access.openRecords()).rejects.toMatchObject(refused);
  expect(await bench().ledger('SELECT version FROM _sync_meta')).toEqual([{ version }]);
});
