import { execFileSync } from 'node:child_process';
import { chownSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { noCounts } from '../../../src/core/records.ts';
import { mountDisk } from '../../contracts/file-sink/full-disk.ts';
import { postgresSinkKindOn } from '../../contracts/postgres-sink-kind.ts';
import { member } from '../../contracts/sink/fixture.ts';
import { startPostgres } from '../../support/postgres.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

const rowsPerPage = 100;

// Proves promise 1.1
it('stops with SINK_FULL where the disk is full, keeps whole commits, and continues in the same process when there is room', async ({
  skip,
}) => {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const disk = join(postgres.data, '..', 'disk');
  skip(!mountDisk(disk, '24m'), 'a tmpfs cannot be mounted here');
  onTestFinished(async () => {
    await postgres.kill();
    execFileSync('umount', [disk]);
  });
  const bench = benchOfTest(await postgresSinkKindOn(postgres));
  if (process.getuid?.() === 0) chownSync(disk, 65_534, 65_534);
  await storeOn(postgres.url, disk);
  const ballast = join(disk, 'ballast');
  writeFileSync(ballast, Buffer.alloc(12 * 1_024 * 1_024));

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
  rmSync(ballast);
  expect(await store(stored)).toEqual(counted);
  expect(await bench.rows()).toHaveLength(stored + rowsPerPage);
}, 120_000);

/** What is made from now on lies on this disk; the log of the server does not. */
async function storeOn(url: string, disk: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`CREATE TABLESPACE small LOCATION '${disk}'`);
  await client.query('ALTER ROLE sync SET default_tablespace = small');
  await client.end();
}
