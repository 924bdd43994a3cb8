import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { serveSamples, type SampleServer } from './serve-samples.ts';

export const cliSecret = 'the-real-client-secret';

/** Two tiny sample accounts in workspace `default`; `wrap` makes that of the newsletter behave otherwise. */
export function startCliService({
  seed = 1,
  port = 0,
  wrap,
  ...options
}: {
  readonly latencyMs?: number;
  readonly seed?: number;
  readonly port?: number;
  readonly wrap?: (account: SampleAccount) => SampleAccount;
} = {}): Promise<SampleServer> {
  return serveSamples({
    port,
    clientId: 'local',
    clientSecret: cliSecret,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: [
      {
        connectorId: 'c-news',
        workspace: 'default',
        definitionName: 'email-marketing',
        seed,
        size: 'tiny',
        ...(wrap === undefined ? {} : { wrap }),
      },
      {
        connectorId: 'c-wiki',
        workspace: 'default',
        definitionName: 'workspace-notes',
        seed,
        size: 'tiny',
      },
    ],
    ...options,
  });
}

export interface CliConfigOptions {
  /** The config's `redis.url` is then `${REDIS}`, for the environment to give. */
  readonly usesRedis?: boolean;
  /** As a config file says them: `{ every: 1h }`. */
  readonly schedules?: { readonly newsletter?: string; readonly wiki?: string };
  /** More of the file, below everything else. */
  readonly more?: string;
}

/**
 * A config for that service, with the credentials in the environment. The wiki reads its users only where it has a
 * schedule.
 */
export async function writeCliConfig(
  folder: string,
  url: string,
  { usesRedis = false, schedules = {}, more = '' }: CliConfigOptions = {},
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
  wiki:
    definition: workspace-notes
    workspace: default
    sink: main
${schedule(schedules.wiki)}${schedules.wiki === undefined ? '' : '    include: [users]\n'}    rateLimit: { requestsPerSecond: 1000 }
${redis}${more}`,
  );
  return file;
}
