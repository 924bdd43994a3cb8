import { readFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import type { Command } from 'commander';
import { usage } from '../../core/usage-error.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { configText, environmentText, type ConfigChoices } from './init/config-template.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { configFile } from '../load-config.ts';
import { shellWord } from '../program-name.ts';
import { writePrivateFile } from '../output/write-files.ts';

interface InitFlags {
  readonly baseUrl?: string;
  readonly workspace: string;
  readonly sink: string;
}

export function addInit(command: Command, enter: Enter): void {
  command
    .option('--base-url <url>', 'address of the API (default: taken from $CONNECTOR_API_URL when it runs)')
    .option('--workspace <name>', 'workspace in which the connectors are looked up', 'default')
    .option('--sink <type>', 'sqlite or jsonl', 'sqlite')
    .addHelpText(
      'after',
      '\nExample:\n  $ connector-sync init --base-url https://api.example.com --workspace marketing',
    )
    .action((flags: InitFlags) => enter((context) => runInit(context, flags)));
}

async function runInit(context: CommandContext, flags: InitFlags): Promise<ExitCode> {
  const file = configFile(context);
  const { terminal, cwd } = context;
  // Paths in a config are relative to it; the records belong into the folder that one works in.
  const choices = choicesOf(flags, relative(dirname(file), join(cwd, 'data')));
  const shown = relative(cwd, file);
  const text = configText(choices);
  // Asked for again, the same config is no conflict.
  const isThere = (await textOf(file)) === text;
  if (!isThere) await writePrivateFile(file, text, true);
  terminal.printJson({
    file,
    environment: environmentText(choices)
      .split('\n')
      .filter((line) => line !== ''),
  });
  terminal.print(isThere ? `${shown} already exists with this content.` : `Wrote ${shown}.`);
  for (const line of nextSteps(context, shown, choices)) terminal.print(line);
  return exitCodes.ok;
}

async function textOf(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    return null; // Missing or unreadable: writing it says which.
  }
}

function choicesOf({ baseUrl, workspace, sink }: InitFlags, dataFolder: string): ConfigChoices {
  if (sink !== 'sqlite' && sink !== 'jsonl') throw usage(`--sink: expected sqlite or jsonl, got "${sink}".`);
  if (baseUrl !== undefined && !URL.canParse(baseUrl)) {
    throw usage(`--base-url: expected a URL, got "${baseUrl}".`);
  }
  return { baseUrl: baseUrl ?? null, workspace, sink, dataFolder };
}

function nextSteps(context: CommandContext, file: string, choices: ConfigChoices): readonly string[] {
  // Named only where the program would look elsewhere.
  const isFound = configFile({ ...context, config: null }) === configFile(context);
  const command = (name: string): string =>
    `${context.program} ${name}${isFound ? '' : ` --config ${shellWord(file)}`}`;
  return [
    '',
    'Next:',
    '  1. Put the credentials into the environment, or into a file .env here that only you can read:',
    ...environmentText(choices)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => `       ${line}`),
    `  2. Is everything in place?       ${command('check')}`,
    `  3. Which connectors are there?   ${command('discover')}`,
    `  4. Read them all:                ${command('sync')}`,
  ];
}
