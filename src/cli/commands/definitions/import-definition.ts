import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join, resolve, relative } from 'node:path';
import { usage } from '../../../core/errors.ts';
import type { Definition } from '../../../definitions/definition.ts';
import { furtherListings, unlistedEntities, type ModeName } from '../../../definitions/import/sent-values.ts';
import {
  importService,
  type Imported,
  outcomeText,
  totalsOf,
  wordOf,
} from '../../../definitions/import/import-service.ts';
import { plainService, readPlainFile } from '../../../definitions/import/plain-file.ts';
import { prefix } from '../../../definitions/import/schemas.ts';
import { readServiceFile, type ServiceFile } from '../../../definitions/import/service-file.ts';
import { parseDefinition } from '../../../definitions/load-definitions.ts';
import { readText } from '../../../definitions/read-yaml.ts';
import { firstNames } from '../../../definitions/suggest-name.ts';
import { fillTemplate } from '../../../definitions/upstream/service-texts.ts';
import { counted, printable } from '../../../telemetry/format.ts';
import { command, oneOf, type CommandContext, type FlagsOf } from '../../command.ts';
import { shellWord } from '../../environment.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { fittingTable, leftColumns, wrapped } from '../../output/text-table.ts';
import { writeGenerated, type WrittenFile } from '../publish/write-generated.ts';

const options = {
  '-o, --output <folder>': 'folder of definitions to write to',
  '--from <kind>':
    'what the file is: connector, airbyte for a low-code manifest, or openapi for the OpenAPI 3 file of any service (default: by its content)',
  '--path <path...>':
    'of an OpenAPI file: a GET that answers with a list, such as /tickets, or cases=/tickets to name its entity; without any they are listed',
  '--mode <mode>':
    'hosted: read through an API; direct: from the service itself; or both, a file for each (default: both; of a file other than a connector.yaml direct)',
} as const;

export const importDefinition = command({
  description: 'Make definitions of a connector.yaml, an OpenAPI file or a low-code manifest.',
  argument: [
    '<file>',
    'a connector.yaml (an OpenAPI document that names entities and actions), the OpenAPI file of a service, a manifest.yaml of a low-code connector, or a folder of manifests, of which only a table is shown',
  ],
  options,
  help: `
Every entity is converted, or refused with the reason. What the file leaves open is a guess under a line with "# TODO" in the
written definition: write what it asks for and remove the line; until then "sync" refuses the entity. "definitions check" lists
these lines. Nothing is downloaded, and no template of the file is run.

Examples:
  $ connector-sync definitions import connector.yaml -o my-definitions
  $ connector-sync definitions import manifest.yaml -o my-definitions
  $ connector-sync definitions import openapi.yaml
  $ connector-sync definitions import openapi.yaml --path /tickets --path /users/{id}/orders -o my-definitions`,
  enter: () => ({ stopping: 'Stopping.' }),
  run: runImport,
});

type ImportFlags = FlagsOf<typeof options>;

async function runImport(context: CommandContext, flags: ImportFlags, file: string): Promise<ExitCode> {
  const { cwd, terminal } = context;
  const path = resolve(cwd, file);
  const from = fromOf(flags, path);
  if (from !== 'openapi' && flags.path.length > 0) {
    throw usage('--path: this file names its entities, and all of them are imported.');
  }
  const modes = modesOf(flags, from);
  if (from === 'openapi' && flags.path.length === 0) return showListings(context, file);
  if (from === 'airbyte' && isFolder(path)) return await showManifests(context, path);
  if (flags.output === undefined) throw usage('Expected -o <folder>, the folder of definitions to write to.');
  const folder = resolve(cwd, flags.output);
  const { service, imports } = await importFile(from, path, modes, flags.path);
  const replaced = replacedDefinitions(folder, imports);
  const files = definitionFiles(service, imports, replaced);
  const written = writeGenerated(folder, files);
  const edited = files.filter((_, index) => written[index]?.outcome === 'edited');
  writeGenerated(
    folder,
    edited.map((one) => ({ ...one, path: `${one.path}.new` })),
  );
  terminal.printJson({
    service: { name: service.name, version: service.version, sha256: service.sha256 },
    imports: imports.map((one) => ({
      mode: one.mode,
      definition: one.definition?.name ?? null,
      totals: totalsOf(one),
      entities: Object.fromEntries(
        [...one.outcomes].map(([entity, outcome]) => [
          entity,
          { outcome: wordOf(outcome), details: outcomeText(outcome) },
        ]),
      ),
    })),
    files: written,
  });
  showImports(context, service, imports);
  showNext(context, folder, imports, written, replaced.flatMap(replacedText));
  return written.length === 0 ? exitCodes.failed : exitCodes.ok;
}

type From = 'connector' | 'openapi' | 'airbyte';

/** The facts that are shown of a file that was imported. */
type Described = Pick<ServiceFile, 'file' | 'name' | 'title' | 'version' | 'sha256'> & {
  /** Further facts for people: entities that the file does not list, and lists that are not read. */
  readonly notes: readonly string[];
};

