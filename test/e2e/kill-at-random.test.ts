import { writeFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import {
  builtInDefinition,
  sampleConnectors,
  startSampleService,
  storedByDefault,
} from '../support/sample-service.ts';
import { triedSampleSinks } from '../support/all-sample-sinks.ts';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import { killedSync } from '../support/killed-sync.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { testCredentials } from '../support/sync-once.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

const kills = repeats('KILLS', { share: 1, full: 200 });
const seed = startSeed();
const concurrency = 4;
const size = isLong ? 'small' : { members: 300 };
/** Of one walk: eight received and not yet stored, one asked for. */
const pagesInFlight = 9;

let service: Service;
let calls = 0;
/** Calls of a whole sync that is not killed, by connector: the same for every sink. */
const undisturbed = new Map<string, number>();

beforeEach(async () => {
  calls = 0;
  service = await startSampleService(size, {
    latencyMs: 3,
    wrap: (account) => ({
      list: (entity, params) => {
        calls += 1;
        return account.list(entity, params);
      },
      get: (entity, params) => account.get(entity, params),
    }),
  });
});

afterEach(() => service.close());

describe.each(triedSampleSinks)('a sync into %s that is killed again and again', (type, sink) => {
  // Proves promise 1
  it(`loses, duplicates and tears nothing, and fetches little twice (${kills} kills, seed ${seed})`, async ({
    folder,
  }) => {
    const random = seededRandom(seed);
    const connectors = sampleConnectors.filter(([id]) => isLong || id === 'mailing');
    const config = path.join(folder, 'config.yaml');
    const { path: file } = { path: undefined, ...sink.settings(folder) };
    const entries = connectors.map(
      ([id, definition]) =>
        `  ${definition}: { definition: ${definition}, id: ${id}, sink: test, concurrency: ${concurrency}, rateLimit: { requestsPerSecond: 1000 } }`,
    );
    writeFileSync(
      config,
      [
        `api: { baseUrl: "${service.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }`,
        `sinks: { test: ${JSON.stringify(sink.settings(folder))} }`,
        `connectors:`,
        ...entries,
      ].join('\n'),
    );
    const phases = new Map<string, number>();
    /** Calls and kills since the connector's work last started from the beginning. */
    const chain = new Map<string, { calls: number; kills: number }>();
    const firstChain = new Map<string, { calls: number; kills: number }>();

    for (let done = 0; done < kills;) {
      for (const [, connector] of connectors) {
        const before = calls;
        const { code, phase, stderr } = await killedSync(config, connector, [], random() * 90);
        const so = chain.get(connector) ?? { calls: 0, kills: 0 };
        so.calls += calls - before;
        chain.set(connector, so);
        if (code === null) {
          done += 1;
          so.kills += 1;
          phases.set(phase, (phases.get(phase) ?? 0) + 1);
        } else {
          expect({ code, stderr, seed }).toEqual({ code: 0, stderr, seed });
          if (!firstChain.has(connector)) firstChain.set(connector, so);
          chain.delete(connector);
        }
      }
    }
    for (const [, connector] of connectors) {
      const before = calls;
      const { code, stderr } = await killedSync(config, connector, [], null);
      expect({ code, stderr, seed }).toEqual({ code: 0, stderr, seed });
      const so = chain.get(connector) ?? { calls: 0, kills: 0 };
      so.calls += calls - before;
      if (!firstChain.has(connector)) firstChain.set(connector, so);

      const definition = builtInDefinition(connector);
      const differences = differencesFrom(storedByDefault(connector, size), definition, (table) =>
        sink.rows(folder, connector, table),
      );
      expect({ seed, connector, ...differences }).toEqual({ seed, connector, ...noDifferences });
      if (undisturbed.has(connector)) continue;
      const beforeAnother = calls;
      await killedSync(config, connector, ['--full'], null);
      undisturbed.set(connector, calls - beforeAnother);
    }
    if (file !== undefined) {
      const db = new Database(file, { readonly: true });
      expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
      db.close();
    }
    for (const [connector, { calls: used, kills: survived }] of firstChain) {
      const allowed = 1.1 * (undisturbed.get(connector) ?? 0) + survived * pagesInFlight * concurrency;
      console.log(
        `${type} ${connector}: ${used} calls over ${survived} kills, undisturbed ${undisturbed.get(connector)}`,
      );
      expect({ seed, connector, tooMany: Math.max(0, Math.ceil(used - allowed)) }).toEqual({
        seed,
        connector,
        tooMany: 0,
      });
    }
    console.log(
      `${type}: killed after ${[...phases].map(([phase, times]) => `${phase} ${times}`).join(', ')} (seed ${seed})`,
    );
  }, 400_000);
});
