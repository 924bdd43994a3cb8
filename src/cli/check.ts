import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { openApp, type App } from '../app.ts';
import { openExistingHistory, statusOf } from '../sinks/open-history.ts';
import { isWeakSecret } from '../core/hide-secrets.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import { identityDifferences, IdentityChangedError } from '../sinks/acquire-errors.ts';
import type { ConnectorStatus } from '../sinks/ledger-reader.ts';
import { openSink } from '../sinks/registry.ts';
import { printable } from '../telemetry/printable.ts';
import { count, counted } from '../telemetry/progress-text.ts';
import { checkRedis } from './check-redis.ts';
import { checkClosedFiles } from './check-closed-files.ts';
import { attempt, marks, passed, skipped, type CheckResult } from './check-result.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { exitCodes, gravestExitCode, type ExitCode } from './exit-codes.ts';
import { loadConfig } from './load-config.ts';
import { placeOf } from './locate-sink.ts';
import { sinksOf } from './schedule-apply.ts';
import { tellWaits } from './tell-waits.ts';

const weakSecret: CheckResult = {
  what: 'client secret',
  state: 'warning',
  detail:
    'it is short or an ordinary word: easy to guess, and not hidden where it stands in a message as a word; have the service give you a longer one',
  exitCode: exitCodes.ok,
};
const mebibyte = 1024 * 1024;
const leastFreeMiB = 100;

export function addCheck(command: Command, enter: Enter): void {
  command
    .option('--deep', 'read every closed JSONL file and compare its hash, not only its length')
    .addHelpText('after', '\nExample:\n  $ connector-sync check --config config/connector-sync.yaml')
    .action((flags: { readonly deep?: boolean }) =>
      enter((context) => runChecks(context, flags.deep === true)),
    );
}

async function runChecks(context: CommandContext, isDeep: boolean): Promise<ExitCode> {
  // Without a valid config nothing else can be checked: its problems are the whole answer.
  const settings = loadConfig(context, 'api', 'redis', 'http');
  const { terminal, signal } = context;
  const results: CheckResult[] = [];
  const add = (result: CheckResult): void => {
    results.push(result);
    terminal.print(`${marks[result.state]} ${result.what}: ${printable(result.detail)}`);
  };
  add(passed('config', `${counted(settings.connectors.size, 'connector')} in ${settings.file}`));
  add(passed('definitions', [...settings.definitions.keys()].join(', ')));

  await using app = await openApp({ settings, clock: tellWaits(context), command: 'connector-sync check' });
  const credentials = await attempt('credentials', async () => {
    const catalog = await app.client.definitions(null, signal);
    return `${settings.api.baseUrl} authenticated; ${counted(catalog.length, 'connector type')}`;
  });
  add(credentials);
  if (isWeakSecret(settings.api.clientSecret.reveal())) add(weakSecret);
  for (const result of await checkConnectors(app, credentials.state === 'ok', signal)) add(result);
  for (const sink of sinksOf([...settings.connectors.values()])) {
    const opened = await attempt(`sink ${sink.name}`, () => checkSink(sink, context));
    add(opened);
    const what = `disk of ${sink.name}`;
    if (opened.state !== 'ok') {
      add(skipped(what, 'the sink could not be opened'));
      continue;
    }
    add(await attempt(what, () => checkDisk(sink)));
    for (const result of await checkClosedFiles(context, settings, sink, isDeep)) add(result);
  }
  for (const result of await checkRedis(settings, context)) add(result);
  terminal.printJson({ ok: results.every(({ state }) => state !== 'failed'), checks: results });
  return gravestExitCode(results.map(({ exitCode }) => exitCode));
}

async function checkConnectors(
  app: App,
  hasToken: boolean,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const connector of app.settings.connectors.values())
    results.push(await checkConnector(app, connector, hasToken, signal));
  return results;
}

async function checkConnector(
  app: App,
  connector: ConnectorSettings,
  hasToken: boolean,
  signal: AbortSignal,
): Promise<CheckResult> {
  const what = `connector ${connector.name}`;
  const { address } = connector;
  const identity = await attempt(what, async () => {
    checkIdentity(app, connector, address.kind === 'id' ? address.id : null);
    return 'matches the identity in the sink';
  });
  if (identity.state === 'failed') return identity;
  if (!hasToken) return skipped(what, 'no token');
  return await attempt(what, async () => {
    await using source = await app.openSource(connector, signal);
    await source.connect(signal);
    checkIdentity(app, connector, source.connectorId);
    const entities = counted(connector.entities.size, 'entity', 'entities');
    return `${source.connectorId} answers (${connector.definition.name}, ${entities})`;
  });
}

/** As a sync would find it: whether the sink holds records of another origin under this name. A null id is not known yet. */
function checkIdentity(app: App, { name, definition, sink }: ConnectorSettings, id: string | null): void {
  const stored = storedStatus(sink, name);
  if (stored === null) return;
  const differences = identityDifferences(stored, {
    baseUrl: app.settings.api.baseUrl,
    connectorId: id ?? stored.connectorId,
    definition: definition.name,
  });
  if (differences.length > 0) throw new IdentityChangedError(name, differences);
}

function storedStatus(sink: SinkSettings, name: ConnectorSettings['name']): ConnectorStatus | null {
  try {
    using history = openExistingHistory(sink);
    return history === null ? null : statusOf(history, name);
  } catch {
    return null; // A sink that cannot be read has a line of its own, which says why.
  }
}

async function checkSink(sink: SinkSettings, context: CommandContext): Promise<string> {
  await using opened = await openSink(sink, context);
  return `${placeOf(sink)} can be written (${counted(opened.history.connectors().length, 'connector')} in it)`;
}

async function checkDisk(sink: SinkSettings): Promise<string> {
  const { bavail, bsize } = await statfs(dirname(placeOf(sink)));
  const freeMiB = Math.floor((bavail * bsize) / mebibyte);
  if (freeMiB < leastFreeMiB)
    throw new Error(`expected at least ${leastFreeMiB} MiB free, got ${freeMiB} MiB`);
  return `${count(freeMiB)} MiB free`;
}
