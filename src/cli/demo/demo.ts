import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { openApp } from '../../app/open-app.ts';
import { recordsRead, rowsWritten } from '../../app/run-totals.ts';
import { usage } from '../../core/errors.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../definitions/load-definitions.ts';
import { maxSampleRevision } from '../../sample/sample-values.ts';
import type { Service } from '../../service/start-service.ts';
import { targetNamed } from '../../settings/choices.ts';
import type { Settings } from '../../settings/settings.ts';
import { loadSettings } from '../../settings/load-settings.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { querySqliteSink } from '../../sinks/sqlite/readers.ts';
import { count, counted, duration } from '../../telemetry/format.ts';
import { command, type CommandContext, wholeNumber } from '../command.ts';
import { showPublication } from '../commands/publish/show-publication.ts';
import { logLevel, shellWord } from '../environment.ts';
import { registerSecrets } from '../load-config.ts';
import { exitCodeOfReport, exitCodes, gravestExitCode } from '../output/exit-codes.ts';
import { showRun, showRunEnd } from '../output/show-run.ts';
import { textTable } from '../output/text-table.ts';
import { writePrivateFile } from '../output/write-files.ts';
import { showPages } from '../commands/ui.ts';

/** The origin of the demo's records, whatever the port: otherwise a second run would find another identity. */
const demoBaseUrl = 'demo';
const demoDatabase = 'demo.db';
/** The name of the demo's target, and of its folder. */
const demoParquet = 'parquet';

/** Environment variables for the parts of the demo's config that change from run to run. */
const demoVariables = {
  url: 'CONNECTOR_SYNC_DEMO_URL',
  secret: 'CONNECTOR_SYNC_DEMO_SECRET',
} as const;

const accounts = [
  { connectorId: 'demo-newsletter', definitionName: 'email-marketing' },
  { connectorId: 'demo-wiki', definitionName: 'workspace-notes' },
] as const;

/** Limits are high because nothing else uses the local service. */
const demoConfigText = `# Written by "connector-sync demo". The service it reads from lives only while the demo runs:
# use this file with status, runs, check --help and the like, and sync with "connector-sync demo".
api:
  baseUrl: "\${${demoVariables.url}:-http://127.0.0.1:8787}"
  clientId: demo
  clientSecret: "\${${demoVariables.secret}:-not-running}"
sinks:
  demo: { type: sqlite, path: ./${demoDatabase}, durability: normal }
connectors:
  newsletter:
    definition: email-marketing
    id: demo-newsletter
    sink: demo
    concurrency: 8
    rateLimit: { requestsPerSecond: 1000 }
  wiki:
    definition: workspace-notes
    id: demo-wiki
    sink: demo
    concurrency: 8
    rateLimit: { requestsPerSecond: 1000 }
publish:
  ${demoParquet}: { type: files, directory: ./${demoParquet}, format: parquet }
`;

type DemoFlags = Readonly<Record<'directory' | 'port' | 'revision', string>>;

/**
 * Starts the local service of the demo, with both sample accounts after this many days of changes (`--revision`).
 * Throws USAGE for a port that cannot be used.
 */
