import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import type { Command } from 'commander';
import type { Clock } from '../core/clock.ts';
import { usage } from '../core/errors.ts';
import { orAborted } from '../http/or-aborted.ts';
import type { PartName, SettingsWith } from '../settings/settings.ts';
import { allowedHost, durationExamples, formatDuration, parseDuration } from '../settings/texts.ts';
import type { Scrubber } from '../telemetry/scrubber.ts';
import type { ExitCode } from './output/exit-codes.ts';
import type { Terminal } from './output/terminal.ts';

/** The environment in which a command runs. */
export interface CommandContext {
  readonly terminal: Terminal;
  readonly scrubber: Scrubber;
  readonly clock: Clock;
  /** The environment, completed from `.env`; variables that are set take precedence. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** The command by which a person calls this program, for printed texts: `npx --no-install connector-sync`. */
  readonly program: string;
  /** Standard input, which is not read until a command asks for it. */
  readonly input: () => Input;
  /** The value of `--config`; null where it was not given. */
  readonly config: string | null;
  /** Loads the settings as `loadConfig` does; its module is loaded on first use, because not every command needs it. */
  settings<Name extends PartName = never>(...parts: readonly Name[]): Promise<SettingsWith<NoInfer<Name>>>;
  /** The value of `--verbose`: results also show details for experts. */
  readonly isVerbose: boolean;
  /** The form of log lines: the value of `--log`. */
  readonly logFormat: 'json' | 'text';
  /** Aborted by the first Ctrl-C or SIGTERM, with `SyncError` INTERRUPTED as its reason. */
  readonly signal: AbortSignal;
}
/** Settings for the output of a running command. */
interface EnterOptions {
  /** The command's stderr is a log: every other message becomes a log line too. */
  readonly isLogged?: boolean;
  /** The text that the first Ctrl-C prints, where it is not about pages. */
  readonly stopping?: string;
  /** The command only watches: an interrupt has nothing to finish and nothing to report. */
  readonly isWatching?: boolean;
}

/** Runs a command's work inside its context. Work that resolves to nothing ended with exit code 0. */
export type Enter = (
  work: (context: CommandContext) => Promise<ExitCode | void>,
  options: EnterOptions,
) => Promise<void>;

/** Gives a command of Commander its arguments, options, subcommands and action. */
export type AddCommand = (command: Command, enter: Enter) => void;

/** The text of an option, and its value if it is not given; a required option has no such value. */
type OptionText =
  | string
  | { readonly text: string; readonly default: string }
  | { readonly text: string; readonly isRequired: true };

type OptionTexts = Readonly<Record<string, OptionText>>;

interface CommandParts<Argument extends string, Second extends string, Options extends OptionTexts> {
  /** Describes a subcommand; `commands.ts` describes the commands. */
  readonly description?: string;
  /** The argument in Commander's notation (`<one>`, `[one]`, `<some...>`), and its text. */
  readonly argument?: readonly [Argument, string];
  /** The second argument. */
  readonly second?: readonly [Second, string];
  /** The text of each option by its flags, in Commander's notation: `-k, --key <name=value...>`. */
  readonly options?: Options;
  /** Text that `--help` shows below the options. */
  readonly help?: string;
  readonly commands?: Readonly<Record<string, AddCommand>>;
  readonly enter?: (flags: FlagsOf<Options>) => EnterOptions;
  readonly run?: (
    context: CommandContext,
    flags: FlagsOf<Options>,
    argument: ArgumentOf<Argument>,
    second: ArgumentOf<Second>,
  ) => Promise<ExitCode | void>;
}

/** Defines a command as data: its parameters, its help and its action. */
export function command<
  const Argument extends string = never,
  const Second extends string = never,
  const Options extends OptionTexts = OptionTexts,
>(parts: CommandParts<Argument, Second, Options>): AddCommand {
  const { description, argument, second, options, help, commands = {}, enter = () => ({}), run } = parts;
  return (added, enterContext) => {
    if (description !== undefined) added.description(description);
    if (argument !== undefined) added.argument(...argument);
    if (second !== undefined) added.argument(...second);
    for (const [flags, option] of Object.entries(options ?? {})) {
      if (typeof option === 'string') added.option(flags, option);
      else if ('default' in option) added.option(flags, option.text, option.default);
      else added.requiredOption(flags, option.text);
    }
    if (help !== undefined) added.addHelpText('after', help);
    for (const [name, add] of Object.entries(commands)) add(added.command(name), enterContext);
    if (run === undefined) return;
    added.action(async (...given: readonly unknown[]) => {
      // `as`: Commander returns the values that the parts describe.
      const flags = flagsOf(added) as FlagsOf<Options>;
      const value = (argument === undefined ? undefined : given[0]) as ArgumentOf<Argument>;
      const next = (second === undefined ? undefined : given[1]) as ArgumentOf<Second>;
      await enterContext((context) => run(context, flags, value, next), enter(flags));
    });
  };
}

