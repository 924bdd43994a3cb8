import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import type { Tx } from '../../../src/sql/database.ts';
import { testProgram } from '../../support/ensure-built.ts';
import { it } from '../../support/it.ts';
import { randomTurns, seededRandom } from '../../support/seeded-random.ts';
import { openTestSqlite, writerOf } from '../../support/sql/databases.ts';
import { repeats, startSeed } from '../../support/trials.ts';

/* A transaction that ends anywhere, by a kill or an error at any of its statements, leaves nothing behind. */

const program = testProgram('sql/sqlite/writing-process.mjs');
const kills = repeats('KILLS', { share: 4, full: 60 });
const seed = startSeed(3);

function makeTables(file: string): void {
  const db = writerOf(file);
  db.exec(`CREATE TABLE groups (n INTEGER); INSERT INTO groups VALUES (0);
    CREATE TABLE t (group_of INTEGER, row INTEGER, PRIMARY KEY (group_of, row))`);
  db.close();
}

it('leaves whole groups when its process is killed at any statement, and each that was reported as committed', async ({
  folder,
}) => {
  const file = join(folder, 'test.db');
  makeTables(file);
  const random = seededRandom(seed);
  let told = 0;
  for (let killed = 0; killed < kills; killed += 1) {
    const child = fork(program, [file, String(seed + killed)]);
    onTestFinished(() => void child.kill('SIGKILL'));
    child.on('message', (group) => (told = Number(group)));
    await once(child, 'message');
    await pause(random() * 60);
    child.kill('SIGKILL');
    await once(child, 'close');
    const db = writerOf(file);
    const groups = Number(db.prepare('SELECT n FROM groups').pluck().get());
    const torn = db.prepare('SELECT group_of FROM t GROUP BY group_of HAVING count(*) <> 10').all();
    const whole = Number(db.prepare('SELECT count(*) FROM t').pluck().get());
    expect({ torn, whole }, `kill ${killed} of seed ${seed}`).toEqual({ torn: [], whole: 10 * groups });
    expect(groups).toBeGreaterThanOrEqual(told);
    expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
    db.close();
  }
  expect(told).toBeGreaterThan(kills);
});

it('leaves nothing when it ends at any of its statements', async ({ folder }) => {
  const file = join(folder, 'test.db');
  makeTables(file);
  await using db = openTestSqlite(file, { delay: randomTurns(seed) });
  const statements = 8;
  const reason = new Error('aborted');
  for (let last = 0; last <= statements; last += 1) {
    const stop = new AbortController();
    const work = async (tx: Tx): Promise<void> => {
      for (let row = 0; row < statements; row += 1) {
        if (row === last) stop.abort(reason);
        tx.put('INSERT INTO t (group_of, row) VALUES (:last, :row)', { last, row });
        stop.signal.throwIfAborted();
        await tx.run('UPDATE groups SET n = n + 1');
      }
    };
    const done = await db.transact(work).then(
      () => null,
      (error: unknown) => error,
    );
    expect(done).toBe(last === statements ? null : reason);
    const stored = await db.read(
      async (tx) => await tx.first('SELECT n, (SELECT count(*) FROM t) AS rows FROM groups'),
    );
    expect(stored).toEqual(last === statements ? { n: statements, rows: statements } : { n: 0, rows: 0 });
  }
});
