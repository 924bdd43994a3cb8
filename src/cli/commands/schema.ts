import type { Command } from 'commander';
import { chosenConnectors } from '../../settings/chosen-connectors.ts';
import type { ConnectorSettings } from '../../settings/settings.ts';
import type { DriftRow } from '../../sinks/drift.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { loadConfig } from '../load-config.ts';
import { declarationOf, driftText } from '../output/drift-text.ts';
import { openExistingHistory } from '../../sinks/registry.ts';

export function addSchema(schema: Command, enter: Enter): void {
  schema
    .command('diff')
    .description(
      'List undeclared fields and values that do not fit their column, with lines to declare them.',
    )
    .argument('[connector]', 'a name from the config (default: all)')
    .addHelpText(
      'after',
      `
Nothing of it is lost: it is kept in _extra, in a column of its own (onSchemaChange: evolve) or in quarantine. Fields that the
definition has come to declare are not shown any more.

Example:
  $ connector-sync schema diff newsletter`,
    )
    .action((name: string | undefined) => enter((context) => runDiff(context, name)));
}

async function runDiff(context: CommandContext, name: string | undefined): Promise<ExitCode> {
  const { terminal } = context;
  const connectors = chosenConnectors(loadConfig(context), name === undefined ? [] : [name]);
  const found = await Promise.all(
    connectors.map(async (connector) => ({ connector, drift: await readDrift(connector) })),
  );
  terminal.printJson({
    connectors: found.map(({ connector, drift }) => ({
      connector: connector.name,
      definition: connector.definition.name,
      isSynced: drift !== null,
      drift: (drift ?? []).map((row) => ({ ...row, line: declarationOf(row) })),
    })),
  });
  for (const { connector, drift } of found) {
    if (drift === null) terminal.print(`${connector.name}: not synced yet (sink ${connector.sink.name})`);
    else for (const line of driftText(connector, drift, terminal.columns())) terminal.print(line);
  }
  return exitCodes.ok;
}

/** Null where there is no sink yet. */
async function readDrift({ name, sink }: ConnectorSettings): Promise<readonly DriftRow[] | null> {
  await using history = await openExistingHistory(sink);
  return (await history?.drift(name)) ?? null;
}
