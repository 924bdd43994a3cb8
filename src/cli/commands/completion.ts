import type { Command, Option } from 'commander';
import type { LocalSettings } from '../../settings/settings.ts';
import { type AddCommand, command, type CommandContext, oneOf } from '../command.ts';
import { loadConfig } from '../load-config.ts';

export const completion = command({
  argument: ['<shell>', 'bash or zsh'],
  help: `
Prints a script that completes commands, options, and the connectors, entities, sinks, targets and definitions of the
config. Put the line for your shell into its start-up file:

  bash  source <(connector-sync completion bash)
  zsh   source <(connector-sync completion zsh)    below compinit`,
  run: async ({ terminal }, _flags, shell) => {
    terminal.print(completionScripts[oneOf('completion', shell, shells)].trimEnd());
  },
});

/**
 * Called by the completion scripts at each key press: reads the words so far, the last one unfinished, and prints one
 * candidate per line. Without output the shell completes file names. A config that cannot be read offers no names.
 */
export const complete: AddCommand = (added, enter) => {
  added.argument('<shell>').argument('[words...]');
  added.action(async (shell: string, words: readonly string[]) => {
    await enter(
      async (context) => {
        const found = await candidates(context, added.parent ?? added, words);
        context.terminal.print(...found.map((one) => (shell === 'zsh' ? zshLine(one) : one.value)));
      },
      { isWatching: true },
    );
  });
};

interface Candidate {
  readonly value: string;
  readonly text: string;
}

function zshLine({ value, text }: Candidate): string {
  return `${value.replaceAll(':', '\\:')}:${text.split('\n', 1)[0] ?? ''}`;
}

async function candidates(context: CommandContext, program: Command, words: readonly string[]) {
  const typed = read(program, words);
  const { current, on, given, pending } = typed;
  const matching = (all: readonly Candidate[], text: string): readonly Candidate[] =>
    all.filter(({ value }) => value.startsWith(text));
  if (pending !== null) return matching(await valuesOf(context, placeholderOf(pending), typed), current);
  if (current.startsWith('-')) return matching(optionsOf(on, program), current);
  const argument = on.registeredArguments[given.length] ?? on.registeredArguments.at(-1);
  const isTaken =
    argument === undefined || (given.length >= on.registeredArguments.length && !argument.variadic);
  const values = isTaken ? [] : await valuesOf(context, argument.name(), typed);
  return matching([...(given.length === 0 ? subcommands(on) : []), ...values], current);
}

interface Typed {
  /** The unfinished word. */
  readonly current: string;
  /** The command that the previous words lead to, and its arguments. */
  readonly on: Command;
  readonly given: readonly string[];
  /** The option whose value is being typed. */
  readonly pending: Option | null;
  readonly config: string | null;
}

/** Reads words as Commander does. bash passes `--config=x` as three words. */
function read(program: Command, words: readonly string[]): Typed {
  let on = program;
  let pending: Option | null = null;
  let config: string | null = null;
  const given: string[] = [];
  for (const word of words.slice(0, -1)) {
    if (word === '=') continue;
    const [name = '', inline] = word.split('=', 2);
    if (word.startsWith('-')) {
      const option = [...on.options, ...program.options].find(
        ({ long, short }) => name === long || name === short,
      );
      pending = option === undefined || option.isBoolean() || inline !== undefined ? null : option;
      if (option?.long === '--config' && inline !== undefined) config = inline;
    } else if (pending !== null) {
      if (pending.long === '--config') config = word;
      if (!pending.variadic) pending = null;
    } else {
      const sub = given.length === 0 ? on.commands.find((one) => one.name() === word) : undefined;
      if (sub === undefined) given.push(word);
      else on = sub;
    }
  }
  const last = words.at(-1) ?? '';
  return { current: last === '=' ? '' : last, on, given, pending, config };
}

function subcommands(on: Command): readonly Candidate[] {
  return on
    .createHelp()
    .visibleCommands(on)
    .map((one) => ({ value: one.name(), text: one.description() }));
}

function optionsOf(on: Command, program: Command): readonly Candidate[] {
  return [...on.createHelp().visibleOptions(on), ...program.options].flatMap(({ long, description }) =>
    long === undefined || long === null ? [] : [{ value: long, text: description }],
  );
}

/** `sink` of `--to <sink>`. */
function placeholderOf({ flags }: Option): string {
  return /[<[]([\w-]+)/.exec(flags)?.[1] ?? '';
}

async function valuesOf(context: CommandContext, placeholder: string, { current, given, config }: Typed) {
  const settings = readConfig({ ...context, config: config ?? context.config });
  if (settings === null) return [];
  const { connectors, definitions, sinks, publish } = settings;
  const named = (names: Iterable<string>): readonly Candidate[] =>
    [...names].map((value) => ({ value, text: '' }));
  const entitiesOf = (name: string): readonly string[] => {
    for (const connector of connectors.values()) {
      if (connector.name === name) return [...connector.definition.entities.keys()];
    }
    return [];
  };
  switch (placeholder) {
    case 'connector':
    case 'connectors':
      return [...connectors.values()].map(({ name, definition }) => ({ value: name, text: definition.name }));
    case 'connector/entity': {
      const [name = '', entity] = current.split('/', 2);
      return entity === undefined
        ? named([...connectors.keys()].map((one) => `${one}/`))
        : named(entitiesOf(name).map((one) => `${name}/${one}`));
    }
    case 'entity':
    case 'glob':
      return named(new Set(given.flatMap(entitiesOf)));
    case 'definition':
      return named(definitions.keys());
    case 'sink':
      return named(sinks.keys());
    case 'target':
      return named(publish.keys());
    default:
      return [];
  }
}

function readConfig(context: CommandContext): LocalSettings | null {
  try {
    return loadConfig(context);
  } catch {
    // Problems of the config are not shown while a person types; every other command shows them.
    return null;
  }
}

const shells = ['bash', 'zsh'] as const;

/** Scripts for each shell. They pass the typed words to the program and never evaluate them. */
const completionScripts: Readonly<Record<(typeof shells)[number], string>> = {
  bash: `
_connector_sync() {
  local IFS=$'\\n'
  COMPREPLY=($(connector-sync complete bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ \${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -o default -F _connector_sync connector-sync
`,
  zsh: `
_connector_sync() {
  local -a found
  found=("\${(@f)$(connector-sync complete zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -z \${found[1]} ]]; then
    _files
  elif [[ \${found[1]} == */: ]]; then
    compadd -S '' -- "\${(@)found%:}"
  else
    _describe -V 'connector-sync' found
  fi
}
compdef _connector_sync connector-sync
`,
};
