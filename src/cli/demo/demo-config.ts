import { randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { Secret } from '../../core/secret.ts';
import { usage } from '../../core/usage-error.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../definitions/load-definitions.ts';
import { maxSampleRevision } from '../../sample/sample-values.ts';
import type { Service } from '../../service/start-service.ts';
import { loadSettings } from '../../settings/load-settings.ts';
import type { Settings } from '../../settings/settings.ts';
import { logLevel } from '../environment.ts';
import { registerSecrets } from '../load-config.ts';
import { writePrivateFile } from '../output/write-files.ts';
import { type CommandContext, wholeNumber } from '../command.ts';

/**
 * Where the demo's records came from, whatever port it was this time: else a second run would meet another identity.
 */
export const demoBaseUrl = 'demo';
export const demoDatabase = 'demo.db';
/** The target of its publications, and the folder. */
export const demoParquet = 'parquet';

/** Environment through which the demo's own config gets what changes from run to run. */
const demoVariables = {
  url: 'CONNECTOR_SYNC_DEMO_URL',
  secret: 'CONNECTOR_SYNC_DEMO_SECRET',
} as const;

const accounts = [
  { connectorId: 'demo-newsletter', definitionName: 'email-marketing' },
  { connectorId: 'demo-wiki', definitionName: 'workspace-notes' },
] as const;

interface DemoSchedule {
  /** As a config file has it: six fields, seconds first. */
  readonly cron: string;
  /** Begins every key in Redis. */
  readonly prefix: string;
}

/** Limits are high because nothing else uses the local service. Without a schedule the file names no Redis. */
function demoConfigText(schedule: DemoSchedule | null): string {
  const publish = `publish:\n  ${demoParquet}: { type: files, directory: ./${demoParquet}, format: parquet }\n`;
  const redis =
    schedule === null
      ? ''
      : `redis: { url: "\${REDIS_URL:-redis://127.0.0.1:6379}", prefix: ${schedule.prefix} }\n`;
  const when = schedule === null ? '' : `    schedule: { cron: "${schedule.cron}" }\n`;
  return `# Written by "connector-sync demo". The service it reads from lives only while the demo runs:
# use this file with status, runs, check --help and the like, and sync with "connector-sync demo".
api:
  baseUrl: "\${${demoVariables.url}:-http://127.0.0.1:8787}"
  clientId: demo
  clientSecret: "\${${demoVariables.secret}:-not-running}"
${redis}sinks:
  demo: { type: sqlite, path: ./${demoDatabase}, durability: normal }
connectors:
  newsletter:
    definition: email-marketing
    id: demo-newsletter
    sink: demo
${when}    concurrency: 8
    rateLimit: { requestsPerSecond: 1000 }
  wiki:
    definition: workspace-notes
    id: demo-wiki
    sink: demo
${when}    concurrency: 8
    rateLimit: { requestsPerSecond: 1000 }
${schedule === null ? publish : ''}`;
}

export type DemoFlags = Readonly<Record<'directory' | 'port' | 'revision', string>>;

/**
 * The local service of the demo, with both sample accounts as so many days (`--revision`) have changed them. Throws
 * USAGE for a port that cannot be used.
 */
export async function openDemo(context: CommandContext, flags: DemoFlags) {
  logLevel(context.env);
  const revision = wholeNumber('--revision', flags.revision, maxSampleRevision);
  const directory = resolve(context.cwd, flags.directory);
  const secret = randomBytes(18).toString('base64url');
  context.terminal.note('Starting a local API with sample data ...');
  const service = await startService(flags.port, secret, revision);
  return {
    directory,
    service,
    revision,
    /**
     * Through a config file, as any other sync: what the demo shows is what the program does. Without a schedule no
     * Redis is used.
     */
    async settings(schedule: (DemoSchedule & { readonly redisUrl: Secret }) | null): Promise<Settings> {
      const file = join(directory, 'connector-sync.yaml');
      await writePrivateFile(file, demoConfigText(schedule), false);
      const env = {
        ...context.env,
        [demoVariables.url]: service.url,
        [demoVariables.secret]: secret,
        ...(schedule === null ? {} : { REDIS_URL: schedule.redisUrl.reveal() }),
      };
      const settings = loadSettings({ file, env });
      registerSecrets(settings, context.scrubber);
      return settings;
    },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

async function startService(portText: string, clientSecret: string, revision: number): Promise<Service> {
  const port = wholeNumber('--port', portText, 65_535);
  const { serveSamples } = await import('../../sample/sample-service.ts');
  return await serveSamples({
    port,
    clientId: 'demo',
    clientSecret,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: accounts.map((one) => ({ ...one, workspace: 'demo', seed: 1, size: 'small', revision })),
    otherwise: { size: 'tiny', seed: 1, revision },
  }).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) throw error;
    throw usage(`Port ${port} is taken by another program. Leave --port out for any free one.`);
  });
}

/** Below the results: what each command is for stands above it, side by side they would not fit a narrow terminal. */
export function nextSteps(steps: readonly (readonly string[])[]): readonly string[] {
  return [
    '',
    'Next:',
    ...steps.flatMap(([why, ...commands]) => [`  ${why}`, ...commands.map((one) => `    ${one}`)]),
  ];
}
