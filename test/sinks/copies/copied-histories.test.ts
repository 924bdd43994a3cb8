import { afterEach, describe, expect, it } from 'vitest';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { Bench, identity, news, type SinkKind } from '../../contracts/sink/fixture.ts';
import { History } from '../../support/histories/history.ts';
import { storedState } from '../../support/histories/stored-state.ts';
import { tables } from '../../support/histories/world.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { beginAnother, copyNews } from '../../support/sinks/copying.ts';
import { repeats, startSeed } from '../../support/trials.ts';

const histories = repeats('TRIALS', { share: 1, full: 300 });
const seed = startSeed(1);

describe('a copied connector', () => {
  const open: Bench[] = [];
  afterEach(async () => {
    for (const bench of open.splice(0)) await bench.close();
  });

  const copy = async (from: Bench, to: Bench): Promise<void> => {
    const source = await from.open();
    await copyNews(source, await to.open());
    // They all continue, to be compared.
    await source.copies.reopen(news, identity().holder);
  };
  const begin = (kind: SinkKind): Bench => {
    const bench = new Bench(kind);
    open.push(bench);
    return bench;
  };

  // Proves promise 1.3
  it(
    `continues in the other sink as it would have in its own, from SQLite to PostgreSQL and back (${histories} histories, seed ${seed})`,
    { timeout: 3_600_000 },
    async () => {
      const postgres = await postgresSinkKind();
      for (let number = 0; number < histories; number += 1) {
        const random = seededRandom(seed * 1_000_003 + number);
        const own = begin(sqliteKind);
        const history = await History.begin(random, [own]);
        const runs = 1 + Math.floor(random() * 4);
        try {
          for (let run = 0; run < runs; run += 1) await history.run();
          await history.release();
          const [moved, back] = [begin(postgres), begin(sqliteKind)];
          // Numbers of runs and partitions are taken there.
          await beginAnother(moved);
          await beginAnother(back);
          for (const bench of [moved, back]) bench.clock.advance(own.clock.now() - bench.clock.now());
          const before = await storedState(own);
          await copy(own, moved);
          expect(await storedState(moved)).toEqual(before);
          expect(await changeNumbers(moved)).toEqual(await changeNumbers(own));
          await copy(moved, back);
          expect(await storedState(back)).toEqual(before);
          expect(await changeNumbers(back)).toEqual(await changeNumbers(own));
          expect(await seenRows(back)).toEqual(await seenRows(own));
          await history.goOnWith([own, moved, back]);
          for (let run = 0; run < runs; run += 1) {
            await history.run();
            const expected = await storedState(own);
            expect(await storedState(moved)).toEqual(expected);
            expect(await storedState(back)).toEqual(expected);
          }
        } catch (error) {
          console.log(`history ${number} of seed ${seed}: ${history.steps.slice(-30).join(', ')}`);
          throw error;
        }
        for (const bench of open.splice(0)) await bench.close();
      }
    },
  );
});

/** The newest number of every row. */
async function changeNumbers(bench: Bench): Promise<Readonly<Record<string, readonly unknown[]>>> {
  const declared = new Set(
    (await bench.ledger(`SELECT entity FROM _sync_tables WHERE connector = '${news}'`)).map(
      ({ entity }) => entity,
    ),
  );
  const numbers: Record<string, readonly unknown[]> = {};
  for (const { entity } of tables.filter((table) => declared.has(table.entity))) {
    numbers[entity] = await bench.ledger(`SELECT _row, _seq FROM news__${entity} ORDER BY _row`);
  }
  return numbers;
}

/** Which rows unfinished chains have met, by the runs that began them. */
async function seenRows(bench: Bench): Promise<readonly unknown[]> {
  return await bench.ledger(`SELECT run.run, seen.entity, seen.chunk, hex(seen.bits) AS bits
    FROM _sync_seen AS seen JOIN _sync_runs AS run ON run.number = seen.origin
    WHERE seen.connector = 'news' ORDER BY run.run, seen.entity, seen.chunk`);
}
