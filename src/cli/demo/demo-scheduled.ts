import { randomBytes } from 'node:crypto';
import { join, relative } from 'node:path';
import type { EndedRun } from '../../app/worker-runs.ts';
import { instant } from '../../core/clock.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { WorkerEvent } from '../../core/events.ts';
import type { Settings } from '../../settings/settings.ts';
import { timeOfDay } from '../../telemetry/format.ts';
import type { CommandContext } from '../command.ts';
import { stderrLog, shellWord } from '../environment.ts';
import { findRedis } from '../find-redis.ts';
import { exitCodeOfReport, exitCodes, gravestExitCode, type ExitCode } from '../output/exit-codes.ts';
import { endText } from '../../wording/run-report-table.ts';
import { aborted } from '../watch-interrupts.ts';
import { type DemoFlags, openDemo, demoBaseUrl, demoDatabase, nextSteps } from './demo-config.ts';

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
