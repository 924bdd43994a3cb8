import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { revisingAccount, type RevisingAccount } from './revising-account.ts';
import type { SampleAccount, SampleSize } from '../../src/sample/sample-account.ts';
import { serveSamples } from './serve-samples.ts';
import { cliSecret } from './cli-config.ts';
import { sampleSinkOf, type SampleSinkType } from './sample-sinks.ts';
import type { Service } from '../../src/service/start-service.ts';
import { callCli, jsonLines, type CliResult } from './run-cli.ts';

export interface CliWorldOptions {
  readonly sink?: SampleSinkType;
  /** Another sink instead, as YAML; what it names of the environment is not the world's to give. */
  readonly sinkSettings?: string;
  readonly size?: SampleSize;
  readonly latencyMs?: number;
  /** Stands between the service and the newsletter's account. */
  readonly wrap?: (account: SampleAccount) => SampleAccount;
  /** More of the newsletter's settings, as YAML below it. */
  readonly settings?: string;
  /** Of a Redis that workers share. */
  readonly redisUrl?: string;
  /** The service keeps indexed stores, below `serve` in the folder of the world. */
  readonly isIndexed?: boolean;
}

/** A local service whose accounts can be moved from revision to revision, a config for it, and the program. */
export interface CliWorld extends AsyncDisposable {
  readonly folder: string;
  readonly config: string;
  readonly env: Readonly<Record<string, string>>;
  readonly service: Service;
  readonly newsletter: RevisingAccount;
  readonly wiki: RevisingAccount;
  moveTo(revision: number): void;
  cli(...args: readonly string[]): Promise<CliResult>;
  /** The lines of standard output as JSON, of a command that must end with 0. */
  json(...args: readonly string[]): Promise<readonly Record<string, unknown>[]>;
}

export const cliWorldSeed = 5;

export async function openCliWorld(options: CliWorldOptions = {}): Promise<CliWorld> {
  const {
    sink = 'sqlite',
    size = 'tiny',
    latencyMs = 0,
    wrap = (account) => account,
    settings = '',
    redisUrl,
    isIndexed = false,
  } = options;
  const folder = mkdtempSync(join(tmpdir(), 'cli-'));
  const sinkSettings = options.sinkSettings ?? (await settingsOf(sink, folder));
  const account = (definitionName: string): RevisingAccount =>
    revisingAccount({ definitionName, seed: cliWorldSeed, size });
  const [newsletter, wiki] = [account('email-marketing'), account('workspace-notes')];
  const served = { workspace: 'default', seed: cliWorldSeed, size };
  const service = await serveSamples({
    port: 0,
    clientId: 'local',
    clientSecret: cliSecret,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    latencyMs,
    ...(isIndexed ? { data: join(folder, 'serve') } : {}),
    accounts: [
      { ...served, connectorId: 'c-news', definitionName: 'email-marketing', account: newsletter, wrap },
      { ...served, connectorId: 'c-wiki', definitionName: 'workspace-notes', account: wiki },
    ],
  });
  const config = join(folder, 'sync.yaml');
  writeFileSync(
    config,
    `api: { baseUrl: "${service.url}", clientId: local, clientSecret: "\${SECRET}" }
sinks: { main: ${sinkSettings} }
connectors:
  newsletter:
    definition: email-marketing
    id: c-news
    sink: main
    rateLimit: { requestsPerSecond: 1000 }
${settings}  wiki:
    definition: workspace-notes
    id: c-wiki
    sink: main
    rateLimit: { requestsPerSecond: 1000 }
${redisUrl === undefined ? '' : `redis: { url: "${redisUrl}" }\n`}`,
  );
  const env = { SECRET: cliSecret };
  const cli = (...args: readonly string[]): Promise<CliResult> =>
    callCli([...args, '--config', config], { cwd: folder, env });
  return {
    folder,
    config,
    env,
    service,
    newsletter,
    wiki,
    moveTo: (revision) => {
      newsletter.moveTo(revision);
      wiki.moveTo(revision);
    },
    cli,
    json: async (...args) => {
      const result = await cli(...args, '--json');
      if (result.code !== 0) throw new Error(`ended with ${result.code}: ${result.stdout}${result.stderr}`);
      return jsonLines(result);
    },
    [Symbol.asyncDispose]: async () => {
      await service.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function settingsOf(type: SampleSinkType, folder: string): Promise<string> {
  if (type === 'postgres') return JSON.stringify((await sampleSinkOf(type)).settings(folder));
  const place = type === 'sqlite' ? 'path: ./main.db' : 'directory: ./main';
  return `{ type: ${type}, ${place}, durability: normal }`;
}
