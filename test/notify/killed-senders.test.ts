import Database from 'better-sqlite3';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { expect, it } from 'vitest';
import { testProgram } from '../support/ensure-built.ts';
import { notifySettings } from '../support/notify/notify-settings.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

const kills = repeats('KILLS', { share: 3, full: 100 });
const mostMs = 60;

/** What its config says, and a statement on its ledger: the first column of the first row, null where there is none. */
interface KilledSink {
  readonly settings: string;
  readonly ask: (folder: string, sql: string) => Promise<unknown>;
}

const sinks: Readonly<Record<'sqlite' | 'postgres', () => Promise<KilledSink>>> = {
  sqlite: () =>
    Promise.resolve({
      settings: '{ type: sqlite, path: ./main.db, durability: normal }',
      ask: async (folder, sql) => {
        const db = new Database(join(folder, 'main.db'));
        try {
          const statement = db.prepare<[]>(sql);
          return await Promise.resolve(statement.reader ? statement.pluck().get() : statement.run());
        } finally {
          db.close();
        }
      },
    }),
  postgres: async () => {
    const { url } = await sharedPostgres();
    return {
      settings: `{ type: postgres, url: "${url}", schema: killed_senders, durability: normal }`,
      ask: async (_folder, sql) => {
        const client = new pg.Client({ connectionString: url });
        await client.connect();
        try {
          await client.query('SET search_path = killed_senders');
          const { rows } = await client.query<unknown[]>({ text: sql, rowMode: 'array' });
          return rows[0]?.[0];
        } finally {
          await client.end();
        }
      },
    };
  },
};

// Proves promise 12.3
it.each(['sqlite', 'postgres'] as const)(
  `loses no message over ${kills} kills, and repeats one only where its answer was lost (%s)`,
  async (kind) => {
    const sink = await sinks[kind]();
    await using to = await startReceiver();
    const { file, folder } = notifySettings([`ops: { type: webhook, url: "${to.url}" }`], {
      allow: [to.host],
      sink: sink.settings,
    });
    const ask = async (sql: string): Promise<unknown> => await sink.ask(folder, sql);
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
      await freeClaims(ask);
    }
    // Each sends for ten seconds at most.
    do {
      const [code] = (await once(start('drain'), 'exit')) as [number | null];
      expect(code).toBe(0);
    } while (Number(await ask('SELECT count(*) FROM _sync_outbox')) > 0);
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
async function freeClaims(ask: (sql: string) => Promise<unknown>): Promise<void> {
  try {
    await ask('UPDATE _sync_outbox SET claimed_until_ms = 0');
  } catch (error) {
    if (!/no such table|does not exist/.test(String(error))) throw error;
  }
}
