import { writeFileSync } from 'node:fs';
import path from 'node:path';
import pg from 'pg';
import { expect } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import type { EntityTable } from '../../src/core/records.ts';
import { tableName } from '../../src/sinks/postgres/records/names.ts';
import { quoted } from '../../src/sql/quoted.ts';
import { readText } from '../../src/sql/postgres/text.ts';
import { keyOf, type Row } from '../support/expected-rows.ts';
import { it } from '../support/it.ts';
import { killedSync } from '../support/killed-sync.ts';
import { startPostgres } from '../support/postgres.ts';
import {
  builtInDefinition,
  sampleConnectors,
  startSampleService,
  storedByDefault,
} from '../support/sample-service.ts';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { testCredentials } from '../support/sync-once.ts';
import { hasMoreKills, repeats, startSeed } from '../support/trials.ts';

const kills = repeats('KILLS', { share: 3, full: 100 });
const seed = startSeed();
const schema = 'warehouse';

/* As `kill-at-random.test.ts` for file sinks. Here the database itself dies too, in every third round. */

it.runIf(hasMoreKills)(
  `loses, duplicates and tears nothing of what is synced into PostgreSQL (${kills} kills, seed ${seed})`,
  async ({ folder }) => {
    await using postgres = await startPostgres();
    const service = await startSampleService('small', { latencyMs: 3 });
    try {
      const config = path.join(folder, 'config.yaml');
      const connectors = sampleConnectors.map(
        ([id, definition]) =>
          `  ${definition}: { definition: ${definition}, id: ${id}, sink: test, concurrency: 4, rateLimit: { requestsPerSecond: 1000 } }`,
      );
      writeFileSync(
        config,
        [
          `api: { baseUrl: "${service.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }`,
          `sinks: { test: { type: postgres, url: "${postgres.url}", schema: ${schema} } }`,
          'connectors:',
          ...connectors,
        ].join('\n'),
      );
      const random = seededRandom(seed);
      for (let done = 0, round = 0; done < kills; round += 1) {
        for (const [, connector] of sampleConnectors) {
          const { code, stderr } = await killedSync(config, connector, [], 100 + random() * 400);
          if (code === null) done += 1;
          else expect({ code, stderr, seed }).toEqual({ code: 0, stderr, seed });
        }
        if (round % 3 === 2) await postgres.restart();
      }
      for (const [, connector] of sampleConnectors) {
        const { code, stderr } = await killedSync(config, connector, [], null);
        expect({ code, stderr, seed }).toEqual({ code: 0, stderr, seed });
        const definition = builtInDefinition(connector);
        const tables = [...definition.entities.values()].flatMap(({ table, explodedTable }) =>
          explodedTable === null ? [table] : [table, explodedTable],
        );
        const stored = await readRows(postgres.url, connector, tables);
        const differences = differencesFrom(
          storedByDefault(connector, 'small'),
          definition,
          ({ entity }) => stored.get(entity) ?? new Map<string, Row>(),
        );
        expect({ seed, connector, ...differences }).toEqual({ seed, connector, ...noDifferences });
      }
    } finally {
      await service.close();
    }
  },
  400_000,
);

/** Live rows by entity, as SQL finds them. */
async function readRows(
  url: string,
  connector: string,
  tables: readonly EntityTable[],
): Promise<ReadonlyMap<string, ReadonlyMap<string, Row>>> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const byEntity = new Map<string, ReadonlyMap<string, Row>>();
    for (const table of tables) {
      const { rows } = await client.query<Record<string, unknown>>(
        `SELECT * FROM ${schema}.${quoted(tableName(connector, table.entity))} WHERE _deleted_at IS NULL`,
      );
      const read = rows.map((row): Row => ({
        columns: Object.fromEntries(table.columns.map(({ name, type }) => [name, cell(type, row[name])])),
        extra: (row['_extra'] ?? null) as JsonObject | null,
      }));
      byEntity.set(table.entity, new Map(read.map((row) => [keyOf(table, row), row])));
    }
    return byEntity;
  } finally {
    await client.end();
  }
}

function cell(type: string, value: unknown): JsonValue {
  if (typeof value === 'string') return type === 'integer' ? Number(value) : readText(value);
  return value as JsonValue;
}
