import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import type { SampleSize } from '../../src/sample/sample-account.ts';
import { serveSamples } from './serve-samples.ts';
import { startRedis } from './redis.ts';
import { builtInDefinition, sampleSeed, storedByDefault } from './sample-service.ts';
import { differencesFrom, sampleSinkOf, type SampleSinkType } from './sample-sinks.ts';
import { testCredentials } from './sync-once.ts';
import { isLong } from './trials.ts';

export interface ScheduledConnector {
  readonly name: string;
  readonly definition: string;
  readonly size: SampleSize;
  /** As the config file says it: `{ cron: "*\/3 * * * * *" }`. */
  readonly schedule: string;
  /** The one named `test` unless another is asked for. */
  readonly sink?: string;
}

export type ScheduledWorld = Awaited<ReturnType<typeof openScheduledWorld>>;

/** What suites of workers run on that are about the worker more than about its sink. */
export const scheduledSinks: readonly SampleSinkType[] = isLong ? ['sqlite', 'postgres'] : ['sqlite'];

export const redisPassword = 'redis-password-of-this-test';

/**
 * A service with an account for each connector, a Redis, a SQLite sink and a config: all that workers need, and no
 * worker.
 */
export async function openScheduledWorld(options: {
  readonly connectors: readonly ScheduledConnector[];
  readonly latencyMs?: number;
  readonly concurrency?: number;
  readonly redis?: Parameters<typeof startRedis>[0];
  /** What all sinks are; SQLite unless asked. */
  readonly sinkType?: SampleSinkType;
}) {
  const { connectors, latencyMs = 5, concurrency = 4, sinkType = 'sqlite' } = options;
  const folder = mkdtempSync(path.join(tmpdir(), 'scheduled-'));
  const calls = new Map<string, number>();
  const redis = await startRedis({ ...options.redis, password: redisPassword });
  const service = await serveSamples({
    port: 0,
    ...testCredentials,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    latencyMs,
    accounts: connectors.map(({ name, definition, size }) => ({
      connectorId: `id-${name}`,
      definitionName: definition,
      workspace: 'default',
      seed: sampleSeed,
      size,
      wrap: (account) => ({
        ...account,
        list: (entity, params) => {
          calls.set(name, (calls.get(name) ?? 0) + 1);
          return account.list(entity, params);
        },
      }),
    })),
  });
  const config = path.join(folder, 'config.yaml');
  const sampleSink = await sampleSinkOf(sinkType);
  const folderOf = (sink = 'test'): string => (sink === 'test' ? folder : path.join(folder, sink));
  const sinks = [...new Set(connectors.map(({ sink = 'test' }) => sink))];
  writeFileSync(
    config,
    [
      `api: { baseUrl: "${service.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }`,
      `redis: { url: "\${TEST_REDIS}" }`,
      'sinks:',
      ...sinks.map((sink) => {
        return `  ${sink}: ${JSON.stringify(sampleSink.settings(folderOf(sink)))}`;
      }),
      'connectors:',
      ...connectors.map(
        ({ name, definition, schedule, sink = 'test' }) =>
          `  ${name}: { definition: ${definition}, id: id-${name}, sink: ${sink}, concurrency: ${concurrency}, rateLimit: { requestsPerSecond: 1000 }, schedule: ${schedule} }`,
      ),
      '',
    ].join('\n'),
  );
  return {
    folder,
    config,
    redis,
    service,
    /** What every process of the world gets as its environment. */
    env: {
      TEST_SECRET: testCredentials.clientSecret,
      TEST_REDIS: redis.url,
    },
    /** List calls that reached a connector's account. */
    calls: (connector: string) => calls.get(connector) ?? 0,
    /** What the sink holds of a connector, held against its account. */
    differences: (connector: string) => {
      const {
        definition = '',
        size = 'tiny',
        sink,
      } = connectors.find(({ name }) => name === connector) ?? {};
      return differencesFrom(storedByDefault(definition, size), builtInDefinition(definition), (table) =>
        sampleSink.rows(folderOf(sink), connector, table),
      );
    },
    /** What a statement on the ledger of the sink named `test` gives. */
    ledger: (sql: string) => sampleSink.ledger(folderOf(), sql),
    [Symbol.asyncDispose]: async () => {
      await service.close();
      await redis.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
