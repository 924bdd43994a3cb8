import type { Command } from 'commander';
import { undeleteRun } from '../../app/undelete-run.ts';
import { usage } from '../../core/usage-error.ts';
import { connectorNamed } from '../../settings/chosen-connectors.ts';
import { count, counted } from '../../telemetry/progress-text.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { findRun } from '../../app/find-run.ts';
import { loadConfig } from '../load-config.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';

export function addUndelete(command: Command, enter: Enter): void {
  command
    .argument('<connector>', 'its name in the config')
    .requiredOption('--run <id>', 'the run that marked the records as deleted, as "runs" shows it')
    .addHelpText(
      'after',
      `
Rows that were written since stay as they are. Records that really do not exist are found again by the next full sync.

Example:
  $ connector-sync undelete newsletter --run 20261121T152528492Z-4b72c77d`,
    )
    .action((name: string, { run }: { readonly run: string }) =>
      enter((context) => runUndelete(context, name, run)),
    );
}

async function runUndelete(context: CommandContext, name: string, id: string): Promise<ExitCode> {
  const { terminal, clock, program, signal } = context;
  const settings = loadConfig(context);
  const connector = connectorNamed(settings, name);
  const found = await findRun(settings, id, program);
  if (found.run.connector !== connector.name || found.sink.name !== connector.sink.name) {
    throw usage(`Run ${id} is one of ${found.run.connector} in sink ${found.sink.name}, not of ${name}.`);
  }
  const command = 'connector-sync undelete';
  const { run, entities } = await undeleteRun(connector, found.run.run, { clock, command, signal });
  const rows = [...entities.values()].reduce((sum, one) => sum + one, 0);
  terminal.printJson({ connector: name, of: id, run, rows, entities });
  terminal.print(
    rows === 0
      ? `${name}: run ${id} has no deletes left to undo.`
      : `${name}: ${counted(rows, 'delete')} taken back (run ${run ?? ''})`,
  );
  for (const [entity, one] of entities) terminal.print(`  ${entity}: ${count(one)}`);
  return exitCodes.ok;
}
