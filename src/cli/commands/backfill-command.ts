import type { RunEnd } from '../../app/app.ts';
import {
  finishedWindows,
  plannedBackfill,
  requestedEntities,
  runWindows,
  windowLengthExamples,
  instantExamples,
} from '../../app/backfill.ts';
import { openSharingApp } from '../../app/open-app.ts';
import { checkNotPaused, openQueuesOf, sinkIdOf } from '../../app/reach-queues.ts';
import { instant, timeMs } from '../../core/clock.ts';
import { addCounts, noCounts } from '../../core/records.ts';
import { usage } from '../../core/errors.ts';
import { type BackfillPlan, windowText } from '../../engine/plan-run.ts';
import { connectorNamed } from '../../settings/choices.ts';
import type { ConnectorSettings, LocalSettings, SettingsWith } from '../../settings/settings.ts';
import { withParts } from '../../settings/load-settings.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { toTheSecond, count, counted } from '../../telemetry/format.ts';
import { command, type CommandContext } from '../command.ts';
import { logLevel } from '../environment.ts';
import { exitCodeOfReport, exitCodes, gravestExitCode, type ExitCode } from '../output/exit-codes.ts';
import { endText } from '../../wording/run-report-table.ts';
import { showRun } from '../output/show-run.ts';
import { wrapped } from '../output/text-table.ts';
import { openPublicationsAfterSync } from './sync.ts';

export const backfill = command({
  argument: ['<connector>', 'its name in the config'],
  options: {
    '--select <glob...>': 'only entities that match (default: all that take a start and an end)',
    '--since <time>': { text: `start: ${instantExamples}; UTC unless it has an offset`, isRequired: true },
    '--until <time>': 'end, not included (default: the start of today, UTC)',
    '--window <length>': {
      text: `time span of one run: ${windowLengthExamples}; mo is a calendar month`,
      isRequired: true,
    },
    '--again': 'also read windows that are already done',
    '--queue': 'let the worker do it; syncs go first',
  },
  help: `
Each window is one run. Windows that are done are skipped, and one that was cut short is resumed:
after a stop, run the same command again.

Examples:
  $ connector-sync backfill newsletter --since 2024-01-01 --window 1mo
  $ connector-sync backfill newsletter --since 2024-01-01 --window 7d --queue`,
  run: async (context, flags, name) => {
    const settings = await context.settings();
    logLevel(context.env);
    const connector = connectorNamed(settings, name);
    // The day's start, so that the same command means the same all day, and resumes an earlier one; syncs read newer
    // records.
    const today = context.clock.now() - (context.clock.now() % 86_400_000);
    const request = {
      entities: requestedEntities(connector, flags.select),
      since: instant(timeOf('--since', flags.since)),
      until: instant(flags.until === undefined ? today : timeOf('--until', flags.until)),
      window: flags.window,
    };
    const plan = plannedBackfill(connector, request);
    if (flags.queue) {
      if (flags.again) {
        throw usage('--again and --queue: a worker skips windows that are done; use one of the two flags.');
      }
      return await queueBackfill(context, settings, connector, request);
    }
    const done = flags.again ? new Set<string>() : await finishedWindows(connector, plan);
    const left = plan.windows.filter((window) => !done.has(windowText(window)));
    const parts = withParts(settings, 'access', 'redis');
    context.terminal.print(
      `${name}: ${counted(left.length, 'window')} of ${request.entities.join(', ')} to read${done.size === 0 ? '' : `, ${plan.windows.length - left.length} already done`}`,
    );
    return await runHere(context, parts, connector, request.entities, plan, done);
  },
});

type AskedBackfill = Parameters<typeof plannedBackfill>[1];

