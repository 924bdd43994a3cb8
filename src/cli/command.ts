import type { Command } from 'commander';
import type { CommandContext } from './command-context.ts';
import type { ExitCode } from './output/exit-codes.ts';

/** How a command stands to what else is shown while it runs. */
export interface EnterOptions {
  /** The command's stderr is a log: every other message becomes a log line too. */
  readonly isLogged?: boolean;
  /** What the first Ctrl-C reports, where that is not about pages. */
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

/** The text of an option, and what it is without the option; one that is required has no value without it. */
type OptionText =
  | string
  | { readonly text: string; readonly default: string }
  | { readonly text: string; readonly isRequired: true };

type OptionTexts = Readonly<Record<string, OptionText>>;

interface CommandParts<Argument extends string, Options extends OptionTexts> {
  /** Of a subcommand; those of commands stand in `commands.ts`. */
  readonly description?: string;
  /** As Commander writes it (`<one>`, `[one]`, `<some...>`), and its text. */
  readonly argument?: readonly [Argument, string];
  /** The text of each option by its flags, as Commander writes them: `-k, --key <name=value...>`. */
  readonly options?: Options;
  /** What `--help` shows below the options. */
  readonly help?: string;
  readonly commands?: Readonly<Record<string, AddCommand>>;
  readonly enter?: (flags: FlagsOf<Options>) => EnterOptions;
  readonly run?: (
    context: CommandContext,
    flags: FlagsOf<Options>,
    argument: ArgumentOf<Argument>,
  ) => Promise<ExitCode | void>;
}

/** A command as data: what it takes, what its help shows, what it does. */
export function command<
  const Argument extends string = never,
  const Options extends OptionTexts = OptionTexts,
>(parts: CommandParts<Argument, Options>): AddCommand {
  const { description, argument, options, help, commands = {}, enter = () => ({}), run } = parts;
  return (added, enterContext) => {
    if (description !== undefined) added.description(description);
    if (argument !== undefined) added.argument(...argument);
    for (const [flags, option] of Object.entries(options ?? {})) {
      if (typeof option === 'string') added.option(flags, option);
      else if ('default' in option) added.option(flags, option.text, option.default);
      else added.requiredOption(flags, option.text);
    }
    if (help !== undefined) added.addHelpText('after', help);
    for (const [name, add] of Object.entries(commands)) add(added.command(name), enterContext);
    if (run === undefined) return;
    added.action(async (...given: readonly unknown[]) => {
      // `as`: Commander gives what the parts describe.
      const flags = flagsOf(added) as FlagsOf<Options>;
      const value = (argument === undefined ? undefined : given[0]) as ArgumentOf<Argument>;
      await enterContext((context) => run(context, flags, value), enter(flags));
    });
  };
}

/** An option that was not given is false, or no values. */
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
