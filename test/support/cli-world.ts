import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { revisingAccount, type RevisingAccount } from './revising-account.ts';
import type { SampleAccount, SampleSize } from '../../src/sample/sample-account.ts';
import { serveSamples, type SampleServer } from './serve-samples.ts';
import { newFolder, openProgram } from './program.ts';
import { sampleSinkOf, type SampleSinkType } from './sample-sinks.ts';

export const cliSecret = 'the-real-client-secret';

/** A third of the calls of all entities, and enough for most tests. */
const fewOfNewsletter = '    include: [lists, list_members, campaigns]\n';
const fewOfWiki = '    include: [users]\n';

export interface CliWorldOptions {
  readonly sink?: SampleSinkType;
  /** Another sink instead, as YAML; what it names of the environment is not the world's to give. */
  readonly sinkSettings?: string;
  readonly size?: SampleSize;
  readonly latencyMs?: number;
  /** Stands between the service and the newsletter's account. */
  readonly wrap?: (account: SampleAccount) => SampleAccount;
  /** More of the newsletter's settings, as YAML below it. Without `include` it reads three entities. */
  readonly settings?: string;
  /** Both connectors read all entities. */
  readonly isWhole?: boolean;
  /** Of a Redis that workers share. */
  readonly redisUrl?: string;
  /** The service keeps indexed stores, below `serve` in the folder of the world. */
  readonly isIndexed?: boolean;
}

export type CliWorld = Awaited<ReturnType<typeof openCliWorld>>;

const cliWorldSeed = 5;

/** A local service whose accounts can be moved from revision to revision, a config for it, and the program. */
export async function openCliWorld(options: CliWorldOptions = {}) {
  const { sink = 'sqlite', size = 'tiny', latencyMs = 0, wrap, redisUrl, isWhole = false } = options;
  const { settings = '' } = options;
  const few = isWhole || /clude:/.test(settings) ? '' : fewOfNewsletter;
  const folder = newFolder();
  const sinkSettings = options.sinkSettings ?? (await settingsOf(sink, folder));
  const account = (definitionName: string): RevisingAccount =>
    revisingAccount({ definitionName, seed: cliWorldSeed, size });
  const [newsletter, wiki] = [account('email-marketing'), account('workspace-notes')];
  const service = await startCliService({
    seed: cliWorldSeed,
    size,
    latencyMs,
    newsletter,
    wiki,
    ...(options.isIndexed === true ? { data: join(folder, 'serve') } : {}),
    ...(wrap === undefined ? {} : { wrap }),
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
${settings}${few}  wiki:
    definition: workspace-notes
    id: c-wiki
    sink: main
    rateLimit: { requestsPerSecond: 1000 }
${isWhole ? '' : fewOfWiki}${redisUrl === undefined ? '' : `redis: { url: "${redisUrl}" }\n`}`,
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

/** What stands behind the two connectors of the tests' configs. */
interface CliServiceOptions {
  readonly latencyMs?: number;
  readonly seed?: number;
  readonly size?: SampleSize;
  readonly port?: number;
  /** Makes the account of the newsletter behave otherwise. */
  readonly wrap?: (account: SampleAccount) => SampleAccount;
  /** Served instead of accounts that are made from seed and size. */
  readonly newsletter?: SampleAccount;
  readonly wiki?: SampleAccount;
  /** Where the service keeps indexed stores. */
  readonly data?: string;
}

/** Two sample accounts in workspace `default`: `c-news` and `c-wiki`. */
export function startCliService({
  seed = 1,
  size = 'tiny',
  port = 0,
  wrap = (account) => account,
  newsletter,
  wiki,
  ...options
}: CliServiceOptions = {}): Promise<SampleServer> {
  const account = (connectorId: string, definitionName: string, served?: SampleAccount) => ({
    connectorId,
    workspace: 'default',
    definitionName,
    seed,
    size,
    ...(served === undefined ? {} : { account: served }),
  });
  return serveSamples({
    port,
    clientId: 'local',
    clientSecret: cliSecret,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: [
      { ...account('c-news', 'email-marketing', newsletter), wrap },
      account('c-wiki', 'workspace-notes', wiki),
    ],
    ...options,
  });
}

export interface CliConfigOptions {
  /** The config's `redis.url` is then `${REDIS}`, for the environment to give. */
  readonly usesRedis?: boolean;
  /** As a config file says them: `{ every: 1h }`. */
  readonly schedules?: { readonly newsletter?: string; readonly wiki?: string };
  /** Both connectors read all entities. */
  readonly isWhole?: boolean;
  /** More of the file, below everything else. */
  readonly more?: string;
}

/** A config for that service, with the credentials in the environment. */
export async function writeCliConfig(
  folder: string,
  url: string,
  { usesRedis = false, schedules = {}, isWhole = false, more = '' }: CliConfigOptions = {},
): Promise<string> {
  const file = join(folder, 'sync.yaml');
  const redis = usesRedis ? 'redis: { url: "${REDIS}" }\n' : '';
  const schedule = (text: string | undefined): string =>
    text === undefined ? '' : `    schedule: ${text}\n`;
  await writeFile(
    file,
    `api: { baseUrl: "${url}", clientId: local, clientSecret: "\${SECRET}" }
sinks:
  main: { type: sqlite, path: ./main.db, durability: normal }
connectors:
  newsletter:
    definition: email-marketing
    id: c-news
    sink: main
${schedule(schedules.newsletter)}    rateLimit: { requestsPerSecond: 1000 }
${isWhole ? '' : fewOfNewsletter}  wiki:
    definition: workspace-notes
    workspace: default
    sink: main
${schedule(schedules.wiki)}${isWhole ? '' : fewOfWiki}    rateLimit: { requestsPerSecond: 1000 }
${redis}${more}`,
  );
  return file;
}
