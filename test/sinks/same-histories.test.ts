import { afterEach, describe, expect, it } from 'vitest';
import { join } from 'node:path';
import { postgresSinkKind } from '../contracts/postgres-sink-kind.ts';
import { fileSinkKind } from '../contracts/file-sink/file-sink-kind.ts';
import { Bench } from '../contracts/sink/fixture.ts';
import { History } from '../support/histories/history.ts';
import { storedState } from '../support/histories/stored-state.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

const histories = repeats('TRIALS', { share: 2, full: 1_000 });
const seed = startSeed(1);
const runsEach = 8;

describe('random histories', () => {
  const open: Bench[] = [];
  afterEach(async () => {
    for (const bench of open.splice(0)) await bench.close();
  });

  it(
    `leave the same rows, partitions, missing rows and reports in SQLite and PostgreSQL (${histories} histories, seed ${seed})`,
    { timeout: 3_600_000 },
    async () => {
      const sqlite = fileSinkKind({
        options: (folder) => ({
          type: 'sqlite',
          name: 'warehouse',
          path: join(folder, 'warehouse.db'),
          durability: 'normal',
        }),
        ledgerFile: (folder) => join(folder, 'warehouse.db'),
      });
      const other = process.env['SAME'] === 'sqlite' ? sqlite : await postgresSinkKind();
      for (let number = 0; number < histories; number += 1) {
        const benches = [new Bench(sqlite), new Bench(other)];
        open.push(...benches);
        const history = await History.begin(seededRandom(seed * 1_000_003 + number), benches);
        for (let run = 0; run < runsEach; run += 1) {
          try {
            await history.run();
            const [expected, found] = await Promise.all(
              benches.map(async (bench) => await storedState(bench)),
            );
            expect(found).toEqual(expected);
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
