import type { App } from '../../../app/app.ts';
import { openApp } from '../../../app/open-app.ts';
import { openAdministration } from '../../../source/api/open-administration.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { findInWorkspaces } from '../../find-in-workspaces.ts';
import { loadConfig } from '../../load-config.ts';
import { connectorTable } from '../../output/connector-table.ts';
import { tellWaits } from '../../output/tell-waits.ts';
import { definitionNamed } from './definition-id.ts';

export interface ListFlags {
  readonly workspace?: readonly string[];
  readonly definition?: string;
}

export async function runListConnectors(context: CommandContext, flags: ListFlags): Promise<ExitCode> {
  const settings = loadConfig(context, 'api');
  const { terminal, signal } = context;
  const definitionId = flags.definition === undefined ? null : definitionNamed(settings, flags.definition).id;
  await using app = await openApp({
    settings,
    clock: tellWaits(context),
    command: 'connector-sync connectors list',
  });
  const named = flags.workspace;
  const workspaces = named ?? (await everyWorkspace(app, signal));
  const search = { workspaces, definitionId, mayBeGone: named === undefined };
  const found = await findInWorkspaces(app, search, signal);
  terminal.printJson({ connectors: found });
  if (found.length === 0) terminal.print('No connectors.');
  else for (const line of connectorTable(found, terminal.columns())) terminal.print(line);
  return exitCodes.ok;
}

/** A token of one workspace sees no list of them. */
async function everyWorkspace(app: App, signal: AbortSignal): Promise<readonly string[]> {
  const { baseUrl, scopedToWorkspace } = app.settings.api;
  if (scopedToWorkspace !== null) return [scopedToWorkspace];
  const filter = { nameContains: null, status: null };
  const workspaces = await openAdministration(app.client, baseUrl).workspaces(filter, signal);
  return workspaces.map(({ name }) => name);
}
