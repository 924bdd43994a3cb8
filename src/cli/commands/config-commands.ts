import { configView } from '../../settings/config-view.ts';
import { settingsJsonSchema } from '../../settings/settings-file.ts';
import { command } from '../command.ts';
import { configFile } from '../load-config.ts';

export const config = command({
  commands: {
    show: command({
      description: 'Show the checked config with its defaults, without secrets.',
      // JSON in both cases: indented for people, one line for programs.
      run: async (context) => {
        const { terminal } = context;
        // Refuses a config with problems, and hides its secrets.
        await context.settings();
        const document = configView({ file: configFile(context), env: context.env });
        terminal.printJson(document);
        terminal.print(JSON.stringify(document, null, 2));
      },
    }),
    schema: command({
      description: 'Print the JSON Schema of the config file, for editors.',
      run: async ({ terminal }) => {
        const schema = settingsJsonSchema();
        await terminal.printRecords(`${JSON.stringify(schema, null, terminal.isJson ? 0 : 2)}\n`);
      },
    }),
  },
});
