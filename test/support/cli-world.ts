import { join } from 'node:path';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { revisingAccount, type RevisingAccount } from './revising-account.ts';
import type { SampleAccount, SampleSize } from '../../src/sample/sample-account.ts';
import { serveSamples } from './serve-samples.ts';
import { cliSecret } from './cli-config.ts';
import { newFolder, openProgram } from './program.ts';
import { sampleSinkOf, type SampleSinkType } from './sample-sinks.ts';

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

export type CliWorld = Awaited<ReturnType<typeof openCliWorld>>;

const cliWorldSeed = 5;

/** A local service whose accounts can be moved from revision to revision, a config for it, and the program. */
export async function openCliWorld(options: CliWorldOptions = {}) {
  const { sink = 'sqlite', size = 'tiny', latencyMs = 0, wrap, settings = '', redisUrl } = options;
  const folder = newFolder();
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
    ...(options.isIndexed === true ? { data: join(folder, 'serve') } : {}),
    accounts: [
      {
        ...served,
        connectorId: 'c-news',
        definitionName: 'email-marketing',
        account: newsletter,
        ...(wrap === undefined ? {} : { wrap }),
      },
      { ...served, connectorId: 'c-wiki', definitionName: 'workspace-notes', account: wiki },
    ],
  });
  const program = openProgram(
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
    { env: { SECRET: cliSecret }, folder },
  );
  return {
    ...program,
    service,
    newsletter,
    wiki,
    moveTo: (revision: number) => {
      newsletter.moveTo(revision);
      wiki.moveTo(revision);
    },
    [Symbol.asyncDispose]: async () => {
      await service.close();
      await program[Symbol.asyncDispose]();
    },
  };
}

async function settingsOf(type: SampleSinkType, folder: string): Promise<string> {
  if (type === 'postgres') return JSON.stringify((await sampleSinkOf(type)).settings(folder));
  const place = type === 'sqlite' ? 'path: ./main.db' : 'directory: ./main';
  return `{ type: ${type}, ${place}, durability: normal }`;
}
