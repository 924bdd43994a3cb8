import { existsSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { usage } from '../../../core/usage-error.ts';
import { noAnswers, readAnswers, type Answers, type Question } from '../../../definitions/import/answers.ts';
import { importChanges } from '../../../definitions/import/compare-definitions.ts';
import { importService, type Imported } from '../../../definitions/import/import-service.ts';
import { readManifest } from '../../../definitions/import/manifest.ts';
import type { ModeName } from '../../../definitions/import/modes.ts';
import { plainService, readPlainFile } from '../../../definitions/import/plain-file.ts';
import { outcomeText, questionsIn, reportText, totalsOf } from '../../../definitions/import/report.ts';
import { readServiceFile, type ServiceFile } from '../../../definitions/import/service-file.ts';
import { answersText } from '../../../definitions/import/write-answers.ts';
import { counted } from '../../../telemetry/format.ts';
import { command, oneOf, type CommandContext } from '../../command.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { fittingTable, leftColumns, wrapped } from '../../output/text-table.ts';
import { writeGenerated, writeWhole, type WrittenFile } from '../publish/write-generated.ts';
import { askQuestions } from './ask-questions.ts';
import { showListings } from './list-operations.ts';

export const importDefinition = command({
  description: 'Make definitions of a connector.yaml or an OpenAPI file, and a report on each entity.',
  argument: ['<file>', 'a connector.yaml: an OpenAPI document that names entities and actions; see --from'],
  options: {
    '-o, --output <folder>': 'folder of definitions to write to',
    '--from <kind>': {
      text: 'what the file is: connector, or openapi for the OpenAPI 3 file of any service',
      default: 'connector',
    },
    '--path <path...>':
      'with --from openapi: a GET that answers with a list, such as /tickets, or cases=/tickets to name its entity; without any they are listed',
    '--mode <mode>':
      'hosted: read through an API; direct: from the service itself; or both, a file for each (default: both; with --from openapi direct)',
    '--only <entities>': 'these entities and their parents, with commas between',
    '--answers <file>':
      'answers to what the file leaves open (default: import/<name>.answers.yaml in the folder)',
    '--with <manifest>': 'take keys and cursor fields from a low-code manifest.yaml of the same service',
    '--diff <file>':
      'show what differs from an earlier file or definition: columns, keys, what is read again',
  },
  help: `
Every entity is converted, asked about, or refused with the reason. On a screen it asks; elsewhere the questions
stand in the file of answers. Nothing is downloaded, and no template of the file is run.

Examples:
  $ connector-sync definitions import connector.yaml -o my-definitions
  $ connector-sync definitions import openapi.yaml --from openapi
  $ connector-sync definitions import openapi.yaml --from openapi --path /tickets --path /users/{id}/orders -o my-definitions
  $ connector-sync definitions import new/connector.yaml --diff old/connector.yaml -o my-definitions`,
  run: async (context, flags, file) => await runImport(context, flags, file),
});

export interface ImportFlags {
  readonly output: string | undefined;
  readonly from: string;
  readonly path: readonly string[];
  readonly mode: string | undefined;
  readonly only: string | undefined;
  readonly answers: string | undefined;
  readonly with: string | undefined;
  readonly diff: string | undefined;
}

async function runImport(context: CommandContext, flags: ImportFlags, file: string): Promise<ExitCode> {
  const { cwd, terminal } = context;
  const from = oneOf('--from', flags.from, ['connector', 'openapi']);
  if (from === 'connector' && flags.path.length > 0) {
    throw usage(
      '--path: a connector.yaml names its entities, see --only; a plain OpenAPI file needs --from openapi.',
    );
  }
  const modes = modesOf(flags, from);
  if (from === 'openapi' && flags.path.length === 0) return showListings(context, file);
  if (flags.output === undefined) throw usage('Expected -o <folder>, the folder of definitions to write to.');
  const read = (path: string): ServiceFile =>
    from === 'openapi' ? plainService(readPlainFile(path), flags.path) : readServiceFile(path);
  const service = read(resolve(cwd, file));
  const folder = resolve(cwd, flags.output);
  const answersFile = join(folder, 'import', `${service.name}.answers.yaml`);
  const given = answersOf(
    flags.answers === undefined ? answersFile : resolve(cwd, flags.answers),
    flags.answers,
  );
  const manifest = flags.with === undefined ? null : readManifest(resolve(cwd, flags.with));
  const only = flags.only === undefined ? null : chosenEntities(service, flags.only);
  const importWith = (answers: Answers, of: ServiceFile = service): readonly Imported[] =>
    modes.map((one) => importService(of, one, { answers, manifest, only }));
  const { answers, imports, isChanged } = await answered(context, given, importWith);
  const written = writeGenerated(folder, definitionFiles(service, imports));
  writeWhole(join(folder, 'import', `${service.name}.report.md`), reportText(service, imports));
  const questions = questionsIn(imports);
  const answersAt = flags.answers === undefined ? answersFile : resolve(cwd, flags.answers);
  if (isChanged || (questions.length > 0 && !existsSync(answersAt))) {
    writeWhole(answersAt, answersText(service.name, answers, questions));
  }
  const changes =
    flags.diff === undefined
      ? null
      : importChanges(resolve(cwd, flags.diff), imports, (old) => importWith(answers, read(old)));
  terminal.printJson({
    service: { name: service.name, version: service.version, sha256: service.sha256 },
    imports: imports.map((one) => ({
      mode: one.mode,
      definition: one.definition?.name ?? null,
      totals: totalsOf(one),
      entities: Object.fromEntries(
        [...one.outcomes].map(([entity, outcome]) => [
          entity,
          { outcome: outcome.kind, details: outcomeText(outcome) },
        ]),
      ),
    })),
    questions,
    files: written,
    changes,
  });
  showImports(context, service, imports, changes);
  showNext(context, folder, answersAt, imports, written, questions);
  return written.length === 0 && questions.length === 0 ? exitCodes.failed : exitCodes.ok;
}

function modesOf({ mode }: ImportFlags, from: 'connector' | 'openapi'): readonly ModeName[] {
  const chosen = mode === undefined ? null : oneOf('--mode', mode, ['hosted', 'direct', 'both']);
  if (from === 'connector') return chosen === null || chosen === 'both' ? ['hosted', 'direct'] : [chosen];
  if (chosen === null || chosen === 'direct') return ['direct'];
  throw usage(
    `--mode ${chosen}: a plain OpenAPI file describes the service itself, and is read in direct mode only. For hosted mode the API needs a connector of the service: import its connector.yaml.`,
  );
}

/** Answers in a file that is named must be there; in the usual place they may be. */
function answersOf(file: string, flag: string | undefined): Answers {
  return flag === undefined && !existsSync(file) ? noAnswers : readAnswers(file);
}

function chosenEntities({ operations }: ServiceFile, text: string): readonly string[] {
  const chosen = text.split(',').map((name) => name.trim());
  const known = new Set(operations.map(({ entity }) => entity));
  const unknown = chosen.find((name) => !known.has(name));
  if (unknown === undefined) return chosen;
  throw usage(`--only: the file has no entity "${unknown}"; it has ${[...known].join(', ')}.`);
}

/** On a screen, asks until nothing new is to be asked. */
async function answered(
  context: CommandContext,
  given: Answers,
  importWith: (answers: Answers) => readonly Imported[],
) {
  let [answers, imports] = [given, importWith(given)];
  const { terminal } = context;
  if (terminal.isJson || terminal.columns() === null || context.input().isTTY !== true) {
    return { answers, imports, isChanged: false };
  }
  await using asking = askQuestions(context);
  for (;;) {
    const next = await asking.ask(questionsIn(imports), answers);
    if (next === answers) return { answers, imports, isChanged: answers !== given };
    answers = next;
    imports = importWith(answers);
  }
}

function definitionFiles({ file, name, version }: ServiceFile, imports: readonly Imported[]) {
  return imports.flatMap(({ definition }) =>
    definition === null
      ? []
      : [
          {
            path: `${definition.name}.yaml`,
            from: `${basename(file)} (${name} ${version})`,
            body: definition.text,
          },
        ],
  );
}

function showImports(
  { terminal }: CommandContext,
  service: ServiceFile,
  imports: readonly Imported[],
  changes: readonly string[] | null,
): void {
  const width = terminal.columns();
  for (const one of imports) {
    const { entities, converted, asked, refused } = totalsOf(one);
    const what = `${converted} converted, ${asked} asked about, ${refused} refused`;
    terminal.print(`${service.title} (${one.mode}): ${counted(entities, 'entity', 'entities')}, ${what}.`);
    const rows = [...one.outcomes].map(([entity, outcome]) => [entity, outcome.kind, outcomeText(outcome)]);
    terminal.print(...fittingTable(leftColumns('entity', 'outcome', 'details'), rows, width), '');
  }
  if (changes !== null) terminal.print('Changes:', ...changes.map((line) => `  ${line}`), '');
}

function showNext(
  { terminal, cwd, program }: CommandContext,
  folder: string,
  answersAt: string,
  imports: readonly Imported[],
  written: readonly WrittenFile[],
  questions: readonly Question[],
): void {
  const shown = (path: string): string => relative(cwd, path) || '.';
  for (const { path, outcome } of written) {
    const file = shown(join(folder, path));
    const what =
      outcome === 'written' || outcome === 'unchanged'
        ? outcome
        : `you edited it; the new text is in ${file}.new`;
    terminal.print(`${file}: ${what}`);
  }
  if (questions.length > 0) {
    const where = `${counted(questions.length, 'question')} ${questions.length === 1 ? 'is' : 'are'} open: answer in`;
    terminal.print(...wrapped(`${where} ${shown(answersAt)} and import again.`, terminal.columns()));
  }
  if (written.length === 0) {
    terminal.print('No definition was written: no entity is converted yet.');
    return;
  }
  for (const { mode, definition, outcomes } of imports) {
    if (definition === null) continue;
    const path = shown(join(folder, `${definition.name}.yaml`));
    const [entity = ''] = [...outcomes].find(([, { kind }]) => kind === 'converted') ?? [];
    const lines =
      mode === 'hosted'
        ? [`definitions show ${path}`, `definitions check ${path}`]
        : [`definitions try ${path} ${entity}`, `init --direct ${path}`];
    terminal.print(`Next, ${nextOf[mode]}:`, ...lines.map((line) => `  ${program} ${line}`));
  }
}

const nextOf: Readonly<Record<ModeName, string>> = {
  hosted: 'for connectors behind an API',
  direct: 'to read a page of the service without storing it, and to write a config for "sync"',
};
