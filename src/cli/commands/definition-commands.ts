import { fittingTable, leftColumns, marks } from '../output/text-table.ts';
import { readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { usage } from '../../core/errors.ts';
import { asRead, formatWithColumn } from '../../core/problems.ts';
import type { Definition, OpenGuess } from '../../definitions/definition.ts';
import { checkOwnDefinitions } from '../../definitions/load-definitions.ts';
import { counted } from '../../telemetry/format.ts';
import { command, type CommandContext } from '../command.ts';
import { exitCodes } from '../output/exit-codes.ts';
import { dataDictionary } from '../../definitions/describe-tables.ts';
import { definitionWithId } from '../find-in-workspaces.ts';
import { openPatientApp } from '../output/show-run.ts';
import { importDefinition } from './definitions/import-definition.ts';
import { listDefinitions, showDefinition } from './definitions/show-definition.ts';
import { tryEntity } from './definitions/try-entity.ts';

const checkFiles = command({
  description:
    'Report mistakes of definition files by line, each TODO, and unproven guesses; needs no config.',
  argument: ['<file...>', 'definition files, or folders of them'],
  help: '\nExample:\n  $ connector-sync definitions check my-definitions/*.yaml',
  run: async ({ terminal, cwd }, _flags, files) => {
    const byPath = new Map(
      files.flatMap((file) => filesAt(file, cwd)).map((file) => [resolve(cwd, file), file]),
    );
    const checked = checkOwnDefinitions([...byPath.keys()]).map((one) => ({
      ...one,
      problems: asRead(one.problems),
      unproven: unprovenOf(one.definition),
    }));
    const isSound = checked.every(({ problems }) => problems.length === 0);
    terminal.printJson({
      ok: isSound,
      files: checked.map(({ file, name, problems, definition, unproven }) => {
        return { file, definition: name, problems, todos: definition?.todos ?? [], unproven };
      }),
    });
    for (const { file, definition, problems, unproven } of checked) {
      const shown = byPath.get(file) ?? file;
      if (definition === null) {
        terminal.print(`${marks.failed} ${shown}: ${counted(problems.length, 'mistake')}`);
        terminal.print(...problems.map((one) => `  ${formatWithColumn({ ...one, file: shown })}`));
      } else {
        const entities = counted(definition.entities.size, 'entity', 'entities');
        const { name, title, todos } = definition;
        const mark = todos.length + unproven.length === 0 ? marks.ok : marks.warning;
        terminal.print(`${mark} ${shown}: ${name} (${title}), ${entities}`);
        terminal.print(...todos.map(({ line, text }) => `  ${shown}:${line}: TODO ${text}`));
        terminal.print(
          ...unproven.map(({ entity, open }) => `  ${entity}: not proven: ${open.map(openText).join(', ')}`),
        );
        if (unproven.length > 0) terminal.print(`  ${howToProve}`);
      }
    }
    return isSound ? exitCodes.ok : exitCodes.usage;
  },
});

const howToProve =
  'Prove guesses with "connector-sync definitions try <file> <entity> --prove", or answer for them: accept: [key].';

/** The entities with guesses that nothing confirms. */
function unprovenOf(definition: Definition | null) {
  return [...(definition?.entities.values() ?? [])].flatMap(({ name, draft }) =>
    draft === null || draft.open.length === 0 ? [] : [{ entity: name, open: draft.open }],
  );
}

function openText({ guess, provenOn }: OpenGuess): string {
  return provenOn === null ? guess : `${guess} (its request was edited after ${provenOn})`;
}

/** Lists the definition files in a folder; any other name is a file. */
function filesAt(name: string, cwd: string): readonly string[] {
  if (statSync(resolve(cwd, name), { throwIfNoEntry: false })?.isDirectory() !== true) return [name];
  const found = readdirSync(resolve(cwd, name)).filter((one) => /\.ya?ml$/.test(one));
  if (found.length === 0) throw usage(`${name} has no definition files: expected *.yaml.`);
  return found.toSorted().map((one) => join(name, one));
}

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
  const found = (await app.client.definitions(name, signal)).map((one) => ({
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
  terminal.print(...fittingTable(leftColumns('name', 'definition', 'id'), rows, terminal.columns()));
}
