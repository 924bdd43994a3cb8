import type { Command } from 'commander';
import { cancelRun } from '../../app/cancel-run.ts';
import { findRun } from '../../app/find-run.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { loadConfig } from '../load-config.ts';

export function addCancel(command: Command, enter: Enter): void {
  command
    .argument('<run>', 'its id, as "connector-sync runs" shows it')
    .addHelpText(
      'after',
      `
What is stored stays, and the next run resumes from there. A scheduled connector runs again when its time comes;
"schedule pause" keeps it from that.

Example:
  $ connector-sync cancel 20261121T152528492Z-4b72c77d`,
    )
    .action((id: string) => enter((context) => runCancel(context, id)));
}

async function runCancel(context: CommandContext, id: string): Promise<ExitCode> {
  const { terminal } = context;
  const found = await findRun(loadConfig(context), id, context.program);
  const { run, connector } = found.run;
  const gone = await cancelRun(found, context);
  terminal.printJson({ run, connector, isCancelRequested: true, isProcessGone: gone !== null });
  terminal.print(
    gone === null
      ? `${connector}: run ${run} stops at its next page, within seconds; what is stored stays.`
      : `${connector}: the process of run ${run} (${gone.pid}) has ended; the next run resumes from what it stored.`,
  );
  return exitCodes.ok;
}
