import { openTestSqlite } from '../../support/sql/databases.ts';
import { randomTurns } from '../../support/seeded-random.ts';

/*
 * Stores one group of rows after the other, each in a transaction of many statements that take a random turn of the
 * event loop, and tells its parent of each. Ends only by being killed.
 */

const file = process.argv[2] ?? '';
const delay = randomTurns(Number(process.argv[3]));
process.on('disconnect', () => process.exit(0));

const db = openTestSqlite(file, { delay });
for (;;) {
  const group = await db.transact(async (tx) => {
    const last = await tx.first<{ n: number }>('SELECT n FROM groups');
    const next = (last?.n ?? 0) + 1;
    for (let row = 0; row < 10; row += 1) {
      tx.put('INSERT INTO t (group_of, row) VALUES (:next, :row)', { next, row });
      if (row % 3 === 0) await tx.run('UPDATE groups SET n = n + 0');
    }
    await tx.run('UPDATE groups SET n = :next', { next });
    return next;
  });
  process.send?.(group);
}
