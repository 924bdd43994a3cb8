import { openApp } from '../../../app/open-app.ts';
import type { ConnectorId } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import { openAdministration } from '../../../source/api/open-administration.ts';
import { printable } from '../../../telemetry/printable.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { loadConfig } from '../../load-config.ts';
import { tellWaits } from '../../output/tell-waits.ts';
import { definitionNamed } from './definition-id.ts';
import { readCredentials } from './read-credentials.ts';

export interface CreateFlags {
  readonly workspace: string;
  readonly definition: string;
  readonly name?: string;
  readonly credentialsFile?: string;
}

export async function runCreate(context: CommandContext, flags: CreateFlags): Promise<ExitCode> {
  const settings = loadConfig(context, 'api');
  const { terminal, signal } = context;
  const { workspace, name = null } = flags;
  for (const [flag, text] of [
    ['--workspace', workspace],
    ['--name', name ?? 'none'],
  ] as const) {
    if (text.trim() === '') throw usage(`${flag}: expected a name, got nothing.`);
  }
  const named = definitionNamed(settings, flags.definition);
  const known = named.kind === 'known' ? named.definition : null;
  const credentials = await readCredentials(context, flags.credentialsFile ?? null, known);
  await using app = await openApp({
    settings,
    clock: tellWaits(context),
    command: 'connector-sync connectors create',
  });
  const administration = openAdministration(app.client, settings.api.baseUrl);
  // Of a type that only the service knows, it says at least whether there is one.
  if (known === null) await administration.definition(named.id, signal);
  const created = await administration.createConnector(
    { workspace, definitionId: named.id, name, credentials },
    signal,
  );
  const lines = known === null ? [] : configLines(settings, known.name, created.id);
  terminal.printJson({
    connector: { ...created, workspace, definition: known?.name ?? null, definitionId: named.id },
    config: lines.join('\n'),
  });
  const label = created.name === null ? '' : ` (${printable(created.name)})`;
  terminal.print(`Created ${created.id}${label} in workspace ${printable(workspace)}.`);
  if (known === null) {
    terminal.print('There is no definition of its type here, so it cannot be synced yet.');
    return exitCodes.ok;
  }
  terminal.print(`To sync it, add this below "connectors:" in ${settings.file}:`);
  for (const line of lines) terminal.print(line);
  return exitCodes.ok;
}

/** An entry of the config, indented as it stands below `connectors:`. */
function configLines(settings: LocalSettings, definition: string, id: ConnectorId): readonly string[] {
  const [sink = 'main'] = settings.sinks.keys();
  return [
    `  ${freeName(settings, definition)}:`,
    `    definition: ${definition}`,
    // Quoted: an id of digits alone would be read as a number.
    `    id: "${id}"`,
    `    sink: ${sink}`,
  ];
}

/** The definition's name, with a number where a connector of the config has it. */
function freeName({ connectors }: LocalSettings, definition: string): string {
  const taken = new Set<string>(connectors.keys());
  let name = definition;
  for (let number = 2; taken.has(name); number += 1) name = `${definition}-${number}`;
  return name;
}
