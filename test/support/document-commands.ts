import { readdirSync, readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { commands } from '../../src/cli/commands.ts';

/** What a person follows from top to bottom: run by tests, verbatim and in order. */
export const guides: readonly string[] = [
  'README.md',
  'docs/adding-a-connector.md',
  ...readdirSync('docs/guides').map((name) => `docs/guides/${name}`),
].toSorted();

/** Guides, and what is looked up rather than followed. */
export const documents: readonly string[] = [
  ...guides,
  ...['docs', 'docs/operations', 'docs/reference', 'docs/internals', 'docs/internals/decisions'].flatMap(
    (folder) =>
      readdirSync(folder)
        .filter((name) => name.endsWith('.md'))
        .map((name) => `${folder}/${name}`)
        .filter((document) => !guides.includes(document)),
  ),
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
];

interface UnrunCommand {
  readonly line: string;
  readonly why: string;
  /** Run in its place, so that what follows finds what it expects. */
  readonly instead?: string;
}

/** The lines of guides that no test runs. Their flags are checked as those of all others. */
export const unrunCommands: readonly UnrunCommand[] = [
  { line: 'npm ci', why: 'downloads every dependency' },
  { line: 'npm run demo', why: 'builds the program first', instead: 'connector-sync demo' },
  { line: 'npm run demo -- --revision 1', why: 'a test of README.md runs it, with its pages' },
  { line: 'connector-sync worker --http 9400', why: 'needs Redis, and runs until it is stopped' },
  {
    line: "connector-sync schedule pause newsletter --reason 'the account is being moved'",
    why: 'asks the Redis of the config where the sink is',
  },
  {
    line: 'connector-sync schedule resume newsletter',
    why: 'asks the Redis of the config where the sink is',
  },
  { line: 'connector-sync schedule list', why: 'needs Redis' },
  { line: 'connector-sync schedule run newsletter', why: 'needs Redis' },
  { line: 'connector-sync ui', why: 'serves until it is stopped' },
  {
    line: 'connector-sync connectors add --from openapi.yaml --path /tickets --credentials-env token=DESK_TOKEN',
    why: 'asks a service',
  },
];

export function blocksOf(document: string, language: string): readonly string[] {
  const fenced = new RegExp(`^ *\`\`\`${language}\n([^]*?)^ *\`\`\`$`, 'gm');
  return [...readFileSync(document, 'utf8').matchAll(fenced)].map(([, text = '']) => text);
}

/** Arguments of every call of the program that a document names, in blocks and within sentences. */
export function callsOf(document: string): readonly string[] {
  const text = readFileSync(document, 'utf8');
  const spans = [...text.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span);
  const lines = ['sh', 'bash', 'ini']
    .flatMap((language) => blocksOf(document, language))
    .flatMap((block) => block.split('\n'));
  const calls = [...spans, ...lines].flatMap((line) => {
    const [, args] =
      /^(?:LOG_LEVEL=\w+ )?(?:npx --no-install )?connector-sync (.+)$/.exec(line.trim()) ??
      /docker compose run --rm worker (.+)$/.exec(line) ??
      /node dist\/main\.js (.+)$/.exec(line) ??
      [];
    return args === undefined ? [] : [args.replace(/ +(#|&$|> |\|\| ).*$/, '')];
  });
  return [...new Set(calls)].filter((args) => !args.startsWith('<command>'));
}

/**
 * Rejects as commander does where the program has no such command, flag or argument. Nothing is run; of a word alone
 * only its name is known.
 */
export async function parseCall(args: string): Promise<void> {
  const words = [...args.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, plain = '']) => single ?? double ?? plain,
  );
  const [command] = words.flatMap((word) => commands.find(({ name }) => name === word) ?? []);
  if (command !== undefined && words.length === 1) return;
  const program = new Command('connector-sync')
    .exitOverride()
    .configureOutput({ writeErr: () => {}, writeOut: () => {} })
    .option('-c, --config <file>')
    .option('--json')
    .option('--verbose')
    .option('--debug');
  if (command !== undefined) (await command.load())(program.command(command.name), () => Promise.resolve());
  await program.parseAsync(words, { from: 'user' });
}

/** A word of a recommended command: an option, a placeholder (`${name}`, `<id>`), or a word. */
const word = String.raw`(?:\$\{[^}]+\}(?:/\$\{[^}]+\})?|<[a-z/ -]+>|--[a-z][a-z-]*|[a-z][a-z-]*(?![\w/*.]))`;
const recommended = new RegExp(
  String.raw`(?:\bconnector-sync |\$\{[\w.]*program\} |\bcommand\(` +
    '`' +
    String.raw`)(${word}(?: ${word})*)`,
  'g',
);

interface Recommended {
  readonly file: string;
  readonly call: string;
}

/** What texts of the program and of documents say to run, wherever they say it; each once. */
export function recommendedCalls(): readonly Recommended[] {
  const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.[cm]?[jt]s$/.test(name))
    .map((name) => `src/${name}`);
  const found = [...sources, ...documents].flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(recommended)].map(([, call = '']) => ({ file, call })),
  );
  return [...new Map(found.map((one) => [one.call, one])).values()];
}

/**
 * Rejects as `parseCall` does, with something for each placeholder. Words of the sentence may stand behind the command:
 * what it cannot take of them is left out, but no option and no placeholder.
 */
export async function parseRecommended(call: string): Promise<void> {
  const words = (call.match(new RegExp(word, 'g')) ?? []).map((one) =>
    one.replaceAll(/\$\{[^}]+\}|<[^>]+>/g, 'any'),
  );
  const isPlain = (at: number): boolean => /^[a-z][a-z-]*$/.test(call.split(' ')[at] ?? '');
  const isCommand = commands.some(({ name }) => name === words[0]);
  const isSentence = ['from', 'knows'].includes(words[0] ?? '') || words.every((_, at) => isPlain(at));
  if (!isPlain(0) || (!isCommand && isSentence)) return;
  for (let length = words.length; ; length -= 1) {
    try {
      await parseCall(words.slice(0, length).join(' '));
      return;
    } catch (error) {
      // The value of an option may be of any form, and is not read here.
      if (error instanceof CommanderError && error.code === 'commander.optionMissingArgument') return;
      if (length <= 1 || !isPlain(length - 1)) throw error;
    }
  }
}