async function runHere(
  context: CommandContext,
  settings: SettingsWith<'access' | 'redis'>,
  connector: ConnectorSettings,
  entities: AskedBackfill['entities'],
  plan: BackfillPlan,
  done: ReadonlySet<string>,
): Promise<ExitCode> {
  const { terminal, clock, signal } = context;
  const publications = openPublicationsAfterSync(context, settings);
  await using app = await openSharingApp({
    settings,
    clock,
    command: 'connector-sync backfill',
    note: (line) => terminal.note(line),
    onRunEnd: (end) => {
      showWindowEnd(context, end);
      publications.onRunEnd(end);
    },
  });
  const ended: RunReport[] = [];
  try {
    const { isDone } = await runWindows({
      plan,
      done,
      run: async (window) => {
        const report = await showRun(context, connector.name, { window: windowText(window) }, ({ onEvent }) =>
          app.sync(connector, {
            globs: { select: entities, exclude: [] },
            run: { kind: 'backfill', window, backfill: plan.id },
            onEvent,
            signal,
          }),
        );
        ended.push(report);
        return report;
      },
      shouldYield: () => Promise.resolve(signal.aborted),
    });
    terminal.printJson({ kind: 'backfill', connector: connector.name, backfill: plan.id, isDone });
    const codes = ended.map(exitCodeOfReport);
    await publications.publish();
    return gravestExitCode(signal.aborted ? [...codes, exitCodes.interrupted] : codes);
  } finally {
    // The line of each window was printed at its end.
    if (ended.length > 1) terminal.print(...wrapped(totalText(ended), terminal.columns()));
    const before = plan.windows.filter((window) => done.has(windowText(window))).length;
    const left = plan.windows.length - before - ended.filter(({ outcome }) => outcome === 'ok').length;
    if (left > 0) terminal.note(`${counted(left, 'window')} left; run the same command again to resume.`);
  }
}

function showWindowEnd({ terminal }: CommandContext, end: RunEnd): void {
  const window = end.asked.window ?? null;
  if (end.kind === 'failed' || window === null) return;
  const { connector, report } = end;
  terminal.printJson({
    kind: 'run-report',
    connector: connector.name,
    window: windowText(window),
    report,
  });
  // `2025-01-01 to 2025-02-01`; with the time of day where it is not midnight.
  const [since, until] = [window.sinceMs, window.untilMs].map((ms) =>
    toTheSecond(ms).replace(/T00:00:00Z$/, ''),
  );
  terminal.print(`${since} to ${until}: ${endText(report)}  run ${report.run}`);
}

function totalText(reports: readonly RunReport[]): string {
  const { fetched, inserted, updated, unchanged, duplicate } = reports
    .flatMap(({ entities }) => entities)
    .reduce((sum, { counts }) => addCounts(sum, counts), noCounts);
  const numbers = { read: fetched, inserted, updated, unchanged, duplicate };
  const parts = Object.entries(numbers).map(([what, number]) => `${count(number)} ${what}`);
  const calls = reports.reduce((sum, report) => sum + report.calls, 0);
  return `total: ${[counted(reports.length, 'window'), ...parts, counted(calls, 'call')].join(', ')}`;
}

function timeOf(option: string, text: string): number {
  const ms = timeMs(text);
  if (ms !== null) return Math.floor(ms / 1000) * 1000;
  throw usage(`${option}: expected a date or a time, such as ${instantExamples}, got "${text}".`);
}

/** The longest request in characters: Redis stores a job's text of a few thousand. */
const maxRequestChars = 3000;

/** Throws QUEUE_UNAVAILABLE within two seconds, USAGE if no worker would take it; nothing is queued in these cases. */
async function queueBackfill(
  { terminal, program }: CommandContext,
  settings: LocalSettings,
  connector: ConnectorSettings,
  request: AskedBackfill,
): Promise<ExitCode> {
  const { name, sink } = connector;
  await checkNotPaused([connector], program);
  if (JSON.stringify(request).length > maxRequestChars) {
    throw usage('Too many entities for one job; queue them in parts, with --select.');
  }
  await using queues = await openQueuesOf(withParts(settings, 'redis'));
  const sinkId = await sinkIdOf(sink, queues, program);
  const { isNew } = await queues.enqueueBackfill(sinkId, name, request);
  terminal.printJson({ connector: name, isNew, backfill: request });
  terminal.print(
    isNew
      ? `${name}: the backfill is queued for a worker; syncs of the connector go first.`
      : `${name}: another backfill is already waiting or running; nothing was added. Run the command again when it is done.`,
  );
  terminal.print(`\n"${program} runs" shows its windows, and "${program} ui" their progress.`);
  return isNew ? exitCodes.ok : exitCodes.busy;
}
