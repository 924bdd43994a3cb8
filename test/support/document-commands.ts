import { readdirSync, readFileSync } from 'node:fs';
import { Command } from 'commander';
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
  ...['docs', 'docs/operations', 'docs/reference', 'docs/internals'].flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.endsWith('.md'))
      .map((name) => `${folder}/${name}`)
      .filter((document) => !guides.includes(document)),
  ),
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
];

export interface UnrunCommand {
  readonly line: string;
  readonly why: string;
  /** Run in its place, so that what follows finds what it expects. */
  readonly instead?: string;
}

/** The lines of guides that no test runs. Their flags are checked as those of all others. */
export const unrunCommands: readonly UnrunCommand[] = [
  { line: 'npm ci', why: 'downloads every dependency' },
  { line: 'npm run demo', why: 'builds the program first', instead: 'connector-sync demo' },
  {
    line: 'npm run demo -- --revision 1',
    why: 'builds the program first',
    instead: 'connector-sync demo --revision 1',
  },
  { line: 'connector-sync worker --http 9400', why: 'needs Redis, and runs until it is stopped' },
  {
    line: "connector-sync schedule pause newsletter --reason 'the account is being moved'",
    why: 'asks the Redis of the config where the sink is',
  },
  {
    line: 'connector-sync schedule resume newsletter',
    why: 'asks the Redis of the config where the sink is',
  },
  { line: 'connector-sync schedule list', why: 'asks the Redis of the config for the next runs' },
  { line: 'connector-sync schedule run newsletter', why: 'needs Redis' },
  { line: 'connector-sync runs --follow', why: 'runs until it is stopped' },
  { line: 'connector-sync ui', why: 'serves until it is stopped' },
];

export function blocksOf(document: string, language: string): readonly string[] {
  const fenced = new RegExp(`^ *\`\`\`${language}\n([^]*?)^ *\`\`\`$`, 'gm');
  return [...readFileSync(document, 'utf8').matchAll(fenced)].map(([, text = '']) => text);
}

/** Arguments of every call of the program that a document names, in blocks and within sentences. */
export function callsOf(document: string): readonly string[] {
  const text = readFileSync(document, 'utf8');
  const spans = [...text.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span);
  const lines = ['sh', 'ini']
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
