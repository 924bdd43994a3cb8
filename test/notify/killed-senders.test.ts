import Database from 'better-sqlite3';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { testProgram } from '../support/ensure-built.ts';
import { notifySettings } from '../support/notify/notify-settings.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

const kills = repeats('KILLS', { share: 3, full: 100 });
const mostMs = 60;

// Proves promise 12.3
it(
  `loses no message over ${kills} kills, and repeats one only where its answer was lost`,
  async () => {
    await using to = await startReceiver();
    const { file, folder } = notifySettings([`ops: { type: webhook, url: "${to.url}" }`], {
      allow: [to.host],
    });
    /** The first column of the first row, of a statement that has some. */
    const ask = (sql: string): unknown => {
      const db = new Database(join(folder, 'main.db'));
      try {
        const statement = db.prepare<[]>(sql);
        return statement.reader ? statement.pluck().get() : statement.run();
      } finally {
        db.close();
      }
    };
    const acknowledged = join(folder, 'acknowledged');
    const random = seededRandom(startSeed());
    const start = (mode: string) =>
      fork(testProgram('notify/telling-process.mjs'), [file, acknowledged, mode]);
    for (let kill = 0; kill < kills; kill += 1) {
      const child = start('');
      await once(child, 'message');
      const before = to.received.length;
      // Some in front of the first message, some while one is on its way.
      if (kill % 3 > 0) await to.arrived(before + 1 + Math.floor(random() * 3));
      await new Promise((resolve) => {
        setTimeout(resolve, random() * mostMs);
      });
      child.kill('SIGKILL');
      await once(child, 'exit');
      freeClaims(ask);
    }
    // Each sends for ten seconds at most.
    do {
      const [code] = (await once(start('drain'), 'exit')) as [number | null];
      expect(code).toBe(0);
    } while (Number(ask('SELECT count(*) FROM _sync_outbox')) > 0);
    const ids = to.bodies().map(({ id }) => String(id));
    const firsts = to.bodies().filter(({ id }, index) => ids.indexOf(String(id)) === index);
    // In order and without a gap: each failure is followed by its end, and the last one is the end.
    expect(firsts.map(({ kind }) => kind)).toEqual(
      firsts.map((_, index) => (index % 2 === 0 ? 'publication-failed' : 'recovered')),
    );
    expect(firsts.at(-1)?.['kind'] ?? 'recovered').toBe('recovered');
    // Where one was killed behind a failure, the next one's is no change.
    const ends = existsSync(acknowledged) ? readFileSync(acknowledged, 'utf8').trim().split('\n') : [];
    const stored = ends.filter((end, index) => end !== ends[index - 1]).length;
    expect(firsts.length).toBeGreaterThanOrEqual(stored);
    // One kill interrupts one message, which comes again at once: nothing else is in between.
    const repeated = ids.flatMap((id, index) => (ids.indexOf(id) === index ? [] : [index]));
    expect(repeated.length).toBeLessThanOrEqual(kills);
    for (const index of repeated) expect(ids[index - 1]).toBe(ids[index]);
  },
  120_000 + kills * 40_000,
);

/** What a killed sender had claimed would be free after thirty seconds. One may be killed before it makes the sink. */
function freeClaims(ask: (sql: string) => unknown): void {
  try {
    ask('UPDATE _sync_outbox SET claimed_until_ms = 0');
  } catch (error) {
    if (!/no such table/.test(String(error))) throw error;
  }
}
