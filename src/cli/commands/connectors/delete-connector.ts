import type { App } from '../../../app/app.ts';
import { openApp } from '../../../app/open-app.ts';
import { isConnectorId } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import { openAdministration } from '../../../source/api/open-administration.ts';
import { printable } from '../../../telemetry/printable.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { findInWorkspaces } from '../../find-in-workspaces.ts';
import { loadConfig } from '../../load-config.ts';
import { tellWaits } from '../../output/tell-waits.ts';

export async function runDelete(context: CommandContext, id: string, isSure: boolean): Promise<ExitCode> {
  const settings = loadConfig(context, 'api');
  const { terminal, signal } = context;
  if (!isConnectorId(id)) {
    throw usage(`Expected the id of a connector (letters, digits, "_" and "-"), got "${id}".`);
  }
  await using app = await openApp({
    settings,
    clock: tellWaits(context),
    command: 'connector-sync connectors delete',
  });
  const using = await readersOf(app, id, signal);
  if (!isSure) {
    const { name, definitionId } = await app.client.connector(id, signal);
    const definition = [...settings.definitions.values()].find(
      ({ id: known }) => known === definitionId?.toLowerCase(),
    );
    const command = `${context.program} connectors delete ${id} --yes`;
    terminal.printJson({ id, name, definition: definition?.name ?? null, using, isDone: false, command });
    const type = definition?.name ?? 'a type without a definition here';
    terminal.print(`${id}${name === null ? '' : ` (${printable(name)})`}, ${type}, would be deleted.`);
    tellUsing(context, using);
    terminal.print(`Nothing was changed. To do it: ${command}`);
    return exitCodes.ok;
  }
  const job = await openAdministration(app.client, settings.api.baseUrl).deleteConnector(id, signal);
  terminal.printJson({ id, using, isDone: true, job });
  terminal.print(`${id} is deleted${job === null ? '' : ` (job ${printable(job)})`}.`);
  tellUsing(context, using);
  return exitCodes.ok;
}

/** Names of the config's connectors that read it: by its id, or as the only one of its type in their workspace. */
async function readersOf(app: App, id: string, signal: AbortSignal): Promise<readonly string[]> {
  const configured = [...app.settings.connectors.values()];
  const workspaces = configured.flatMap(({ address }) =>
    address.kind === 'workspace' ? [address.workspace] : [],
  );
  const search = { workspaces: [...new Set(workspaces)], definitionId: null, mayBeGone: true };
  const found = (await findInWorkspaces(app, search, signal)).find((one) => one.id === id);
  return configured
    .filter(({ name, address }) =>
      address.kind === 'id' ? address.id === id : found?.configured.includes(name) === true,
    )
    .map(({ name }) => name);
}

function tellUsing({ terminal }: CommandContext, using: readonly string[]): void {
  if (using.length === 0) return;
  terminal.print(
    `The config's ${using.join(', ')} ${using.length === 1 ? 'reads' : 'read'} it: without it, syncs of it fail. What is stored stays.`,
  );
}
