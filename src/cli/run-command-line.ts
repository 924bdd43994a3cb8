import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { Command, CommanderError } from 'commander';
import { systemClock } from '../core/clock.ts';
import { openLog } from '../telemetry/log.ts';
import { createScrubber } from '../telemetry/scrubber.ts';
import { addApplications } from './applications.ts';
import { addAudit } from './audit.ts';
import { addBackfill } from './backfill.ts';
import { addCancel } from './cancel.ts';
import { addCheck } from './check.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { addConfig } from './config.ts';
import { addConnectors } from './connectors.ts';
import { addDefinitions } from './definitions.ts';
import { addDemo } from './demo.ts';
import { addDiscover } from './discover.ts';
import { exitCodeOfError, exitCodes, gravestExitCode, type ExitCode } from './exit-codes.ts';
import { addDownload } from './download.ts';
import { addExplain } from './explain.ts';
import { addExport } from './export.ts';
import { addInit } from './init.ts';
import { logLevel, withDotEnv } from './load-config.ts';
import { programName } from './program-name.ts';
import { programVersion } from './program-version.ts';
import type { Input } from './read-input.ts';
import { addGet, addList } from './read-records.ts';
import { addRefetch } from './refetch.ts';
import { reportError } from './report-error.ts';
import { addReset } from './reset.ts';
import { addRuns } from './runs.ts';
import { addSchedule } from './schedule.ts';
import { addSchema } from './schema.ts';
import { addSearch } from './search.ts';
import { addServe } from './serve.ts';
import { addStatus } from './status.ts';
import { addSync } from './sync.ts';
import { openTerminal, type Output } from './terminal.ts';
import { addUndelete } from './undelete.ts';
import { watchInterrupts } from './watch-interrupts.ts';
import { addWorker } from './worker.ts';
import { addWorkspaces } from './workspaces.ts';

/** What a process has; tests and `main.ts` bring it. */
export interface ProcessWorld {
  /** Without the executable and the script. */
  readonly args: readonly string[];
  /** The path of the script, as it was started; printed commands name the program accordingly. */
  readonly script?: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Left out: empty. */
  readonly stdin?: () => Input;
  readonly stdout: Output;
  readonly stderr: Output;
}

const examples = `
Examples:
  $ connector-sync demo                             look around: a local service, a sync, a database
  $ connector-sync init --base-url https://api.example.com
  $ connector-sync check                            is everything in place?
  $ connector-sync sync                             every connector of the config
  $ connector-sync sync newsletter --select 'list*' one connector, some entities
  $ connector-sync status --json | jq .connectors
  $ connector-sync export newsletter/list_members   what changed, for a warehouse
  $ connector-sync search newsletter/campaigns --filter '{"eq": {"status": "sent"}}'
  $ connector-sync worker --http 9400               run by schedule, with health checks and metrics
  $ connector-sync schedule list                    when does what run next?

Exit codes: 0 ok or partial, 1 failed, 2 usage or config, 3 degraded, 4 authentication, 5 another run holds the
connector, 6 a guard withheld deletes, 130 interrupted after a checkpoint.`;

/** Parses the arguments and runs one command to its end. Never rejects: every failure becomes a message and an exit code. */
export async function runCommandLine(world: ProcessWorld): Promise<ExitCode> {
  const scrubber = createScrubber();
  const isJson = world.args.includes('--json');
  const isDebug = world.args.includes('--debug');
  const terminal = openTerminal({ ...world, scrubber, isJson });
  let tell = (line: string): void => terminal.note(line);
  using interrupts = watchInterrupts(() =>
    tell('Interrupted: ending in order, after what is in hand is stored. Press again to leave at once.'),
  );
  const program = newProgram(world, scrubber.scrub);
  let exitCode: ExitCode = exitCodes.ok;
  const enter: Enter = async (work, { isLogged = false, isWatching = false } = {}) => {
    const { config } = program.opts<{ config?: string }>();
    const { env, warning } = withDotEnv(world.env, world.cwd);
    if (isLogged) {
      const log = openLog({ level: logLevel(env) ?? 'info', write: (line) => terminal.note(line.trimEnd()) });
      tell = (line) => log.warn({}, line);
    }
    if (warning !== null) tell(warning);
    if (isWatching) tell = () => undefined;
    const context: CommandContext = {
      terminal,
      scrubber,
      clock: systemClock,
      env,
      cwd: world.cwd,
      program: programName(world.script ?? '', world.env),
      input: world.stdin ?? (() => Readable.from([])),
      config: config ?? null,
      signal: interrupts.signal,
    };
    exitCode = await work(context);
  };
  for (const add of commands) add(program, enter);
  try {
    await program.parseAsync(world.args, { from: 'user' });
    // An output's error comes a turn after the write that met it.
    await setImmediate();
    // A result that nobody got is no result, however well the work went.
    return terminal.hasLostOutput() ? gravestExitCode([exitCode, exitCodes.failed]) : exitCode;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode !== 0) terminal.printJson({ error: { code: 'USAGE', message: error.message } });
      return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    }
    reportError(terminal, error, isDebug);
    return exitCodeOfError(error);
  }
}

const commands: readonly ((program: Command, enter: Enter) => void)[] = [
  addDemo,
  addInit,
  addCheck,
  addDiscover,
  addDefinitions,
  addConnectors,
  addWorkspaces,
  addSync,
  addStatus,
  addRuns,
  addExplain,
  addAudit,
  addExport,
  addBackfill,
  addRefetch,
  addReset,
  addUndelete,
  addCancel,
  addList,
  addGet,
  addDownload,
  addSearch,
  addServe,
  addApplications,
  addWorker,
  addSchedule,
  addSchema,
  addConfig,
];

function newProgram(world: ProcessWorld, scrub: (text: string) => string): Command {
  return new Command('connector-sync')
    .description('Keeps a local, query-ready copy of everything behind a Connector Execution API.')
    .version(programVersion(), '-V, --version')
    .option(
      '-c, --config <file>',
      'config file (default: $CONNECTOR_SYNC_CONFIG, else config/connector-sync.yaml)',
    )
    .option('--json', 'machine-readable results on stdout: one JSON document, or one line per event')
    .option('--debug', 'show the stack of an error')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => void world.stdout.write(scrub(text)),
      writeErr: (text) => void world.stderr.write(scrub(text)),
    })
    .showHelpAfterError('(see --help)')
    .exitOverride()
    .addHelpText('after', examples);
}
