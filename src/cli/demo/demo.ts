import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { firstReports } from '../../app/find-run.ts';
import { openApp } from '../../app/open-app.ts';
import { ordinaryPublication, publishTarget } from '../../app/publish-target.ts';
import { rowsWritten } from '../../app/run-totals.ts';
import { maxSampleRevision } from '../../sample/sample-values.ts';
import { targetNamed } from '../../settings/choices.ts';
import type { LocalSettings, Settings } from '../../settings/settings.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { querySqliteSink } from '../../sinks/sqlite/readers.ts';
import { counted } from '../../telemetry/format.ts';
import { usage } from '../../core/usage-error.ts';
import { command, type CommandContext } from '../command.ts';
import { publicationDocument, publicationText } from '../commands/publish/show-publication.ts';
import { shellWord } from '../environment.ts';
import { localRedisUrl } from '../find-redis.ts';
import { showPages } from '../show-pages.ts';
import { exitCodeOfReport, exitCodes, gravestExitCode, type ExitCode } from '../output/exit-codes.ts';
import { showRun, showRunEnd } from '../output/show-run.ts';
import { textTable } from '../output/text-table.ts';
import {
  type DemoFlags,
  openDemo,
  demoBaseUrl,
  demoDatabase,
  demoParquet,
  nextSteps,
} from './demo-config.ts';
import { runScheduledDemo } from './demo-scheduled.ts';
import { totalsText, demoQueries, type DemoQuery } from './demo-totals.ts';

export const demo = command({
  options: {
    '--directory <path>': { text: 'where the database goes', default: './connector-sync-demo' },
    '--port <n>': { text: 'port of the local API; 0 for any free port', default: '0' },
    '--revision <n>': { text: `days of changes in the accounts, 0 to ${maxSampleRevision}`, default: '0' },
    '--ui': 'then show what it has stored in a browser, until Ctrl-C',
    '--scheduled': 'instead: a worker that syncs every five seconds, three times; needs a Redis',
  },
  help: `
Examples:
  $ connector-sync demo && connector-sync demo   the second run has nothing to write
  $ connector-sync demo --revision 1             a day later: what is new, changed or deleted since
  $ connector-sync demo --ui                     pages in a browser over what it has stored
  $ connector-sync demo --scheduled              schedules fire and runs appear

The Redis of --scheduled: $REDIS_URL or ${localRedisUrl} where one answers, else a redis-server of the PATH that
is started for it and ended with it.`,
  enter: ({ scheduled, ui }) => ({
    isWatching: scheduled,
    ...(ui ? { stopping: 'Stopping. Ctrl-C again quits now.' } : {}),
  }),
  run: async (context, flags) => {
    if (flags.scheduled && flags.ui) {
      throw usage('--ui: expected no --scheduled beside it; run the demo with one of the two.');
    }
    return flags.scheduled ? await runScheduledDemo(context, flags) : await runDemo(context, flags);
  },
});

async function runDemo(
  context: CommandContext,
  flags: DemoFlags & { readonly ui: boolean },
): Promise<ExitCode> {
  const { terminal, clock } = context;
  const startedMs = clock.now();
  await using opened = await openDemo(context, flags);
  const { directory, service, revision } = opened;
  const isFirst = !existsSync(join(directory, demoDatabase));
  terminal.print(
    `The local API runs at ${service.url} with sample data\nfor ${counted(service.connectors.length, 'connector')}${revision === 0 ? '' : `, changed as in ${counted(revision, 'day')} of use`}. ${isFirst ? 'Reading all of it' : 'Reading what has changed'}:\n`,
  );
  const settings = await opened.settings(null);
  const { reports, first } = await syncAll(context, settings);
  if (context.signal.aborted) {
    terminal.note('Stopped; everything read so far is stored. Run the same command again to resume.');
    return exitCodes.interrupted;
  }
  const database = join(directory, demoDatabase);
  const answers = demoQueries.map((query) => ({ ...query, rows: querySqliteSink(database, query.sql) }));
  const published = await publishDemo(context, settings);
  const written = reports.reduce((sum, report) => sum + rowsWritten(report), 0);
  const ms = clock.now() - startedMs;
  terminal.printJson({ kind: 'demo', database, written, ms, answers });
  const lines = [
    ...totalsText(reports, first, ms),
    ...answers.flatMap(answerText),
    '',
    'Published for a warehouse, as numbered publications in files of Parquet:',
    `  ${published}`,
    ...stepsAfter(context, relative(context.cwd, database), relative(context.cwd, directory), {
      revision,
      ui: flags.ui,
    }),
  ];
  terminal.print(...lines);
  if (flags.ui) {
    terminal.print('', 'The pages of what is stored:');
    await showPages(context, settings, { host: '127.0.0.1', port: 0 });
  }
  return gravestExitCode(reports.map(exitCodeOfReport));
}

