import type { Command } from 'commander';
import { describeSettings } from '../settings/describe-settings.ts';
import { settingsJsonSchema } from '../settings/settings-file.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { loadConfig } from './load-config.ts';

export function addConfig(program: Command, enter: Enter): void {
  const config = program.command('config').description('The config as it is understood, and its format.');
  config
    .command('show')
    .description('The checked config with defaults filled in, secrets left out.')
    .action(() => enter(async (context) => show(context, describeSettings(loadConfig(context)))));
  config
    .command('schema')
    .description('The JSON Schema of the config file, for editors.')
    .action(() => enter(async (context) => show(context, settingsJsonSchema())));
}

/** JSON in both cases: indented for people, one line for programs. */
function show({ terminal }: CommandContext, document: object): ExitCode {
  terminal.printJson(document);
  terminal.print(JSON.stringify(document, null, 2));
  return exitCodes.ok;
}
