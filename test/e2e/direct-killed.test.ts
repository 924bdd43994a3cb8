import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { openApp } from '../../src/app/open-app.ts';
import { systemClock } from '../../src/core/clock.ts';
import { readSettings, withParts } from '../../src/settings/load-settings.ts';
import type { Row } from '../support/expected-rows.ts';
import { killedSync } from '../support/killed-sync.ts';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { hasMoreKills, isLong, repeats, startSeed } from '../support/trials.ts';
import { openDirectWorld, worldRows } from '../support/upstream/direct-world.ts';
import { mailchimpWorld } from '../support/upstream/upstream-world.ts';

const kills = repeats('KILLS', { share: 1, full: 100 });
const revisions = repeats('RUNS', { share: 2, full: 10 });
const seed = startSeed();
const hourMs = 60 * 60 * 1000;

describe('a direct sync', () => {
  // Proves promise 1
  it.runIf(hasMoreKills)(
    `that is killed again and again loses and doubles nothing (${kills} kills, seed ${seed})`,
    async () => {
      await using world = await mailchimpWorld({ as: 'my-mail', size: isLong ? 'small' : 'tiny' });
      await using direct = openDirectWorld(world);
      const key = path.join(direct.folder, 'key');
      writeFileSync(key, direct.env['MY_API_KEY'] ?? '', { mode: 0o600 });
      const own = readFileSync(direct.config, 'utf8');
      writeFileSync(direct.config, own.replace('${MY_API_KEY}', '${file:./key}'));
      const random = seededRandom(seed);
      let isFull = false;
      for (let done = 0; done < kills;) {
        const flags = isFull ? ['--full'] : [];
        const { code, stderr } = await killedSync(direct.config, 'mine', flags, random() * 200);
        if (code === null) {
          done += 1;
          continue;
        }
        expect({ code, stderr, seed }).toEqual({ code: 0, stderr, seed });
        // What remains to read after a whole sync is too little for a kill.
        isFull = true;
      }
      const last = await killedSync(direct.config, 'mine', ['--full'], null);
      expect({ ...last, seed }).toMatchObject({ code: 0 });
      // Reading throws where a key stands twice.
      const found = differencesFrom(worldRows(world), world.definition, (table) => direct.stored(table));
      expect({ seed, ...found }).toEqual({ seed, ...noDifferences });
      const db = new Database(direct.database, { readonly: true });
      expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
      db.close();
    },
    1_200_000,
  );

  it(`equals the account after each of ${revisions} full reads of a changing account`, async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world, { more: 'guards: { maxDeleteShare: 1 }\n' });
    const settings = withParts(readSettings({ file: direct.config, env: direct.env }), 'access');
    const [mine] = settings.connectors.values();
    if (mine === undefined) throw new Error('expected a connector');
    let laterMs = 0;
    const clock = { ...systemClock, now: () => Date.now() + laterMs };
    await using app = await openApp({ settings, clock, command: 'a test' });
    const asked = { globs: { select: [], exclude: [] }, onEvent: () => undefined, run: { isFull: true } };
    const kept = new Map<string, Map<string, Row>>();
    for (let revision = 0; revision <= revisions; revision += 1) {
      world.moveTo(revision);
      const report = await app.sync(mine, { ...asked, signal: new AbortController().signal });
      expect({ revision, outcome: report.outcome, failures: report.failures }).toEqual({
        revision,
        outcome: 'ok',
        failures: [],
      });
      const truth = truthUntilNow(world, kept);
      const found = differencesFrom(truth, world.definition, (table) => direct.stored(table));
      expect({ revision, ...found }).toEqual({ revision, ...noDifferences });
      // Fields that change all the time are stored again after a day.
      laterMs += 25 * hourMs;
    }
  });
});

/** What happened once stays in the sink, also where the service no longer lists it. */
function truthUntilNow(
  world: Parameters<typeof worldRows>[0],
  kept: Map<string, Map<string, Row>>,
): ReturnType<typeof worldRows> {
  const lasting = [...world.definition.entities.values()].filter(({ deletes }) => deletes === 'never');
  const names = new Set<string>(
    lasting.flatMap(({ table, explodedTable }) => [
      table.entity,
      ...(explodedTable === null ? [] : [explodedTable.entity]),
    ]),
  );
  return new Map(
    [...worldRows(world)].map(([table, rows]) => {
      if (!names.has(table)) return [table, rows];
      const all = kept.get(table) ?? new Map<string, Row>();
      for (const [key, row] of rows) all.set(key, row);
      kept.set(table, all);
      return [table, all];
    }),
  );
}
