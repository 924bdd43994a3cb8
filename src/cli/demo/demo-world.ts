import { randomBytes } from 'node:crypto';
import { join, relative, resolve } from 'node:path';
import type { EndedRun } from '../../app/worker-runs.ts';
import { instant } from '../../core/clock.ts';
import { hasCode, type SyncError } from '../../core/errors.ts';
import type { ConnectorName } from '../../core/names.ts';
import { Secret } from '../../core/secret.ts';
import { usage } from '../../core/usage-error.ts';
import type { WorkerEvent } from '../../core/events.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../definitions/load-definitions.ts';
import type { RedisConnection } from '../../jobs/connect-redis.ts';
import { maxSampleRevision } from '../../sample/sample-values.ts';
import type { Service } from '../../service/start-service.ts';
import { loadSettings } from '../../settings/load-settings.ts';
import type { Settings } from '../../settings/settings.ts';
import { timeOfDay } from '../../telemetry/format.ts';
import { endText } from '../../wording/run-report-table.ts';
import { aborted, type CommandContext, wholeNumber } from '../command.ts';
import { logLevel, shellWord, stderrLog } from '../environment.ts';
import { registerSecrets } from '../load-config.ts';
import { type ExitCode, exitCodeOfReport, exitCodes, gravestExitCode } from '../output/exit-codes.ts';
import { writePrivateFile } from '../output/write-files.ts';

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

const cron = '*/5 * * * * *';
const runsOfEach = 3;

/** A worker as any other, in front of a person: ends by itself after three runs of each connector, or with Ctrl-C. */
export async function runScheduledDemo(context: CommandContext, flags: DemoFlags): Promise<ExitCode> {
  const { terminal, env, cwd } = context;
  const prefix = `connector-sync-demo-${randomBytes(4).toString('hex')}`;
  await using demo = await openDemo(context, flags);
  const { directory, service } = demo;
  terminal.note('Looking for Redis ...');
  await using redis = await findRedis(env, prefix);
  const settings = await demo.settings({ cron, prefix, redisUrl: redis.url });
  terminal.print(...introduction(settings, service.url, redis.origin));
  const ended = await watchRuns(context, settings);
  terminal.printJson({ kind: 'demo', database: join(directory, demoDatabase), runs: ended.length });
  terminal.print(...stepsAfter(context, relative(cwd, directory)));
  const codes = ended.map(({ report }) => exitCodeOfReport(report));
  return gravestExitCode(context.signal.aborted ? [...codes, exitCodes.interrupted] : codes);
}

/**
 * Resolves with the runs that ended, when there are enough of each connector and none is in progress, or at an
 * interrupt.
 */
async function watchRuns(context: CommandContext, settings: Settings): Promise<readonly EndedRun[]> {
  const { terminal, clock, signal } = context;
  const ended: EndedRun[] = [];
  const running = new Set<ConnectorName>();
  const seenEnough = new AbortController();
  const width = Math.max(...[...settings.connectors.keys()].map((name) => name.length));
  const tell = (name: ConnectorName, text: string): void =>
    terminal.print(`${timeOfDay(clock.now())}  ${name.padEnd(width)}  ${text}`);
  const endIfEnough = (): void => {
    if (running.size === 0 && hasEnough(settings, ended)) seenEnough.abort();
  };
  const observe = (event: WorkerEvent): void => {
    if (event.kind === 'tick') {
      terminal.printJson({ kind: 'tick', time: instant(clock.now()), connector: event.connector });
      tell(event.connector, 'schedule fired');
    }
    if (event.kind === 'job-started') running.add(event.connector);
    if (event.kind === 'job-ended') running.delete(event.connector);
    endIfEnough();
  };
  terminal.note('Starting the worker ...');
  const { startScheduledRuns } = await import('../../app/start-scheduled-runs.ts');
  const runs = await startScheduledRuns({
    settings,
    log: await stderrLog(context, 'error'),
    clock,
    command: 'connector-sync demo',
    identityBaseUrl: demoBaseUrl,
    observe,
    onRunEnd: (run) => {
      // What is broken off because enough was seen is no part of the show.
      if (seenEnough.signal.aborted || signal.aborted) return;
      ended.push(run);
      const { connector, report, next } = run;
      const nextAt = next === null ? null : instant(next);
      terminal.printJson({ kind: 'run-report', connector: connector.name, report, next: nextAt });
      tell(connector.name, `${endText(report)}${next === null ? '' : ` (next ${timeOfDay(next)})`}`);
      endIfEnough();
    },
  });
  try {
    await Promise.race([runs.ended, aborted(AbortSignal.any([signal, seenEnough.signal]))]);
  } finally {
    await runs.stop();
  }
  return ended;
}

