import { hostname } from 'node:os';
import type { Command } from 'commander';
import { instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { RunSummary } from '../../sinks/ledger-reader.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { findRun } from '../find-run.ts';
import { loadConfig } from '../load-config.ts';
import { openSink, statusOf } from '../../sinks/registry.ts';

export function addCancel(command: Command, enter: Enter): void {
  command
    .argument('<run>', 'its id, as "connector-sync runs" shows it')
    .addHelpText(
      'after',
      `
What is stored stays, and the next run goes on from there. A scheduled connector runs again when its time comes;
"schedule pause" keeps it from that.

Example:
  $ connector-sync cancel 20261121T152528492Z-4b72c77d`,
    )
    .action((id: string) => enter((context) => runCancel(context, id)));
}

async function runCancel(context: CommandContext, id: string): Promise<ExitCode> {
  const { terminal, clock } = context;
  const found = await findRun(loadConfig(context), id, context.program);
  const { run, connector } = found.run;
  await using sink = await openSink(found.sink, context);
  const isAsked = await sink.requestCancel(run, instant(clock.now()));
  // It may have ended since it was found: the ledger's newest word counts.
  if (!isAsked) throw notRunning((await sink.history.run(run)) ?? found.run);
  const holder = (await statusOf(sink.history, connector))?.lastHolder ?? null;
  const isGone = holder !== null && holder.host === hostname() && !isAlive(holder.pid);
  terminal.printJson({ run, connector, isCancelRequested: true, isProcessGone: isGone });
  terminal.print(
    isGone
      ? `${connector}: the process of run ${run} (${holder.pid}) has ended; the next run resumes from what it stored.`
      : `${connector}: run ${run} stops at its next page, within seconds; what is stored stays.`,
  );
  return exitCodes.ok;
}

/** Signal 0 reaches nobody: it only asks whether there is somebody. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function notRunning({ run, connector, state, finishedAt }: RunSummary): SyncError {
  const when = finishedAt === null ? '' : ` at ${finishedAt}`;
  return new SyncError(`Run ${run} of ${connector} is not running: it ended ${state}${when}.`, {
    code: 'USAGE',
    recovery: 'stop',
    context: { run, state },
  });
}
