import type { Command } from 'commander';
import { describeSettings } from '../../settings/describe-settings.ts';
import { settingsJsonSchema } from '../../settings/settings-file.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { loadConfig } from '../load-config.ts';

export function addConfig(config: Command, enter: Enter): void {
  config
    .command('show')
    .description('Show the checked config with defaults filled in, without secrets.')
    .action(() => enter(async (context) => show(context, describeSettings(loadConfig(context)))));
  config
    .command('schema')
    .description('Print the JSON Schema of the config file, for editors.')
    .action(() => enter(async (context) => show(context, settingsJsonSchema())));
}

/** JSON in both cases: indented for people, one line for programs. */
function show({ terminal }: CommandContext, document: object): ExitCode {
  terminal.printJson(document);
  terminal.print(JSON.stringify(document, null, 2));
  return exitCodes.ok;
}