function hasEnough({ connectors }: Settings, ended: readonly EndedRun[]): boolean {
  return [...connectors.keys()].every(
    (name) => ended.filter(({ connector }) => connector.name === name).length >= runsOfEach,
  );
}

function introduction(settings: Settings, url: string, redis: string): readonly string[] {
  return [
    `A local API with sample accounts serves at ${url}`,
    `Queues are in Redis and removed at the end: ${redis}`,
    `A worker syncs ${[...settings.connectors.keys()].join(' and ')} every five seconds (${cron}),`,
    `until each has run ${runsOfEach} times. Times are UTC; Ctrl-C stops it sooner.`,
    '',
  ];
}

function stepsAfter({ program }: CommandContext, directory: string): readonly string[] {
  const config = shellWord(join(directory, 'connector-sync.yaml'));
  return nextSteps([
    ['List these runs:', `${program} runs --config ${config}`],
    ['Show what they stored:', `${program} status --config ${config}`],
    [
      'List next and last runs (none next here: the worker of this demo has ended):',
      `${program} schedule list --config ${config}`,
    ],
    ['For your own connectors, write a config, then start a worker:', `${program} init`, `${program} worker`],
  ]);
}

export const localRedisUrl = 'redis://127.0.0.1:6379';

/**
 * One that answers, for keys that begin with the prefix, which are removed at the end: $REDIS_URL, else the usual port
 * of this machine. `origin`: for people, which one it is. Throws USAGE where there is none.
 */
export async function findRedis(
  env: Readonly<Record<string, string | undefined>>,
  prefix: string,
  localUrl = localRedisUrl,
) {
  const given = env['REDIS_URL'] ?? '';
  if (given !== '' && !URL.canParse(given)) {
    throw usage(`REDIS_URL: expected an address such as ${localRedisUrl}.`);
  }
  const candidates = [
    ...(given === '' ? [] : [{ url: new Secret(given), origin: '$REDIS_URL' }]),
    { url: new Secret(localUrl), origin: localUrl },
  ];
  for (const { url, origin } of candidates) {
    if (await answers(url, prefix)) {
      return { url, origin, [Symbol.asyncDispose]: () => removeKeys(url, prefix) };
    }
  }
  throw noRedis();
}

async function answers(url: Secret, prefix: string): Promise<boolean> {
  try {
    const connection = await connect(url, prefix);
    // One that wants a password answers the connection and nothing else.
    const answer = await connection.redis.ping().catch(() => null);
    connection.disconnect();
    return answer !== null;
  } catch (error) {
    if (hasCode(error, 'QUEUE_UNAVAILABLE')) return false;
    throw error;
  }
}

async function connect(url: Secret, prefix: string): Promise<RedisConnection> {
  // Loaded only here: the plain demo needs no Redis client.
  const { connectRedis } = await import('../../jobs/connect-redis.ts');
  return await connectRedis({ url, prefix }, { commandTimeout: 2000 });
}

async function removeKeys(url: Secret, prefix: string): Promise<void> {
  const connection = await connect(url, prefix);
  const { redis } = connection;
  try {
    let cursor = '0';
    do {
      const [next, keys] = await redis.scan(cursor, 'MATCH', `${prefix}:*`, 'COUNT', 500);
      if (keys.length > 0) await redis.unlink(keys);
      cursor = next;
    } while (cursor !== '0');
  } finally {
    connection.disconnect();
  }
}

function noRedis(): SyncError {
  return usage(
    [
      `Schedules need Redis, and none answers at $REDIS_URL or ${localRedisUrl}. Install and start one:`,
      '  apt-get install redis-server          on Debian and Ubuntu',
      '  brew install redis                    on macOS',
      '  docker run -p 6379:6379 redis         anywhere with Docker',
      'then run the same command again.',
    ].join('\n'),
  );
}