/** The kind of a file, by its content where none is asked for. */
export function fromOf({ from }: Pick<ImportFlags, 'from'>, path: string): From {
  if (from !== undefined) return oneOf('--from', from, ['connector', 'openapi', 'airbyte']);
  if (isFolder(path)) return 'airbyte';
  const read = readText(path);
  const text = typeof read === 'string' ? read : '';
  if (text.includes(`${prefix}action`)) return 'connector';
  const isManifest = /\btype["']?\s*:\s*["']?DeclarativeSource\b/.test(text) || /^streams:/m.test(text);
  return isManifest ? 'airbyte' : 'openapi';
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** `paths`: the listings of an OpenAPI file. Throws `ProblemsError` and USAGE. */
export async function importFile(
  from: From,
  path: string,
  modes: readonly ModeName[],
  paths: readonly string[],
) {
  return from === 'airbyte' ? await importedManifest(path) : importedService(from, path, modes, paths);
}

function importedService(from: From, path: string, modes: readonly ModeName[], paths: readonly string[]) {
  const service = from === 'openapi' ? plainService(readPlainFile(path), paths) : readServiceFile(path);
  const notes = [...unlistedEntities(service), ...furtherListings(service)].map(
    ({ entity, why }) => `Left out: ${entity}, because ${why}.`,
  );
  const imports: readonly Imported[] = modes.map((one) => importService(service, one));
  const described: Described = { ...service, notes };
  return { service: described, imports };
}

async function importedManifest(path: string) {
  const { readManifest } = await import('../../../definitions/import/manifest-file.ts');
  const { importManifest } = await import('../../../definitions/import/import-manifest.ts');
  const manifest = readManifest(path);
  const imported = importManifest(manifest);
  const service: Described = { ...manifest, title: imported.title, notes: [] };
  const imports: readonly Imported[] = [imported];
  return { service, imports };
}

type Replaced = ReturnType<typeof replacedDefinitions>[number];

/**
 * Compares the definitions of an earlier import with the new ones. `gone`: entities that the new one lacks; `address`:
 * the new address for credentials, to which a person must agree.
 */
function replacedDefinitions(folder: string, imports: readonly Imported[]) {
  return imports.flatMap(({ definition }) => {
    const file = join(folder, `${definition?.name}.yaml`);
    if (definition === null || !existsSync(file)) return [];
    const before = parseDefinition(file, readFileSync(file, 'utf8')).definition;
    const after = parseDefinition(file, definition.text).definition;
    if (before === null || after === null) return [];
    const gone = [...before.entities.keys()].filter((entity) => !after.entities.has(entity));
    return [{ name: definition.name, gone, address: addressChange(before, after) }];
  });
}

/**
 * The change of the service's address, to which credentials are sent; null: it is the same, or one of them has none.
 */
function addressChange(before: Definition, after: Definition) {
  const [from, to] = [before, after].map(({ upstream }) =>
    upstream === null ? null : fillTemplate(upstream.baseUrl, (name) => `{${name}}`),
  );
  return typeof from !== 'string' || typeof to !== 'string' || from === to ? null : { from, to };
}

function replacedText({ name, gone, address }: Replaced): readonly string[] {
  const lost = `${name}.yaml had ${firstNames(gone)}, and this import leaves them out; what is stored of them stays.`;
  const moved = `${name}.yaml stays as it is: its address would change from ${address?.from} to ${address?.to}, and credentials would be sent there. If that is right, put ${name}.yaml.new in its place.`;
  return [...(gone.length === 0 ? [] : [`! ${lost}`]), ...(address === null ? [] : [`! ${moved}`])];
}

function modesOf({ mode }: ImportFlags, from: From): readonly ModeName[] {
  const chosen = mode === undefined ? null : oneOf('--mode', mode, ['hosted', 'direct', 'both']);
  if (from === 'connector') return chosen === null || chosen === 'both' ? ['hosted', 'direct'] : [chosen];
  if (chosen === null || chosen === 'direct') return ['direct'];
  throw usage(
    `--mode ${chosen}: this file describes the service itself, and is read in direct mode only. For hosted mode the API needs a connector of the service: import its connector.yaml.`,
  );
}

/** The files to write, without their first line. `replaced`: definitions of an earlier import. */
export function definitionFiles(
  { file, name, version }: Described,
  imports: readonly Imported[],
  replaced: readonly Replaced[],
) {
  const isMoved = (of: string): boolean => replaced.some((one) => one.name === of && one.address !== null);
  return imports.flatMap(({ definition }) =>
    definition === null
      ? []
      : [
          {
            path: `${definition.name}.yaml${isMoved(definition.name) ? '.new' : ''}`,
            from: `${basename(file)} (${name} ${version})`,
            body: definition.text,
          },
        ],
  );
}

/** Shows the result for every entity, in each mode. */
export function showImports(
  { terminal }: CommandContext,
  service: Described,
  imports: readonly Imported[],
): void {
  const width = terminal.columns();
  for (const one of imports) {
    const { entities, converted, open, refused } = totalsOf(one);
    const results = `${converted - open} converted, ${open} with a TODO, ${refused} refused`;
    terminal.print(`${service.title} (${one.mode}): ${counted(entities, 'entity', 'entities')}, ${results}.`);
    const rows = [...one.outcomes].map(([entity, outcome]) => [
      entity,
      wordOf(outcome).replace('todo', 'TODO'),
      outcomeText(outcome),
    ]);
    terminal.print(...fittingTable(leftColumns('entity', 'outcome', 'details'), rows, width), '');
    if (one.mode !== 'direct' || one.definition === null) continue;
    for (const { title, auth, why } of one.ways) {
      if (auth === null) terminal.print(...wrapped(`Left out: the sign-in ${title}, because ${why}.`, width));
    }
  }
  for (const note of service.notes) terminal.print(...wrapped(note, width));
}

/** Shows the written files and the next steps. */
function showNext(
  { terminal, cwd, program }: CommandContext,
  folder: string,
  imports: readonly Imported[],
  written: readonly WrittenFile[],
  notes: readonly string[],
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
  for (const note of notes) terminal.print(...wrapped(note, terminal.columns()));
  if (written.length === 0) {
    terminal.print('No definition was written: no entity is converted.');
    return;
  }
  for (const { mode, definition, outcomes } of imports) {
    if (definition === null) continue;
    const path = shown(join(folder, `${definition.name}.yaml`));
    const [entity = ''] = [...outcomes].find(([, { kind }]) => kind === 'converted') ?? [];
    const kept = readFileSync(join(folder, `${definition.name}.yaml`), 'utf8');
    for (const { line, text } of parseDefinition(path, kept).definition?.todos ?? []) {
      terminal.print(...wrapped(`! ${path}:${line}: TODO ${text}`, terminal.columns()));
    }
    const lines =
      mode === 'hosted'
        ? [`definitions show ${path}`, `definitions check ${path}`, 'init --base-url <address of the API>']
        : [`definitions try ${path} ${entity}`, `init --direct ${path}`];
    terminal.print(`Next, ${nextOf[mode]}:`, ...lines.map((line) => `  ${program} ${line}`));
  }
}

const nextOf: Readonly<Record<ModeName, string>> = {
  hosted: 'for connectors behind an API',
  direct: 'to read a page of the service without storing it, and to write a config for "sync"',
};

/** Shows the results of importing the manifests in a folder, or in the folders in it. Nothing is written. */
async function showManifests({ terminal }: CommandContext, folder: string): Promise<ExitCode> {
  const { tableOfManifests } = await import('../../../definitions/import/import-manifest.ts');
  const found = readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isFile() && /\.ya?ml$/i.test(entry.name)) return [path];
    const inner = join(path, 'manifest.yaml');
    return entry.isDirectory() && existsSync(inner) ? [inner] : [];
  });
  if (found.length === 0) {
    throw usage(
      `${folder} has no manifest: expected files that end in .yaml, or folders with a manifest.yaml.`,
    );
  }
  const { manifests, reasons } = tableOfManifests(found.toSorted());
  terminal.printJson({ manifests, reasons });
  const width = terminal.columns();
  const rows = manifests.map(({ file, streams, converted, open, refused, problem }) => [
    printable(relative(folder, file)),
    ...(problem === null ? [streams, converted - open, open, refused].map(String) : ['-', '-', '-', '-']),
    problem === null ? '' : printable(problem),
  ]);
  terminal.print(
    ...fittingTable(leftColumns('manifest', 'streams', 'converted', 'TODO', 'refused', ''), rows, width),
    '',
    ...fittingTable(
      leftColumns('streams', 'refused because'),
      reasons.map(({ why, streams }) => [String(streams), printable(why)]),
      width,
    ),
  );
  return exitCodes.ok;
}

