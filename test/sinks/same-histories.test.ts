import { afterEach, describe, expect, it } from 'vitest';
import { postgresSinkKind } from '../contracts/postgres-sink-kind.ts';
import { sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';
import { Bench } from '../contracts/sink/fixture.ts';
import { History } from '../support/histories/history.ts';
import { storedState } from '../support/histories/stored-state.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

const histories = repeats('TRIALS', { share: 1, full: 1_000 });
const seed = startSeed(1);
const runsEach = 8;

describe('random histories', () => {
  const open: Bench[] = [];
  afterEach(async () => {
    for (const bench of open.splice(0)) await bench.close();
  });

  it(
    `leave the same rows, partitions, missing rows and reports in SQLite and PostgreSQL (${histories} histories, seed ${seed})`,
    { timeout: 60_000 + 20_000 * histories },
    async () => {
      const kinds = [sqliteKind, await postgresSinkKind()];
      for (let number = 0; number < histories; number += 1) {
        const benches = kinds.map((kind) => new Bench(kind));
        open.push(...benches);
        const history = await History.begin(seededRandom(seed * 1_000_003 + number), benches);
        for (let run = 0; run < runsEach; run += 1) {
          try {
            await history.run();
            const [expected, ...found] = await Promise.all(
              benches.map(async (bench) => await storedState(bench)),
            );
            for (const one of found) expect(one).toEqual(expected);
            const [derived, ...others] = await Promise.all(benches.map(derivedColumns));
            for (const one of others) expect(one).toEqual(derived);
          } catch (error) {
            console.log(
              `history ${number} of seed ${seed}, run ${run}: ${history.steps.slice(-30).join(', ')}`,
            );
            throw error;
          }
        }
        for (const bench of open.splice(0)) await bench.close();
      }
    },
  );
});

/** What is derived from other columns, and is stored because rules ask for it. */
async function derivedColumns(bench: Bench): Promise<unknown> {
  return await Promise.all(
    [
      'entity, name, last_row FROM _sync_tables ORDER BY entity',
      'run, resume_at FROM _sync_runs ORDER BY run',
      'run, entity, depth_limited FROM _sync_counts ORDER BY run, entity',
      `entity, params, backfill, params_hash, parent_hash, failure_code, last_page_size, last_page_records
       FROM _sync_partitions ORDER BY entity, params, backfill`,
      'key, key_hash FROM _sync_downloads ORDER BY entity, key',
    ].map(async (columns) => await bench.ledger(`SELECT ${columns}`)),
  );
}
