import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { isLong, startSeed } from '../support/trials.ts';
import { compareSinks } from './compare-sinks.ts';
import { runSoak } from './run-soak.ts';
import { openSoakWorld } from './soak-world.ts';

const seed = startSeed();

// Proves promise 12
it.runIf(isLong)(
  `loses and duplicates no rows and overlaps no runs in a short soak (seed ${seed})`,
  async () => {
    const options = { durationMs: 8000, seed, connectors: 5, workers: 3 };
    const { wrong, faults, figures } = await runSoak({ ...options, tell: () => {} });
    console.log(figures);
    expect(wrong).toEqual([]);
    expect(faults).toBeGreaterThan(0);
  },
  180_000,
);

it.runIf(isLong)(
  'finds a missing row and a changed row in a sink',
  async () => {
    await using world = await openSoakWorld({ connectors: 2, seed: 1 });
    const sound = await compareSinks(world);
    expect(sound.rows).toBeGreaterThan(50);
    expect(sound).toEqual({ rows: sound.rows, missing: [], different: [], superfluous: [], doubled: [] });

    const file = world.sinks[1]?.ledger ?? '';
    const db = new Database(file);
    const keys = db.prepare<[], number>('SELECT rowid FROM soak_1__list_members LIMIT 2').pluck().all();
    db.prepare('DELETE FROM soak_1__list_members WHERE rowid = ?').run(keys[0]);
    db.prepare("UPDATE soak_1__list_members SET email_address = 'changed' WHERE rowid = ?").run(keys[1]);
    db.close();
    const harmed = await compareSinks(world);
    // The full read restores the missing row.
    expect(harmed).toMatchObject({ missing: [expect.any(String)], superfluous: [], doubled: [] });
    expect(harmed.different.length).toBeGreaterThan(0);
  },
  60_000,
);