/** Shows the listings of a plain OpenAPI file, and the command that imports some of them. */
function showListings({ terminal, cwd, program }: CommandContext, file: string): ExitCode {
  const { listings, leftOut } = readPlainFile(resolve(cwd, file));
  const gets = listings.length + leftOut.length;
  terminal.printJson({ gets, listings, leftOut });
  terminal.print(
    `${counted(gets, 'GET operation', 'GET operations')}, of which ${listings.length} answer with a list.`,
  );
  const first =
    listings.find(({ path, isDeprecated }) => !isDeprecated && !path.includes('{')) ?? listings[0];
  const rows = listings.map(({ path, entity, records, isDeprecated }) => [
    printable(path),
    entity ?? '-',
    printable(records.map((place) => place || 'the answer').join(' or ')),
    isDeprecated ? 'deprecated' : '',
  ]);
  const columns = leftColumns('path', 'entity', 'records', '');
  const others = leftOut.map(({ path, why }) => [printable(path), why]);
  const width = terminal.columns();
  if (rows.length > 0) terminal.print(...fittingTable(columns, rows, width), '');
  if (others.length > 0) {
    terminal.print(...fittingTable(leftColumns('left out', 'because'), others, width), '');
  }
  if (first === undefined) return exitCodes.failed;
  const shown = relative(cwd, resolve(cwd, file));
  terminal.print(
    'Next, with a --path for each listing that you want:',
    `  ${program} definitions import ${shown} --path ${shellWord(printable(first.path))} -o my-definitions`,
  );
  return exitCodes.ok;
}
