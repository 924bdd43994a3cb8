import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { openApp, type App } from '../app.ts';
import type { Settings, SinkSettings } from '../settings/settings.ts';
import { openSink } from '../sinks/registry.ts';
import { printable } from '../telemetry/printable.ts';
import { count } from '../telemetry/progress-text.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { exitCodeOfError, exitCodes, gravestExitCode, type ExitCode } from './exit-codes.ts';
import { loadConfig } from './load-config.ts';
import { errorDocument } from './report-error.ts';

interface CheckResult {
  readonly what: string;
  readonly state: 'ok' | 'failed' | 'skipped';
  readonly detail: string;
  readonly exitCode: ExitCode;
}

const mebibyte = 1024 * 1024;
const leastFreeMiB = 100;

export function addCheck(program: Command, enter: Enter): void {
  program
    .command('check')
    .description(
      'Is everything in place? Config, definitions, credentials, connectors, sinks, disk: a line for each.',
    )
    .addHelpText('after', '\nExample:\n  $ connector-sync check --config config/connector-sync.yaml')
    .action(() => enter((context) => runChecks(context)));
}

async function runChecks(context: CommandContext): Promise<ExitCode> {
  // Without a valid config nothing else can be checked: its problems are the whole answer.
  const settings = loadConfig(context);
  const { terminal, clock, signal } = context;
  const results: CheckResult[] = [];
  const add = (result: CheckResult): void => {
    results.push(result);
    terminal.print(`${marks[result.state]} ${result.what}: ${printable(result.detail)}`);
  };
  add(passed('config', `${settings.connectors.size} connectors in ${settings.file}`));
  add(passed('definitions', [...settings.definitions.keys()].join(', ')));

  await using app = openApp({ settings, clock, command: 'connector-sync check' });
  const credentials = await attempt('credentials', async () => {
    const catalog = await app.client.definitions(null, signal);
    return `${settings.api.baseUrl} gives a token and knows ${catalog.length} connector types`;
  });
  add(credentials);
  for (const result of await checkConnectors(app, credentials.state === 'ok', signal)) add(result);
  for (const sink of usedSinks(settings)) {
    add(await attempt(`sink ${sink.name}`, () => checkSink(sink, context)));
    add(await attempt(`disk of ${sink.name}`, () => checkDisk(sink)));
  }
  terminal.printJson({ ok: results.every(({ state }) => state === 'ok'), checks: results });
  return gravestExitCode(results.map(({ exitCode }) => exitCode));
}

const marks = { ok: '✓', failed: '✗', skipped: '-' } as const;

async function checkConnectors(
  app: App,
  hasToken: boolean,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const connector of app.settings.connectors.values()) {
    const what = `connector ${connector.name}`;
    if (!hasToken) {
      results.push({ what, state: 'skipped', detail: 'no token to ask with', exitCode: exitCodes.ok });
      continue;
    }
    results.push(
      await attempt(what, async () => {
        await using source = await app.openSource(connector, signal);
        await source.connect(signal);
        return `${source.connectorId} answers (${connector.definition.name}, ${connector.entities.size} entities)`;
      }),
    );
  }
  return results;
}

function usedSinks(settings: Settings): readonly SinkSettings[] {
  const used = [...settings.connectors.values()].map(({ sink }) => sink);
  return [...new Map(used.map((sink) => [sink.name, sink])).values()];
}

async function checkSink(sink: SinkSettings, { clock }: CommandContext): Promise<string> {
  await using opened = await openSink(sink, { clock });
  return `${placeOf(sink)} can be written (${opened.history.connectors().length} connectors in it)`;
}

async function checkDisk(sink: SinkSettings): Promise<string> {
  const { bavail, bsize } = await statfs(dirname(placeOf(sink)));
  const freeMiB = Math.floor((bavail * bsize) / mebibyte);
  if (freeMiB < leastFreeMiB)
    throw new Error(`expected at least ${leastFreeMiB} MiB free, got ${freeMiB} MiB`);
  return `${count(freeMiB)} MiB free`;
}

function placeOf(sink: SinkSettings): string {
  return sink.type === 'sqlite' ? sink.path : sink.directory;
}

async function attempt(what: string, check: () => Promise<string>): Promise<CheckResult> {
  try {
    return passed(what, await check());
  } catch (error) {
    return { what, state: 'failed', detail: errorDocument(error).message, exitCode: exitCodeOfError(error) };
  }
}

function passed(what: string, detail: string): CheckResult {
  return { what, state: 'ok', detail, exitCode: exitCodes.ok };
}
