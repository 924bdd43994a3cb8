import { describeSettings } from '../../settings/describe-settings.ts';
import { settingsJsonSchema } from '../../settings/settings-file.ts';
import { command, type CommandContext } from '../command.ts';

export const config = command({
  commands: {
    show: command({
      description: 'Show the checked config with defaults filled in, without secrets.',
      run: async (context) => show(context, describeSettings(await context.settings())),
    }),
    schema: command({
      description: 'Print the JSON Schema of the config file, for editors.',
      run: async (context) => show(context, settingsJsonSchema()),
    }),
  },
});

/** JSON in both cases: indented for people, one line for programs. */
function show({ terminal }: CommandContext, document: object): void {
  terminal.printJson(document);
  terminal.print(JSON.stringify(document, null, 2));
}