/** The flags of a command; an option that was not given is false, or an empty list. */
function flagsOf(added: Command): object {
  const flags: Record<string, unknown> = { ...added.opts() };
  for (const option of added.options) {
    if (option.isBoolean()) flags[option.attributeName()] ??= false;
    else if (option.variadic) flags[option.attributeName()] ??= [];
  }
  return flags;
}

/** The options of a command by their names, `--max-calls <n>` as `maxCalls`. */
export type FlagsOf<Options extends OptionTexts> = {
  readonly [Flags in keyof Options & string as Camel<LongName<Flags>>]: ValueOf<Flags, Options[Flags]>;
};

type LongName<Flags extends string> = Flags extends `${string}--${infer Name} ${string}`
  ? Name
  : Flags extends `${string}--no-${infer Name}`
    ? Name
    : Flags extends `${string}--${infer Name}`
      ? Name
      : never;

type Camel<Name extends string> = Name extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name;

type ValueOf<Flags extends string, Option> = Flags extends `${string}...>`
  ? readonly string[]
  : Flags extends `${string}>`
    ? Option extends string
      ? string | undefined
      : string
    : boolean;

type ArgumentOf<Argument extends string> = [Argument] extends [never]
  ? undefined
  : Argument extends `${string}...${string}`
    ? readonly string[]
    : Argument extends `[${string}`
      ? string | undefined
      : string;

/** The value of a flag, from `min` to `max`. Throws USAGE that names the flag, as all of these functions do. */
export function wholeNumber(flag: string, text: string, max = Number.MAX_SAFE_INTEGER, min = 0): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  const upTo = max === Number.MAX_SAFE_INTEGER ? '' : ` to ${max}`;
  throw usage(`${flag}: expected a whole number from ${min}${upTo}, got "${text}".`);
}

/** Parses `host` or `host:port` from the value of a flag. */
export function hostOf(flag: string, text: string): string {
  const host = allowedHost(text);
  if (host !== null) return host;
  throw usage(`${flag}: expected host or host:port, got "${text}".`);
}

/** Parses a duration to milliseconds. */
export function durationOf(flag: string, text: string, minMs = 0, maxMs = Infinity): number {
  const ms = parseDuration(text);
  if (ms === null) throw usage(`${flag}: expected a duration such as ${durationExamples}, got "${text}".`);
  if (ms >= minMs && ms <= maxMs) return ms;
  throw usage(`${flag}: expected ${formatDuration(minMs)} to ${formatDuration(maxMs)}, got "${text}".`);
}

export function oneOf<const Choice extends string>(flag: string, text: string, choices: readonly Choice[]) {
  const found = choices.find((choice) => choice === text);
  if (found !== undefined) return found;
  const [last = '', ...others] = choices.toReversed();
  throw usage(`${flag}: expected ${others.toReversed().join(', ')} or ${last}, got "${text}".`);
}

/** The parts of `process.stdin` that are used. */
export interface Input extends AsyncIterable<string | Uint8Array> {
  readonly isTTY?: boolean;
}

/**
 * Reads all of standard input as text, for a flag whose value is `-`. Throws USAGE for more than `maxBytes` and for
 * text that is not UTF-8, or the signal's reason.
 */
export async function readInput(input: Input, maxBytes: number, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  return await orAborted(collect(input, maxBytes), signal);
}

async function collect(input: Input, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk);
    length += bytes.length;
    if (length > maxBytes) throw usage(`Standard input: expected at most ${maxBytes} bytes, got more.`);
    chunks.push(bytes);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw usage('Standard input: expected a text in UTF-8, got other bytes.');
  }
}

/** Shows these lines, the last of which asks, and resolves to the answer. */
export type Ask = (...lines: readonly string[]) => Promise<string>;

/** Questions to a person, one line for each answer; null off a terminal. The caller disposes it. */
export function openQuestions({ input, terminal, signal }: CommandContext) {
  const given = input();
  if (given.isTTY !== true || terminal.isJson) return null;
  const reader = createInterface({ input: Readable.from(given) });
  const lines = reader[Symbol.asyncIterator]();
  const ask: Ask = async (...question) => {
    terminal.note('', ...question);
    terminal.prompt();
    const { value, done } = await orAborted(lines.next(), signal);
    if (done === true) throw usage('Expected an answer, and the input has ended. Nothing was written.');
    return value.trim();
  };
  return { ask, [Symbol.dispose]: () => reader.close() };
}

/** Resolves when the signal is aborted. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
