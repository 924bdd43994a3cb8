import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, relative } from 'node:path';
import type { Command } from 'commander';
import { SyncError } from '../core/errors.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { configText, environmentText, type ConfigChoices } from './config-template.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { configFile } from './load-config.ts';

interface InitFlags {
  readonly baseUrl?: string;
  readonly workspace: string;
  readonly sink: string;
}

export function addInit(program: Command, enter: Enter): void {
  program
    .command('init')
    .description('Write a config file to start from; never overwrites one.')
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
  const choices = choicesOf(flags);
  await mkdir(dirname(file), { recursive: true });
  try {
    await writeFile(file, configText(choices), { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    throw usage(
      `${file} is there already and stays as it is. Remove it first, or name another file with --config.`,
      error,
    );
  }
  const { terminal, cwd } = context;
  const shown = relative(cwd, file);
  terminal.printJson({
    file,
    environment: environmentText(choices)
      .split('\n')
      .filter((line) => line !== ''),
  });
  for (const line of nextSteps(shown, choices)) terminal.print(line);
  return exitCodes.ok;
}

function choicesOf({ baseUrl, workspace, sink }: InitFlags): ConfigChoices {
  if (sink !== 'sqlite' && sink !== 'jsonl') throw usage(`--sink: expected sqlite or jsonl, got "${sink}".`);
  if (baseUrl !== undefined && !URL.canParse(baseUrl))
    throw usage(`--base-url: expected a URL, got "${baseUrl}".`);
  return { baseUrl: baseUrl ?? null, workspace, sink };
}

function nextSteps(file: string, choices: ConfigChoices): readonly string[] {
  return [
    `Wrote ${file}.`,
    '',
    'Next:',
    '  1. Put the credentials into the environment, or into a file .env here that only you can read:',
    ...environmentText(choices)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => `       ${line}`),
    '  2. connector-sync check      is everything in place?',
    '  3. connector-sync discover   which connectors are there?',
    '  4. connector-sync sync',
  ];
}

function usage(message: string, cause?: unknown): SyncError {
  return new SyncError(message, { code: 'USAGE', recovery: 'stop', cause });
}
