import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { serveSamples } from '../support/serve-samples.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import type { sampleSinks } from '../support/sample-sinks.ts';
import { testCredentials } from '../support/sync-once.ts';
import { startFaultyApi, type FaultyApi } from './faulty-api.ts';
import { makeAccounts, timeAt, type SoakAccount } from './soak-accounts.ts';
import { openSmallDisk, type SmallDisk } from './small-disk.ts';

export interface SoakSink {
  readonly name: string;
  readonly type: keyof typeof sampleSinks;
  readonly folder: string;
  /** The SQLite file with the ledger. */
  readonly ledger: string;
}

export interface SoakConnector extends SoakAccount {
  readonly sink: SoakSink;
}

export interface SoakWorld extends AsyncDisposable {
  readonly folder: string;
  readonly config: string;
  readonly env: Readonly<Record<string, string>>;
  readonly api: FaultyApi;
  readonly redis: PrivateRedis;
  readonly connectors: readonly SoakConnector[];
  readonly sinks: readonly SoakSink[];
  readonly disk: SmallDisk;
}

const redisPassword = 'redis-password-of-the-soak';

/**
 * What the workers of a soak need: an API that can fail, a Redis, five sinks (one of them on a separate disk) and a
 * config.
 */
export async function openSoakWorld(options: {
  readonly connectors: number;
  readonly seed: number;
}): Promise<SoakWorld> {
  const folder = mkdtempSync(path.join(tmpdir(), 'soak-'));
  const opened: (() => Promise<void>)[] = [async () => rmSync(folder, { recursive: true, force: true })];
  const close = async (): Promise<void> => {
    for (let next = opened.pop(); next !== undefined; next = opened.pop()) await next();
  };
  try {
    const disk = openSmallDisk(path.join(folder, 'disk'));
    opened.push(async () => disk[Symbol.dispose]());
    const sinks = makeSinks(folder);
    const connectors = makeAccounts(options.connectors, options.seed).map((account, index) => ({
      ...account,
      sink: sinks[index % sinks.length] ?? sinks[0],
    }));
    const redis = await startRedis({ password: redisPassword, appendOnly: true });
    opened.push(async () => await redis.stop());
    const service = await serveSamples({
      port: 0,
      ...testCredentials,
      definitions: loadDefinitions([builtInDefinitionsFolder]),
      latencyMs: 5,
      // Three workers and the last syncs are one client here.
      limits: { requestsPerSecond: 100_000 },
      accounts: connectors.map(({ connectorId, definition, size, seed, account }) => ({
        connectorId,
        definitionName: definition.name,
        workspace: 'default',
        seed,
        size,
        account,
      })),
    });
    opened.push(async () => await service.close());
    const api = await startFaultyApi(service.url, timeAt(0));
    opened.push(async () => await api[Symbol.asyncDispose]());
    const config = path.join(folder, 'config.yaml');
    writeFileSync(config, configText(api.url, sinks, connectors));
    return {
      folder,
      config,
      env: { TEST_SECRET: testCredentials.clientSecret, TEST_REDIS: redis.url },
      api,
      redis,
      connectors,
      sinks,
      disk,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function makeSinks(folder: string): readonly [SoakSink, ...SoakSink[]] {
  const sink = (name: string, type: SoakSink['type']): SoakSink => {
    const own = path.join(folder, name);
    mkdirSync(own, { recursive: true });
    return {
      name,
      type,
      folder: own,
      ledger: path.join(own, type === 'sqlite' ? 'test.db' : path.join('lake', '_ledger.db')),
    };
  };
  return [
    sink('first', 'sqlite'),
    sink('second', 'sqlite'),
    sink('lines', 'jsonl'),
    sink('third', 'sqlite'),
    sink('disk', 'sqlite'),
  ];
}

function configText(url: string, sinks: readonly SoakSink[], connectors: readonly SoakConnector[]): string {
  return [
    `api: { baseUrl: "${url}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }`,
    `redis: { url: "\${TEST_REDIS}" }`,
    // Days of changes happen in seconds; the guards would count them as one day.
    'guards: { maxDeleteShare: 1 }',
    'sinks:',
    ...sinks.map(
      ({ name, type, folder }) =>
        `  ${name}: { type: ${type}, ${type === 'sqlite' ? `path: ${folder}/test.db` : `directory: ${folder}/lake`}, durability: normal }`,
    ),
    'connectors:',
    ...connectors.map(
      ({ connector, connectorId, definition, sink }, index) =>
        `  ${connector}: { definition: ${definition.name}, id: ${connectorId}, sink: ${sink.name}, rateLimit: { requestsPerSecond: 1000 }, schedule: { cron: "*/${5 + (index % 6)} * * * * *", jitter: 5s } }`,
    ),
    '',
  ].join('\n');
}
