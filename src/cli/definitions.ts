import type { Command } from 'commander';
import { openApp } from '../app.ts';
import type { Definition } from '../definitions/definition.ts';
import type { SourceDefinition } from '../source/api/catalog-calls.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { loadConfig } from './load-config.ts';
import { definitionTable } from './tables/definition-table.ts';
import { tellWaits } from './tell-waits.ts';

export function addDefinitions(program: Command, enter: Enter): void {
  program
    .command('definitions')
    .description('The connector types that the API offers, and which of them this program can sync.')
    .option('--name <text>', 'only those whose name contains the text, in any case')
    .addHelpText('after', '\nExample:\n  $ connector-sync definitions --name mail')
    .action((flags: { readonly name?: string }) =>
      enter((context) => runDefinitions(context, flags.name ?? null)),
    );
}

async function runDefinitions(context: CommandContext, name: string | null): Promise<ExitCode> {
  const settings = loadConfig(context);
  const { terminal, signal } = context;
  await using app = openApp({ settings, clock: tellWaits(context), command: 'connector-sync definitions' });
  const offered = await app.client.definitions(name, signal);
  const known = [...settings.definitions.values()];
  const found = offered.map((one) => ({ ...one, definition: definitionOf(one, known)?.name ?? null }));
  terminal.printJson({ definitions: found });
  if (found.length === 0) {
    terminal.print(
      name === null ? 'The API offers no connector types.' : `No connector type is called "${name}" or so.`,
    );
    return exitCodes.ok;
  }
  const rows = found.map((one) => [one.name, one.definition ?? '', one.id ?? '', one.supportLevel ?? '']);
  for (const line of definitionTable(rows, terminal.columns())) terminal.print(line);
  return exitCodes.ok;
}

function definitionOf({ id }: SourceDefinition, known: readonly Definition[]): Definition | undefined {
  return known.find((one) => one.id.toLowerCase() === id?.toLowerCase());
}