async function openDemo(context: CommandContext, flags: DemoFlags) {
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
    /** Uses a config file, like any other sync: the demo shows the behaviour of the program. */
    async settings(): Promise<Settings> {
      const file = join(directory, 'connector-sync.yaml');
      await writePrivateFile(file, demoConfigText, false);
      const own = { [demoVariables.url]: service.url, [demoVariables.secret]: secret };
      const settings = loadSettings({ file, env: { ...context.env, ...own } });
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

/** Sums up the calls and writes of the demo's runs. */
function totalsText(reports: readonly RunReport[], ms: number) {
  const written = sumOf(reports, rowsWritten);
  const entities = reports.flatMap((report) => report.entities);
  const deleted = sumOf(entities, (entity) => entity.deleted);
  const calls = sumOf(reports, (report) => report.calls);
  const verdict =
    written + deleted === 0
      ? 'Nothing has changed: 0 rows written'
      : `${counted(written, 'row')} written${deleted === 0 ? '' : `, ${count(deleted)} marked as deleted`}`;
  return [
    `${counted(sumOf(reports, recordsRead), 'record')} read in ${counted(calls, 'call')} over HTTP,`,
    `${verdict} (${duration(ms)}).`,
    'Pages overlap on purpose, so that no record slips between two of them: a record',
    'that came twice counts as duplicate. _extra keeps values that have no column.',
    'A listing is one list that the API was asked for, such as the members of one',
    'mailing list; complete: yes means that each one asked for was read to its end.',
  ];
}

function sumOf<One>(all: readonly One[], of: (one: One) => number): number {
  return all.reduce((sum, one) => sum + of(one), 0);
}

/** Sample questions about the copy; run as they are printed. Lines and answers fit 80 columns. */
const demoQueries = [
  {
    question: 'How many people can each list reach?',
    sql: `SELECT lists.name AS list,
       sum(members.status = 'subscribed') AS subscribed,
       sum(members.status = 'unsubscribed') AS unsubscribed
  FROM newsletter__list_members AS members
  JOIN newsletter__lists AS lists ON lists.id = members.list_id
 WHERE members._deleted_at IS NULL AND lists._deleted_at IS NULL
 GROUP BY lists.id ORDER BY subscribed DESC, lists.id`,
  },
  {
    question: 'Which campaigns were opened and clicked most?',
    sql: `SELECT json_extract(campaigns.settings, '$.subject_line') AS subject,
       sum(events.action = 'open') AS opens,
       sum(events.action = 'click') AS clicks
  FROM newsletter__email_activity_events AS events
  JOIN newsletter__campaigns AS campaigns ON campaigns.id = events.campaign_id
 WHERE campaigns._deleted_at IS NULL AND events._deleted_at IS NULL
 GROUP BY campaigns.id ORDER BY opens DESC, campaigns.id LIMIT 3`,
  },
  {
    question: 'Which wiki pages are longest, and how deep do they nest?',
    sql: `SELECT coalesce(json_extract(pages.properties, '$.title.title[0].plain_text'),
                json_extract(pages.properties, '$.Name.title[0].plain_text'),
                'Untitled') AS page,
       count(*) AS blocks, max(blocks.depth) AS depth
  FROM wiki__blocks AS blocks
  JOIN wiki__pages AS pages ON pages.id = blocks.page_id
 WHERE pages._deleted_at IS NULL AND blocks._deleted_at IS NULL
 GROUP BY pages.id ORDER BY blocks DESC, pages.id LIMIT 3`,
  },
];

export const demo = command({
  options: {
    '--directory <path>': { text: 'where the database goes', default: './connector-sync-demo' },
    '--port <n>': { text: 'port of the local API; 0 for any free port', default: '0' },
    '--revision <n>': { text: `days of changes in the accounts, 0 to ${maxSampleRevision}`, default: '0' },
    '--ui': 'then show what it has stored in a browser, until Ctrl-C',
  },
  help: `
Examples:
  $ connector-sync demo && connector-sync demo   the second run has nothing to write
  $ connector-sync demo --revision 1             a day later: what is new, changed or deleted since
  $ connector-sync demo --ui                     pages in a browser over what it has stored`,
  enter: ({ ui }) => (ui ? { stopping: 'Stopping. Ctrl-C again quits now.' } : {}),
  run: async (context, flags) => await runDemo(context, flags),
});

export async function runDemo(context: CommandContext, flags: DemoFlags & { readonly ui: boolean }) {
  const { terminal, clock } = context;
  const startedMs = clock.now();
  await using opened = await openDemo(context, flags);
  const { directory, service, revision } = opened;
  const isFirst = !existsSync(join(directory, demoDatabase));
  terminal.print(
    `The local API runs at ${service.url} with sample data\nfor ${counted(service.connectors.length, 'connector')}${revision === 0 ? '' : `, changed as in ${counted(revision, 'day')} of use`}. ${isFirst ? 'Reading all of it' : 'Reading what has changed'}:\n`,
  );
  const settings = await opened.settings();
  const reports = await syncAll(context, settings);
  if (context.signal.aborted) {
    terminal.note('Stopped; everything read so far is stored. Run the same command again to resume.');
    return exitCodes.interrupted;
  }
  const database = join(directory, demoDatabase);
  const answers = demoQueries.map((query) => ({ ...query, rows: querySqliteSink(database, query.sql) }));
  const written = sumOf(reports, rowsWritten);
  const ms = clock.now() - startedMs;
  terminal.printJson({ kind: 'demo', database, written, ms, answers });
  terminal.print(
    ...totalsText(reports, ms),
    ...answers.flatMap(answerText),
    '',
    'Published for a warehouse, as numbered publications in files of Parquet:',
  );
  await showPublication(context, settings, targetNamed(settings, demoParquet), 'after-sync');
  const [file, folder] = [relative(context.cwd, database), relative(context.cwd, directory)];
  terminal.print(...stepsAfter(context, file, folder, { revision, ui: flags.ui }));
  if (flags.ui) {
    terminal.print('', 'The pages of what is stored:');
    await showPages(context, () => Promise.resolve(settings), { host: '127.0.0.1', port: 0 }, false);
  }
  return gravestExitCode(reports.map(exitCodeOfReport));
}

async function syncAll(context: CommandContext, settings: Settings): Promise<readonly RunReport[]> {
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
  return reports;
}

type Rows = ReturnType<typeof querySqliteSink>;

function answerText({ question, sql, rows }: (typeof demoQueries)[number] & { readonly rows: Rows }) {
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
  // Each purpose stands above its command: side by side they would not fit a narrow terminal.
  return ['', 'Next:', ...steps.flatMap(([why, one]) => [`  ${why}`, `    ${one}`])];
}

/** One line for a shell, which queries an entity's publication with DuckDB. `directory` is the demo's. */
function duckdbCommand(directory: string): string {
  const files = join(directory, demoParquet, 'newsletter', 'campaigns', '**', '*.parquet');
  const sql = `FROM '${files.replaceAll("'", "''")}'`;
  return `duckdb -c ${/["$`\\!]/.test(sql) ? shellWord(sql) : `"${sql}"`}`;
}
