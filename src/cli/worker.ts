import type { Command } from 'commander';
import { openApp } from '../app.ts';
import type { Settings } from '../settings/settings.ts';
import { logRunEvent } from '../telemetry/log-run-event.ts';
import { openLog } from '../telemetry/log.ts';
import { connectorNamed } from './chosen-connectors.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { exitCodeOfError, exitCodes, type ExitCode } from './exit-codes.ts';
import { loadConfig, logLevel } from './load-config.ts';
import { errorDocument } from './report-error.ts';

export function addWorker(program: Command, enter: Enter): void {
  program
    .command('worker')
    .description(
      'Run connectors by their schedules until told to stop; needs Redis. Logs to stderr, see LOG_LEVEL.',
    )
    .addHelpText('after', '\nExample:\n  $ LOG_LEVEL=debug connector-sync worker')
    .action(() => enter((context) => runWorkerCommand(context), { isLogged: true }));
}

/** Told to stop is how a worker ends: exit code 0. */
async function runWorkerCommand(context: CommandContext): Promise<ExitCode> {
  const settings = loadConfig(context);
  // Loaded only here: no other command needs the queue, and it would double their start.
  const { runWorker } = await import('../jobs/run-worker.ts');
  const { clock, terminal, env, signal } = context;
  const log = openLog({ level: logLevel(env) ?? 'info', write: (line) => terminal.note(line.trimEnd()) });
  const unscheduled = withoutSchedule(settings);
  if (unscheduled.length > 0)
    log.warn({ connectors: unscheduled }, 'these connectors have no schedule and will not run');
  try {
    await using app = openApp({ settings, clock, command: 'connector-sync worker' });
    await runWorker({
      settings,
      log,
      signal,
      clock,
      runConnector: (name, runSignal) =>
        app.sync(connectorNamed(settings, name), {
          globs: { select: [], exclude: [] },
          onEvent: (event) => logRunEvent(log, name, event),
          signal: runSignal,
        }),
    });
    return exitCodes.ok;
  } catch (error) {
    // Into the log, not beside it: who collects the log reads JSON lines.
    const document = errorDocument(error);
    terminal.printJson({ error: document });
    log.fatal({ err: error }, document.message);
    return exitCodeOfError(error);
  }
}

function withoutSchedule(settings: Settings): readonly string[] {
  return [...settings.connectors.values()].flatMap(({ name, schedule }) => (schedule === null ? [name] : []));
}
