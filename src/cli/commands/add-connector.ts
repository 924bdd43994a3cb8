import { existsSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { SyncError, usage } from '../../core/errors.ts';
import { type ConnectorName, isConnectorName } from '../../core/names.ts';
import { grouped } from '../../core/grouped.ts';
import { ProblemsError } from '../../core/problems.ts';
import { namePattern } from '../../definitions/check-names.ts';
import type { CredentialShape, Definition } from '../../definitions/definition.ts';
import type { MapValue } from '../../definitions/frozen.ts';
import { parseDefinition } from '../../definitions/load-definitions.ts';
import { credentialProblems } from '../../definitions/params.ts';
import { readText } from '../../definitions/read-yaml.ts';
import { firstNames } from '../../definitions/suggest-name.ts';
import type { Finding } from '../../engine/prove-entity.ts';
import { connectorNamed } from '../../settings/choices.ts';
import { entryGiven } from '../../settings/connector-settings.ts';
import {
  addedConnector,
  type ConfigEdit,
  connectorEntry,
  connectorsPlace,
  type ConnectorsPlace,
  environmentReference,
  freeName,
  secretReference,
  usualVariable,
  withDefinitionsFolder,
} from '../../settings/edit-connectors.ts';
import { readSettings, withParts } from '../../settings/load-settings.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import { counted, printable } from '../../telemetry/format.ts';
import { type Ask, command, type CommandContext, type FlagsOf, openQuestions } from '../command.ts';
import { withDotEnv } from '../environment.ts';
import { configFile } from '../load-config.ts';
import { exitCodes, type ExitCode, gravestExitCode } from '../output/exit-codes.ts';
import { marks } from '../output/text-table.ts';
import { checkedHere, type FileEdit, reloadCommands, writeEdits } from './connector-edits.ts';
import { definitionFrom } from './definitions/show-definition.ts';

const options = {
  '--from <file>':
    'read it at once, from the file of its service (OpenAPI, manifest.yaml, connector.yaml, a definition) or a ready service, such as stripe',
  '--path <path...>': '--from an OpenAPI file: a listing to read, such as /tickets, or cases=/tickets',
  '--definition <type>': 'the connector type (default: the one in "defaults" of the config)',
  '--id <id>': 'its id in the API, as "connectors list" shows it',
  '--workspace <name>': 'the workspace in which the API has the only connector of this type',
  '--credentials-env <field=VARIABLE...>':
    'no API: a field of its credentials, and the environment variable that holds it',
  '--credentials-file <field=file...>': 'the same in a file that only you can read',
  '--setting <name=value...>':
    'no API: a setting of its type, such as account=4711; a secret one as ${VARIABLE}',
  '--sink <name>': 'where its records go (default: "defaults" of the config, or the only sink)',
  '--every <duration>': 'how often the worker runs it: 30m, 1h, 1d',
  '--cron <pattern>': 'the same as five fields, such as "0 4 * * *"',
  '--timezone <name>': 'of --cron, such as Europe/Berlin (default: UTC)',
  '--file <file>': 'which file of "connectors:" it goes into; a new one too',
} as const;

export const addConnector = command({
  description: 'Add a connector to the config file, whose comments stay; checks the config first.',
  argument: ['[name]', 'its name in the config: the prefix of its tables (--from: that of its type)'],
  options,
  help: `
The config is checked with the new connector before anything is written, and the file is replaced as a whole. Secrets are
never written into it: it names the variable or the file that holds them. Other settings of a connector are added by hand.

--from goes the whole way: it converts the file as "definitions import" does, asks for what is missing (on a terminal; else
the flags have it), checks the connector, tests what the file leaves open as "definitions try --prove" does, writes the
definition and the config, and syncs for a minute. Before that nothing is written. An entity that cannot be read yet is left
out (exclude). Exit code 3: read, and not all is proven.

Examples:
  $ connector-sync connectors add --from openapi.yaml --path /tickets --credentials-env token=DESK_TOKEN
  $ connector-sync connectors add newsletter --definition email-marketing --workspace acme --every 1h
  $ connector-sync connectors add wiki --definition workspace-notes --credentials-env token=NOTION_TOKEN
  $ connector-sync connectors add acme --id 6f9c2d1e --file connectors/acme.yaml`,
  enter: ({ from }) => (from === undefined ? {} : { stopping: 'Stopping. Ctrl-C again quits now.' }),
  run: async (context, flags, name) => {
    using questions = flags.from === undefined ? null : openQuestions(context);
    return await addTo(context, { ...flags, name }, questions?.ask ?? null);
  },
});

type AllFlags = FlagsOf<typeof options>;
type AddFlags = Partial<AllFlags> &
  Pick<AllFlags, keyof typeof noFlags> & { readonly name?: string | undefined };

/** Flags of a person who gave none. */
export const noFlags = { path: [], credentialsEnv: [], credentialsFile: [], setting: [] } as const;

/** Entities that the connector leaves out, with the reason. */
type LeftOut = ReadonlyMap<string, string>;

/**
 * Adds a connector to the config. With `from` it reads the first rows too: it checks, tests guesses, writes the
 * definition and the config together, and syncs. `ask`: null off a terminal, where one error names each missing flag.
 */
export async function addTo(context: CommandContext, given: AddFlags, ask: Ask | null): Promise<ExitCode> {
  const { terminal, program, cwd } = context;
  const config = openConfig(context, given);
  const known = config.text === undefined ? await context.settings() : readSettings(config);
  const place = connectorsPlace(config, given.file === undefined ? null : resolve(cwd, given.file));
  const source = given.from === undefined ? null : await sourceOf(context, given, known, place, ask);
  const { flags, env } =
    source === null ? { flags: given, env: context.env } : await answered(context, given, source, ask);
  const usual = source === null ? '' : freeName(known, source.definition.name);
  const name = newName(context, known, given.name ?? usual);
  const plan = (definition: Definition | null, left: LeftOut) => {
    const asked = { ...flags, ...(definition && { definition: definition.name }) };
    const entry = entryOf({ ...context, env }, known, place, asked, definition, [...left.keys()]);
    return checkedHere(context, () => {
      const options = { ...config, env, ...(definition && { definition }) };
      const edit = addedConnector(options, place.file, { name, entry });
      return { ...edit, entry, connector: connectorNamed(edit.settings, name) };
    });
  };
  const first = plan(source?.definition ?? null, leftOut(source?.definition));
  const { address, schedule } = first.connector;
  const isLater = address.kind === 'direct' && address.signIn !== null;
  const trial = source === null || isLater ? null : await tried(context, first.settings, name, source);
  context.signal.throwIfAborted();
  const left = leftOut(trial?.definition ?? source?.definition, trial?.wrong);
  const edit = trial === null ? first : plan(trial.definition, left);
  const edits = source === null ? [edit] : editsOf(context, edit, place, { ...source, ...trial });
  writeEdits(context, edits);
  const workers = schedule === null ? null : await reloadCommands(edit.settings);
  const next = [...(isLater ? [`login ${name}`] : []), ...(workers ?? [`sync ${name}`])];
  const { entry } = edit;
  const findings = trial?.findings ?? [];
  terminal.printJson({ connector: name, file: edit.file, entry, left, findings, next });
  const shown = edits.toReversed().map(({ file }) => relative(cwd, file) || file);
  terminal.print(`Added ${name} to ${shown.join(', and wrote ')}.`);
  const code = trial === null ? exitCodes.ok : await syncFirst(context, [name]);
  const advice = adviceOf(left, findings, relative(cwd, source?.file ?? ''), program);
  terminal.print(...advice, ...next.map((one) => `Next: ${program} ${one}`));
  return gravestExitCode([code, advice.length > 0 ? exitCodes.degraded : exitCodes.ok]);
}

/** The config; with `from` a new one, which has a sink and no more. */
function openConfig(context: CommandContext, { from }: AddFlags) {
  const { env, cwd } = context;
  const file = configFile(context);
  if (from === undefined || existsSync(file)) return { file, env };
  const database = join(relative(dirname(file), cwd) || '.', 'data', 'warehouse.db');
  const path = JSON.stringify(database.startsWith('.') ? database : `./${database}`);
  const head = '# Paths are relative to this file. "connector-sync config schema" prints the format.';
  return { file, env, text: `${head}\nsinks:\n  main: { type: sqlite, path: ${path} }\n` };
}

function newName(context: CommandContext, { connectors }: LocalSettings, name: string): ConnectorName {
  if (!isConnectorName(name)) throw usage(`Expected a name of ${namePattern('_ or -')}, got "${name}".`);
  if (!connectors.has(name)) return name;
  throw usage(
    `The config has a connector ${name} already. Choose another name, or edit ${configFile(context)}.`,
  );
}

/** Makes the entry for `connectors` in the config. `definition`: that of a connector that is added with `from`. */
function entryOf(
  { env, cwd }: CommandContext,
  config: LocalSettings,
  place: ConnectorsPlace,
  flags: AddFlags,
  definition: Definition | null,
  exclude: readonly string[],
) {
  const { sinks, definitions } = config;
  const { defaults } = place;
  const { every, cron, timezone } = flags;
  if (flags.definition === undefined && !defaults.has('definition')) {
    throw usage(`--definition: expected a connector type; known are ${[...definitions.keys()].join(', ')}.`);
  }
  if (flags.sink === undefined && !defaults.has('sink') && sinks.size > 1) {
    throw usage(`--sink: expected one of ${[...sinks.keys()].join(', ')}.`);
  }
  const credentials = {
    ...referred('--credentials-env', flags.credentialsEnv, (name) =>
      Object.hasOwn(env, name) && env[name] !== '' ? environmentReference(name) : null,
    ),
    ...referred('--credentials-file', flags.credentialsFile, (name) =>
      secretReference(place.file, resolve(cwd, name)),
    ),
  };
  const settings = Object.fromEntries(
    flags.setting.map((text) => {
      const [, name, value = ''] = /^([A-Za-z][\w.-]*)=(.+)$/s.exec(text) ?? [];
      if (name !== undefined) return [name, value];
      throw usage('--setting: expected name=value, such as account=4711.');
    }),
  );
  const schedule = {
    ...(every === undefined ? {} : { every }),
    ...(cron === undefined ? {} : { cron }),
    ...(timezone === undefined ? {} : { timezone }),
  };
  const secret = Object.keys(settings).find(
    (name) =>
      definition?.settings.has(name) === false &&
      definition.credentials.some(({ fields }) => fields.get(name)?.isSecret === true),
  );
  if (secret !== undefined) throw usage(`--setting: ${secret} is secret: give it with --credentials-env.`);
  const isDirect = definition !== null && isReadDirectly(definition, flags);
  const given = isDirect
    ? entryGiven(definition, { ...credentials, ...settings })
    : { ...(Object.keys(credentials).length > 0 && { credentials }), settings };
  return connectorEntry(config, place, { ...flags, ...given, schedule, exclude });
}

/**
 * Parses references by field. An error repeats no value: a secret given by mistake must not be shown, and an unknown
 * name may be one.
 */
function referred(flag: string, given: readonly string[], referenceOf: (name: string) => string | null) {
  return Object.fromEntries(
    given.map((text) => {
      const [, field, name = ''] = /^([A-Za-z0-9_-]+)=(.+)$/s.exec(text) ?? [];
      const reference = field === undefined ? null : referenceOf(name);
      if (field !== undefined && reference !== null) return [field, reference];
      const expected =
        flag === '--credentials-env'
          ? 'field=VARIABLE with the name of a variable that is set here or in .env'
          : 'field=file with the path of a file, without { and }';
      throw usage(
        `${flag}: expected ${expected}${field === undefined ? '' : `; that of ${field} is none`}. Never the secret itself.`,
      );
    }),
  );
}

// --- Definition: from a file, or a ready one

type Source = Awaited<ReturnType<typeof sourceOf>>;

/** `file`: where the definition is stored; null: it comes with the program. `before`: its stored text; null: none. */
async function sourceOf(
  context: CommandContext,
  { from = '', path }: AddFlags,
  known: LocalSettings,
  { folders }: ConnectorsPlace,
  ask: Ask | null,
) {
  const given = resolve(context.cwd, from);
  if (!existsSync(given)) {
    const definition = definitionFrom(from, context, known);
    return { definition, text: '', file: null, before: null, missing: [] };
  }
  const read = readText(given);
  if (typeof read !== 'string') throw usage(`--from: ${from} ${read.message}`);
  const isOwn = /^entities:/m.test(read);
  const { text, missing } = isOwn ? { text: read, missing: [] } : await converted(context, given, path, ask);
  const { definition, problems } = parseDefinition(given, text);
  if (definition === null) throw new ProblemsError('DEFINITION_INVALID', problems);
  const { name, todos, entities } = definition;
  if (todos.some(({ entity }) => entity === null) || leftOut(definition).size === entities.size) {
    const open = todos.map(({ text: todo }) => todo);
    throw usage(
      `The file leaves open: ${firstNames(open, 3)}. Write a definition with "definitions import", answer that in it, and give it to --from.`,
    );
  }
  const source = { definition, text, missing };
  if (isOwn && folders.includes(dirname(given))) return { ...source, file: given, before: text };
  const file = join(folders[0] ?? join(dirname(configFile(context)), 'definitions'), `${name}.yaml`);
  const isStored = existsSync(file);
  if (!isStored && !known.definitions.has(name)) return { ...source, file, before: null };
  const other = isStored ? relative(context.cwd, file) : name;
  throw usage(`There is a definition ${name} already. For another connector of it: --from ${other}`);
}

/** The definition that an import makes of the file, and shows. `missing`: the flag for its listings. */
async function converted(context: CommandContext, file: string, path: readonly string[], ask: Ask | null) {
  const importing = await import('./definitions/import-definition.ts');
  const { readPlainFile } = await import('../../definitions/import/plain-file.ts');
  const { generatedText } = await import('./publish/write-generated.ts');
  const kind = importing.fromOf({ from: undefined }, file);
  const isOpen = kind === 'openapi' && path.length === 0;
  const all = isOpen ? readPlainFile(file).listings.map((one) => one.path) : [];
  const listings = firstNames(all.map(printable), mostShown);
  const answer =
    isOpen && ask !== null
      ? await ask(`Listings: ${listings}`, 'Which, separated by blanks? (Enter: all)')
      : '';
  const chosen = answer === '' ? all : answer.split(/[\s,]+/);
  const { service, imports } = await importing.importFile(kind, file, ['direct'], isOpen ? chosen : path);
  const missing =
    isOpen && ask === null ? [`--path <path> (${counted(all.length, 'listing')}: ${listings})`] : [];
  if (missing.length === 0) importing.showImports(context, service, imports);
  const [made] = importing.definitionFiles(service, imports, []);
  if (made === undefined) throw usage('--from: no entity of the file can be converted.');
  return { text: generatedText(made), missing };
}

const mostShown = 40;

// --- Answers: fields that no flag gives

type GivenField = MapValue<CredentialShape['fields']>;

/** Asks until the flags are complete. The environment may have been completed meanwhile. */
async function answered(context: CommandContext, given: AddFlags, source: Source, ask: Ask | null) {
  const { definition, missing } = source;
  let [flags, env] = [given, context.env];
  for (;;) {
    const fields = lackingFields(definition, flags);
    if (ask === null && missing.length + fields.length > 0) {
      throw usage(['Give these too:', ...missing, ...fields.map(flagText)].join('\n  '));
    }
    if (ask === null || fields.length === 0) return { flags, env };
    const text = await ask(
      `${definition.title} needs:`,
      ...fields.map(([name, field]) => {
        const variable = usualVariable(definition, name);
        return `  ${name}: ${formText(field)} (Enter: $${variable}${env[variable] ? '' : ', not set yet'})`;
      }),
      'Enter, or name=value separated by blanks? (.env is read again; a secret itself is never taken)',
    );
    env = withDotEnv(context.env, context.cwd).env;
    for (const [name, { isSecret }] of fields) {
      const [, typed] = new RegExp(`(?:^|\\s)${name}=(\\S+)`).exec(text) ?? [];
      const value = typed ?? (text === '' ? usualVariable(definition, name) : '');
      const isVariable = (env[value] ?? '') !== '' && (isSecret || typed === undefined);
      const kind = isVariable
        ? 'credentialsEnv'
        : isSecret && value.startsWith('file:')
          ? 'credentialsFile'
          : 'setting';
      if (kind === 'setting' && (isSecret || typed === undefined)) continue;
      flags = { ...flags, [kind]: [...flags[kind], `${name}=${value.replace(/^file:/, '')}`] };
    }
  }
}

function isReadDirectly({ upstream }: Definition, { id, workspace }: AddFlags): boolean {
  return upstream !== null && id === undefined && workspace === undefined;
}

/** Fields that the likeliest way to sign in needs and no flag gives. */
function lackingFields(definition: Definition, flags: AddFlags) {
  if (!isReadDirectly(definition, flags)) return [];
  const texts = [...flags.credentialsEnv, ...flags.credentialsFile, ...flags.setting];
  const given = Object.fromEntries(texts.map((text) => [text.replace(/=.*/s, ''), 'given']));
  const known = new Map(definition.credentials.flatMap(({ fields }) => [...fields]));
  return credentialProblems(definition, given).flatMap(({ field: name, code }) => {
    const field = known.get(name ?? '');
    return name === null || field === undefined || code !== 'missing' ? [] : [[name, field] as const];
  });
}

function formText({ isSecret, setting }: GivenField): string {
  if (isSecret) return 'the name of a variable, or file:<path>';
  return `${setting?.title ?? 'a text'}${setting?.values ? `, one of ${setting.values.join(', ')}` : ''}`;
}

function flagText([name, field]: readonly [string, GivenField]): string {
  return field.isSecret
    ? `--credentials-env ${name}=<VARIABLE>, or --credentials-file ${name}=<file>`
    : `--setting ${name}=<text> (${formText(field)})`;
}

// --- Trial: what can be read, and what is proven

/** Checks the connector as `check` does, without its sink, and tests the guesses of its entities one by one. */
async function tried(
  context: CommandContext,
  settings: LocalSettings,
  name: ConnectorName,
  { definition, text: before, file }: Source,
) {
  const { checkConnectors, withConnectors } = await import('../../app/setup-checks.ts');
  const { mostCalls, prove } = await import('./definitions/try-entity.ts');
  const { openPatientApp } = await import('../output/show-run.ts');
  const { terminal, clock, signal } = context;
  // Other connectors may lack their credentials here.
  const missing = settings.missing.filter(({ path }) => path.startsWith('api.'));
  const own = withConnectors(withParts({ ...settings, missing }, 'access'), [name]);
  const connector = connectorNamed(own, name);
  await using app = await openPatientApp(context, own, 'connectors add');
  const { connectors, pages } = await checkConnectors(app, own.access !== null, context);
  signal.throwIfAborted();
  const wrong = new Map<string, string>();
  for (const { state, what, detail, code = 'INTERNAL' } of [...connectors, ...pages]) {
    if (state === 'failed' && what === `connector ${name}`) {
      throw new SyncError(`Nothing was written: ${what}: ${detail}`, { code, recovery: 'stop' });
    }
    terminal.print(`${marks[state]} ${what}: ${printable(detail)}`);
    if (state === 'failed') wrong.set(what.replace(`page of ${name}/`, ''), detail);
  }
  const findings: (Finding & { readonly entity: string })[] = [];
  if (file === null) return { definition, text: before, wrong, findings };
  await using source = await app.openSource(connector, signal, { maxCalls: mostCalls, isTrial: true });
  let text = before;
  for (const entity of connector.definition.entities.values()) {
    const isRead = connector.entities.has(entity.name) && !wrong.has(entity.name);
    if (!isRead || (entity.draft?.open.length ?? 0) === 0) continue;
    terminal.print(`${entity.name}:`);
    const options = { definition: connector.definition, entity, source, clock, signal };
    const proofs = await prove(context, { file, text }, options);
    text = proofs.text;
    for (const one of proofs.findings) {
      findings.push({ entity: entity.name, ...one });
      if (one.verdict !== 'wrong' || wrong.has(entity.name)) continue;
      wrong.set(entity.name, `${one.guess}: ${one.why}`);
    }
  }
  return { definition: parseDefinition(file, text).definition ?? definition, text, wrong, findings };
}

/** Entities that are wrong or have a TODO, and those below them, with the reason. */
function leftOut(definition: Definition | undefined, wrong: LeftOut = new Map()): LeftOut {
  const left = new Map(wrong);
  for (const { entity, text } of definition?.todos ?? []) {
    if (entity !== null) left.set(entity, `TODO ${text}`);
  }
  for (const { name, parents } of definition?.entities.values() ?? []) {
    const above = parents.find(({ entity, byDefault }) => byDefault && left.has(entity));
    if (above !== undefined && !left.has(name)) left.set(name, `it is found through ${above.entity}`);
  }
  return left;
}

/** Entities that a person has to look at, each with what to do. */
function adviceOf(
  left: LeftOut,
  findings: readonly (Finding & { readonly entity: string })[],
  file: string,
  program: string,
): readonly string[] {
  const open = findings.filter(({ entity, verdict }) => verdict === 'open' && !left.has(entity));
  const unproven = [...grouped(open, ({ entity }) => entity)].map(([entity, list]) => {
    const guesses = list.map(({ guess }) => guess).join(', ');
    return `! ${entity}: not proven: ${guesses}. If you know that it is right, write below it: accept: [${guesses}]`;
  });
  const again = `  With more records, test it again: ${program} definitions try ${file} <entity> --prove`;
  return [
    ...[...left].map(([entity, why]) => `! ${entity}: left out (exclude in the config): ${printable(why)}`),
    ...unproven,
    ...(unproven.length === 0 ? [] : [again]),
  ];
}

/** The definition and the config to write; the first definition of a config also names its folder there. */
function editsOf(
  context: CommandContext,
  edit: ConfigEdit,
  { folders }: ConnectorsPlace,
  { file, before, text }: Pick<Source, 'file' | 'before' | 'text'>,
): readonly FileEdit[] {
  if (file === null || text === before) return [edit];
  const own = { file, before, after: text };
  if (folders.length > 0) return [own, edit];
  const config = configFile(context);
  const after = withDefinitionsFolder(config, edit.after, dirname(file));
  if (edit.file === config) return [own, { ...edit, after }];
  throw usage(`Name a folder below "definitions:" in ${config} first: the connectors are in another file.`);
}

/** Syncs for a minute at most; another sync resumes. */
export async function syncFirst(context: CommandContext, names: readonly string[]): Promise<ExitCode> {
  const { runSync } = await import('./sync.ts');
  const flags = {
    select: [],
    exclude: [],
    full: false,
    allowDeletes: false,
    dryRun: false,
    maxCalls: undefined,
  };
  return await runSync(context, { ...flags, budget: '1m' }, names);
}
