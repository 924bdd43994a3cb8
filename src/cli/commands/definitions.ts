import { usage } from '../../core/errors.ts';
import { dataDictionary } from '../../definitions/describe-tables.ts';
import { command, type CommandContext } from '../command.ts';
import { definitionWithId } from '../find-in-workspaces.ts';
import { openPatientApp } from '../output/show-run.ts';
import { fittingTable, leftColumns } from '../output/text-table.ts';
import { checkFiles } from './definitions/check-files.ts';
import { importDefinition } from './definitions/import-definition.ts';
import { listDefinitions, showDefinition } from './definitions/show-definition.ts';
import { tryEntity } from './definitions/try-entity.ts';

export const definitions = command({
  options: {
    '--name <text>': 'only names that contain the text (case-insensitive)',
    '--dictionary <definition>': 'print what tables of this definition hold, as Markdown; asks no API',
  },
  help: `
Examples:
  $ connector-sync definitions --name mail
  $ connector-sync definitions --dictionary email-marketing > dictionary.md`,
  commands: {
    list: listDefinitions,
    show: showDefinition,
    check: checkFiles,
    try: tryEntity,
    import: importDefinition,
  },
  run: async (context, { name, dictionary }) =>
    dictionary === undefined
      ? await showOffered(context, name ?? null)
      : await printDictionary(context, dictionary),
});

/** Prints the data dictionary of a definition, built-in or user-written. */
async function printDictionary(context: CommandContext, name: string): Promise<void> {
  const { definitions } = await context.settings();
  const definition = definitions.get(name);
  if (definition === undefined) {
    throw usage(`There is no definition "${name}"; the config knows ${[...definitions.keys()].join(', ')}.`);
  }
  const text = dataDictionary(definition, `connector-sync definitions --dictionary ${name}`);
  context.terminal.printJson({ definition: name, dictionary: text });
  context.terminal.print(text.trimEnd());
}

async function showOffered(context: CommandContext, name: string | null): Promise<void> {
  const settings = await context.settings('api', 'access');
  const { terminal, signal } = context;
  await using app = await openPatientApp(context, settings, 'definitions');
  const offered = await app.client.definitions(name, signal);
  const found = offered.map((one) => ({
    ...one,
    definition: definitionWithId(settings, one.id)?.name ?? null,
  }));
  terminal.printJson({ definitions: found });
  if (found.length === 0) {
    terminal.print(
      name === null ? 'The API offers no connector types.' : `No connector type matches "${name}".`,
    );
    return;
  }
  const rows = found.map((one) => [one.name, one.definition ?? '', one.id ?? '']);
  terminal.print(...fittingTable(columns, rows, terminal.columns()));
}

const columns = leftColumns('name', 'definition', 'id');
