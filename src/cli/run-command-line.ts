import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { Command, CommanderError, Help, Option } from 'commander';
import { programVersion } from '../app/program-version.ts';
import { systemClock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { createScrubber } from '../telemetry/scrubber.ts';
import type { CommandContext, Enter, Input } from './command.ts';
import { chapters, commands, firstCommands } from './commands.ts';
import { stderrLog, withDotEnv, programName } from './environment.ts';
import {
  type ExitCode,
  exitCodeOfError,
  exitCodes,
  gravestExitCode,
  reportError,
} from './output/exit-codes.ts';
import { openTerminal, type Output, usualColumns } from './output/terminal.ts';

/** The parts of a process that the program uses; tests and `main.ts` provide them. */
interface ProcessWorld {
  /** Arguments without the executable and the script. */
  readonly args: readonly string[];
  /** The path of the script, as it was started; printed commands name the program accordingly. */
  readonly script?: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Absent: empty input. */
  readonly stdin?: () => Input;
  readonly stdout: Output;
  readonly stderr: Output;
}

interface Flags {
  readonly config?: string;
  readonly verbose?: boolean;
  readonly log?: CommandContext['logFormat'];
}

/** Longer lines are hard to read. */
const mostHelpColumns = 110;

const examples = `
Examples:
  $ connector-sync demo                             try it: a local API, a sync, a database
  $ connector-sync init --base-url https://api.example.com
  $ connector-sync check                            is everything in place?
  $ connector-sync sync                             every connector of the config
  $ connector-sync sync newsletter --select 'list*' one connector, some entities
  $ connector-sync status --json | jq .connectors
  $ connector-sync export newsletter/list_members   what changed, for a warehouse
  $ connector-sync publish                          the same into every target of the config
  $ connector-sync search newsletter/campaigns --filter '{"eq": {"status": "sent"}}'
  $ connector-sync worker --http 9400               run by schedule, with health checks and metrics

Exit codes: 0 done, or ended by a limit that was given; 1 failed; 2 wrong command or config; 3 parts failed;
4 credentials refused; 5 another run is reading the connector; 6 rows look deleted and are kept; 130 stopped by Ctrl-C.`;

/**
 * Parses the arguments and runs one command to its end. Never rejects: every failure becomes a message and an exit
 * code.
 */
export async function runCommandLine(world: ProcessWorld): Promise<ExitCode> {
  const scrubber = createScrubber();
  const isJson = world.args.includes('--json');
  const isDebug = world.args.includes('--debug');
  const terminal = openTerminal({ ...world, scrubber, isJson });
  let tell = (line: string): void => terminal.note(line);
  let stoppingText = 'Stopping: saving fetched pages. Ctrl-C again quits now.';
  using interrupts = watchInterrupts(() => tell(stoppingText));
  const program = newProgram(world, scrubber.scrub);
  let exitCode: ExitCode = exitCodes.ok;
  const useProxies = async (env: CommandContext['env']): Promise<void> => {
    const { proxySecrets, proxyVariables } = await import('../http/proxies.ts');
    for (const secret of proxySecrets(env)) scrubber.register(secret);
    if (world.env !== process.env) return;
    // HTTP clients, and child processes of this program, read these variables from the process: those of .env too.
    for (const name of proxyVariables) if (env[name] !== undefined) process.env[name] = env[name];
  };
  const enter: Enter = async (work, { isLogged = false, isWatching = false, stopping = stoppingText }) => {
    stoppingText = stopping;
    const { config, verbose, ...given } = program.opts<Flags>();
    const logFormat = given.log ?? (world.stderr.isTTY === true ? 'text' : 'json');
    const { env, warning } = withDotEnv(world.env, world.cwd);
    if (Object.keys(env).some((name) => /^(?:https?|no)_proxy$/i.test(name))) await useProxies(env);
    if (isLogged) {
      const log = await stderrLog({ env, terminal, logFormat }, 'info');
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
      settings: async (...parts) => {
        const { loadConfig } = await import('./load-config.ts');
        // A reloaded config may have other credentials.
        return loadConfig({ ...context, env: withDotEnv(world.env, world.cwd).env }, ...parts);
      },
      isVerbose: verbose === true,
      logFormat,
      signal: interrupts.signal,
    };
    exitCode = (await work(context)) ?? exitCodes.ok;
  };
  try {
    for (const { name, description, load } of commands) {
      const command = program.command(name).description(description);
      // No command waits for the others. A connector with the name of a command only costs time.
      if (world.args.includes(name)) (await load())(command, enter);
    }
    await program.parseAsync(world.args, { from: 'user' });
    // An output's error arrives a turn after the write that caused it.
    await setImmediate();
    // A result that could not be written is a failure, even if the work succeeded.
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

function newProgram(world: ProcessWorld, scrub: (text: string) => string): Command {
  const helpWidth = Math.min(world.stdout.columns ?? usualColumns, mostHelpColumns);
  /**
   * Wraps text that Commander leaves unwrapped, paragraphs and examples, and indents continuation lines of examples.
   */
  const wrapped = (line: string): string => {
    if (line.length <= helpWidth) return line;
    const hanging = line.startsWith(' ') ? ' '.repeat(6) : '';
    const broken = program.createHelp().boxWrap(line, helpWidth - hanging.length);
    return broken.replaceAll('\n', `\n${hanging}`);
  };
  const program: Command = new Command('connector-sync')
    .description('Keeps a local, query-ready copy of everything behind a Connector Execution API.')
    .version(programVersion(), '-V, --version')
    .option(
      '-c, --config <file>',
      'config file (default: $CONNECTOR_SYNC_CONFIG, else config/connector-sync.yaml)',
    )
    .option('--json', 'machine-readable results on stdout: one JSON document, or one line per event')
    .option('--verbose', 'also show how each entity is known to be complete')
    .option('--debug', 'show the stack of an error')
    .addOption(
      new Option('--log <format>', 'of log lines (default: text on a terminal)').choices(['json', 'text']),
    )
    .configureHelp({
      showGlobalOptions: true,
      minWidthToWrap: 20,
      // Shows the options that every command has: the options of `publish` do not apply to `publish status`.
      visibleGlobalOptions: (command) => (command.parent === null ? [] : [...program.options]),
      formatHelp: (command, helper) =>
        Help.prototype.formatHelp(command, command.parent === null ? withChapters(command, helper) : helper),
    })
    .configureOutput({
      getOutHelpWidth: () => helpWidth,
      writeOut: (text) => {
        const paragraphs = text.replaceAll(/^(\S.*)\n(?=\S)/gm, '$1 ');
        world.stdout.write(scrub(paragraphs.split('\n').map(wrapped).join('\n')));
      },
      writeErr: (text) => void world.stderr.write(scrub(text)),
    })
    .showHelpAfterError('(see --help)')
    .exitOverride()
    .addHelpText('after', examples);
  return program;
}

/** Shows the commands of the first hour with their texts, and of all others the names. */
function withChapters(program: Command, helper: Help): Help {
  const first = firstCommands
    .split(' ')
    .flatMap((name) => program.commands.filter((one) => one.name() === name));
  const others = Object.entries(chapters).map(([title, names]) =>
    new Command(title)
      .description(names.replaceAll(' ', ', '))
      .helpGroup('More commands, each with its own --help:'),
  );
  const visibleCommands = () => [...first.map((one) => one.helpGroup('The first hour:')), ...others];
  const shown = Object.create(helper) as Help;
  return Object.assign(shown, { visibleCommands, subcommandTerm: (one: Command) => one.name() });
}

const signals = ['SIGINT', 'SIGTERM'] as const;

/**
 * The first Ctrl-C or SIGTERM asks the command to end in order; the second ends the process at once, because a person
 * who interrupts twice means it. Committed data stays.
 */
export function watchInterrupts(onFirst: () => void) {
  const interrupted = new AbortController();
  const onSignal = (name: string): void => {
    if (interrupted.signal.aborted) process.exit(exitCodes.interrupted);
    onFirst();
    interrupted.abort(new SyncError(`interrupted by ${name}`, { code: 'INTERRUPTED', recovery: 'stop' }));
  };
  for (const name of signals) process.on(name, onSignal);
  return {
    /** Aborted by the first interrupt. */
    signal: interrupted.signal,
    [Symbol.dispose]: () => {
      for (const name of signals) process.off(name, onSignal);
    },
  };
}
