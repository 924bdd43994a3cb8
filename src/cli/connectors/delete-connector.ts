import { openApp } from '../../app.ts';
import { isConnectorId } from '../../core/names.ts';
import { openAdministration } from '../../source/api/open-administration.ts';
import { printable } from '../../telemetry/printable.ts';
import type { CommandContext } from '../command-context.ts';
import { exitCodes, type ExitCode } from '../exit-codes.ts';
import { loadConfig } from '../load-config.ts';
import { tellWaits } from '../tell-waits.ts';
import { usage } from '../usage-error.ts';

export async function runDelete(context: CommandContext, id: string, isSure: boolean): Promise<ExitCode> {
  const settings = loadConfig(context);
  const { terminal, signal } = context;
  if (!isConnectorId(id))
    throw usage(`Expected the id of a connector (letters, digits, "_" and "-"), got "${id}".`);
  await using app = openApp({
    settings,
    clock: tellWaits(context),
    command: 'connector-sync connectors delete',
  });
  const using = [...settings.connectors.values()]
    .filter(({ address }) => address.kind === 'id' && address.id === id)
    .map(({ name }) => name);
  if (!isSure) {
    const { name, definitionId } = await app.client.connector(id, signal);
    const definition = [...settings.definitions.values()].find((known) => known.id === definitionId);
    const command = `${context.program} connectors delete ${id} --yes`;
    terminal.printJson({ id, name, definition: definition?.name ?? null, using, isDone: false, command });
    const type = definition?.name ?? 'a type without a definition here';
    terminal.print(`${id}${name === null ? '' : ` (${printable(name)})`}, ${type}, would be deleted.`);
    tellUsing(context, using);
    terminal.print(`Nothing was changed. To do it: ${command}`);
    // As everything that was not done because it was not asked for in full.
    return exitCodes.usage;
  }
  const job = await openAdministration(app.client, settings.api.baseUrl).deleteConnector(id, signal);
  terminal.printJson({ id, using, isDone: true, job });
  terminal.print(`${id} is deleted${job === null ? '' : ` (job ${printable(job)})`}.`);
  tellUsing(context, using);
  return exitCodes.ok;
}

function tellUsing({ terminal }: CommandContext, using: readonly string[]): void {
  if (using.length === 0) return;
  terminal.print(
    `The config's ${using.join(', ')} ${using.length === 1 ? 'reads' : 'read'} it: without it, syncs of it fail. What is stored stays.`,
  );
}