/** `first`: what reading everything for the first time took; empty where this was the first time. */
async function syncAll(context: CommandContext, settings: Settings) {
  await using app = await openApp({
    settings,
    clock: context.clock,
    command: 'connector-sync demo',
    identityBaseUrl: demoBaseUrl,
    onRunEnd: (end) => showRunEnd(context, end),
  });
  const reports: RunReport[] = [];
  for (const connector of settings.connectors.values()) {
    if (context.signal.aborted) break;
    context.terminal.note(`Reading ${connector.name} ...`);
    const report = await showRun(context, connector.name, {}, (shown) =>
      app.sync(connector, { globs: { select: [], exclude: [] }, ...shown, signal: context.signal }),
    );
    reports.push(report);
    context.terminal.print('');
  }
  return { reports, first: await firstReports(settings, reports) };
}

type Rows = ReturnType<typeof querySqliteSink>;

function answerText({ question, sql, rows }: DemoQuery & { readonly rows: Rows }): readonly string[] {
  const titles = Object.keys(rows[0] ?? {});
  const columns = titles.map(
    (title) =>
      ({ title, align: rows.some((row) => typeof row[title] === 'string') ? 'left' : 'right' }) as const,
  );
  const cells = rows.map((row) => titles.map((title) => String(row[title] ?? '')));
  return [
    '',
    question,
    ...sql.split('\n').map((line) => `  ${line}`),
    '',
    ...textTable(columns, cells).map((line) => `    ${line}`),
  ];
}

function stepsAfter(
  { program }: CommandContext,
  database: string,
  directory: string,
  { revision, ui }: { readonly revision: number; readonly ui: boolean },
): readonly string[] {
  const config = shellWord(join(directory, 'connector-sync.yaml'));
  const demo =
    directory === 'connector-sync-demo'
      ? `${program} demo`
      : `${program} demo --directory ${shellWord(directory)}`;
  const again = revision === 0 ? demo : `${demo} --revision ${revision}`;
  const steps = [
    ['Each entity is a table:', `sqlite3 ${shellWord(database)} .tables`],
    ['Query it with DuckDB; of rows with one key, the highest _seq is current:', duckdbCommand(directory)],
    ['Show what is stored, and when all of it was last read:', `${program} status --config ${config}`],
    ...(ui ? [] : [['See it in a browser:', `${program} ui --config ${config}`]]),
    ['Run it again: nothing has changed, so nothing is written:', again],
    ...(revision < maxSampleRevision
      ? [['A day later: some records are new, changed or deleted:', `${demo} --revision ${revision + 1}`]]
      : []),
    ['Write a config for your own connectors:', `${program} init`],
  ];
  return nextSteps(steps);
}

/** Publishes what the demo has stored, as Parquet; gives the line that says so. */
async function publishDemo(context: CommandContext, settings: LocalSettings): Promise<string> {
  const { terminal, clock, signal } = context;
  const target = targetNamed(settings, demoParquet);
  terminal.note('Publishing it as Parquet ...');
  const startedMs = clock.now();
  const end = await publishTarget(target, {
    ...ordinaryPublication,
    clock,
    signal,
    onProgress: () => undefined,
    notifier: null,
  });
  const ms = clock.now() - startedMs;
  terminal.printJson(publicationDocument(target, end, ms));
  return publicationText(target, end, ms, context, true)[0] ?? '';
}

/** One line for a shell: what was published of an entity, by the DuckDB of the person. `directory` is the demo's. */
function duckdbCommand(directory: string): string {
  const files = join(directory, demoParquet, 'newsletter', 'campaigns', '**', '*.parquet');
  const sql = `FROM '${files.replaceAll("'", "''")}'`;
  return `duckdb -c ${/["$`\\!]/.test(sql) ? shellWord(sql) : `"${sql}"`}`;
}
