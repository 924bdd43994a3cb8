import { existsSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { usage } from '../../core/errors.ts';
import { isLoopbackHost } from '../../http/guard-address.ts';
import { shapeText } from '../../definitions/params.ts';
import type { CredentialShape, Definition } from '../../definitions/definition.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../definitions/load-definitions.ts';
import { usualVariable } from '../../settings/edit-connectors.ts';
import { readSettings, withParts } from '../../settings/load-settings.ts';
import { isSharedSink } from '../../settings/sink-settings.ts';
import { type Ask, command, type CommandContext, type FlagsOf, oneOf, openQuestions } from '../command.ts';
import { shellWord, withDotEnv } from '../environment.ts';
import { connectorTable, findInWorkspaces } from '../find-in-workspaces.ts';
import { configFile, registerSecrets } from '../load-config.ts';
import { type ExitCode, exitCodes } from '../output/exit-codes.ts';
import { openPatientApp } from '../output/show-run.ts';
import { writePrivateFile } from '../output/write-files.ts';
import { definitionFrom } from './definitions/show-definition.ts';
import { addTo, noFlags, syncFirst } from './add-connector.ts';

const options = {
  '--base-url <url>': 'address of the API (default: taken from $CONNECTOR_API_URL when it runs)',
  '--direct <service...>':
    'read services themselves, without an API, such as mailchimp, stripe, or a definition file',
  '--workspace <name>': { text: 'workspace in which the connectors are looked up', default: 'default' },
  '--sink <type>': { text: 'sqlite, jsonl or postgres', default: 'sqlite' },
} as const;

export const init = command({
  options,
  help: '\nOn a terminal, without a config and these options, it asks what to read, and reads it.\n\nExamples:\n  $ connector-sync init --direct mailchimp\n  $ connector-sync init --direct my-definitions/help-desk.yaml\n  $ connector-sync init --base-url https://api.example.com --workspace marketing',
  enter: () => ({ stopping: 'Stopping. Ctrl-C again quits now.' }),
  run: async (context, flags) => {
    const file = configFile(context);
    const { terminal, cwd } = context;
    const isOpen = flags.direct.length === 0 && flags.baseUrl === undefined && flags.sink === 'sqlite';
    using questions = isOpen && !existsSync(file) ? openQuestions(context) : null;
    if (questions !== null) return await askedFor(context, flags, questions.ask);
    // Paths in a config are relative to it; records are stored in the current folder.
    const choices = choicesOf(flags, cwd, dirname(file));
    const shown = relative(cwd, file);
    await writePrivateFile(file, configText(choices), true);
    terminal.printJson({ file, environment: environmentLines(choices) });
    terminal.print(`Wrote ${shown}.`, ...nextSteps(context, shown, choices));
    return exitCodes.ok;
  },
});

type InitFlags = FlagsOf<typeof options>;

/** Asks at most three questions, and ends with a first sync. */
async function askedFor(context: CommandContext, flags: InitFlags, ask: Ask): Promise<ExitCode> {
  const definitions = [...loadDefinitions([builtInDefinitionsFolder]).values()];
  const ready = definitions.flatMap(({ name, upstream }) => (upstream === null ? [] : [name]));
  const answer = await ask(
    'What do you want to read?',
    '  sample      sample data, without an account',
    '  api         a Connector Execution API, with your client id and secret',
    '  <file>      the file of a service: OpenAPI, manifest.yaml, connector.yaml or a definition',
    `  <service>   ${ready.join(', ')}`,
    'One of these? (Enter: sample)',
  );
  if (answer === 'api') return await readApi(context, flags, ask);
  if (answer !== '' && answer !== 'sample') {
    return await addTo(context, { ...noFlags, from: answer }, ask);
  }
  const { runDemo } = await import('../demo/demo.ts');
  return await runDemo(context, { directory: './connector-sync-demo', port: '0', revision: '0', ui: false });
}

/** Writes a config with the connectors that a workspace has, and reads them. */
async function readApi(context: CommandContext, flags: InitFlags, ask: Ask): Promise<ExitCode> {
  const { env, cwd, signal, terminal } = context;
  const file = configFile(context);
  const baseUrl = (await ask('Address of the API? (Enter: $CONNECTOR_API_URL)')) || undefined;
  const workspace = (await ask(`Which workspace? (Enter: ${flags.workspace})`)) || flags.workspace;
  const choices = choicesOf({ ...flags, baseUrl, workspace }, cwd, dirname(file));
  const { env: complete } = withDotEnv(env, cwd);
  const head = `${apiText(choices)}sinks: {}\n`;
  const settings = withParts(readSettings({ file, text: head, env: complete }), 'api', 'access');
  registerSecrets(settings, context.scrubber);
  await using app = await openPatientApp(context, settings, 'init');
  const found = await findInWorkspaces(app, [workspace], null, false, signal);
  const hosted = found.flatMap(({ definition, id }) =>
    definition === null ? [] : [{ definition, address: `id: ${JSON.stringify(id)}` }],
  );
  terminal.print(...connectorTable(found, terminal.columns()));
  if (hosted.length === 0) throw usage('No connector of the workspace can be read. Nothing was written.');
  await writePrivateFile(file, configText({ ...choices, hosted }), true);
  terminal.print(`Wrote ${relative(cwd, file)}.`, '');
  return await syncFirst(context, []);
}

function choicesOf(flags: InitFlags, cwd: string, configFolder: string) {
  const { baseUrl, workspace } = flags;
  const sink = oneOf('--sink', flags.sink, ['sqlite', 'jsonl', 'postgres']);
  if (baseUrl !== undefined && !URL.canParse(baseUrl)) {
    throw usage(`--base-url: expected a URL, got "${baseUrl}".`);
  }
  if (flags.direct.length > 0 && baseUrl !== undefined) {
    throw usage('Expected either --direct (services themselves) or --base-url (an API), got both.');
  }
  return {
    /** Null: read from $CONNECTOR_API_URL. */
    baseUrl: baseUrl ?? null,
    /** Empty: connectors are read through the API. */
    direct: directConnectors(flags.direct, cwd),
    /** Folders of definitions that are not built in, relative to the config file. */
    folders: new Set(
      flags.direct.filter(isFile).map((name) => relative(configFolder, dirname(resolve(cwd, name))) || '.'),
    ),
    workspace,
    /** Connectors behind the API. */
    hosted: [
      {
        definition: 'email-marketing',
        address: `workspace: ${JSON.stringify(workspace)} # or id: "...", where a workspace has several`,
      },
      { definition: 'workspace-notes', address: `workspace: ${JSON.stringify(workspace)}` },
    ],
    sink,
    /** Relative to the config file. */
    dataFolder: relative(configFolder, join(cwd, 'data')),
  };
}

function nextSteps(context: CommandContext, file: string, choices: ConfigChoices): readonly string[] {
  // Named only if the program would look elsewhere.
  const isFound = configFile({ ...context, config: null }) === configFile(context);
  const command = (name: string): string =>
    `${context.program} ${name}${isFound ? '' : ` --config ${shellWord(file)}`}`;
  const lines = environmentLines(choices).map((line) => `       ${line}`);
  const logins = choices.direct.filter(({ needsLogin }) => needsLogin);
  const isThroughApi = choices.direct.length === 0;
  const steps: [what: string, name: string][] = logins.map(({ name }) => [
    'Sign in as a person:',
    `login ${name}`,
  ]);
  steps.push(['Is everything in place?', 'check']);
  if (isThroughApi) steps.push(['Which connectors are there?', 'connectors list']);
  steps.push([isThroughApi ? 'Read them all:' : 'Read everything:', 'sync']);
  const environment =
    'Put the credentials into the environment, or into a file .env here that only you can read:';
  const first = lines.length === 0 ? [] : [[environment, ...lines].join('\n')];
  const others = steps.map(([what, name]) => `${what.padEnd(29)} ${command(name)}`);
  return ['', 'Next:', ...[...first, ...others].map((step, index) => `  ${index + 1}. ${step}`)];
}

type ConfigChoices = ReturnType<typeof choicesOf>;

/**
 * Makes a config file with a connector of each built-in definition that hosted services have; texts are written as
 * JSON, which is valid YAML.
 */
function configText(choices: ConfigChoices): string {
  const sink = {
    sqlite: `{ type: sqlite, path: ${pathText(choices.dataFolder, 'warehouse.db')} }`,
    jsonl: `{ type: jsonl, directory: ${pathText(choices.dataFolder, 'lake')} }`,
    postgres: '{ type: postgres, url: "${DATABASE_URL}" }',
  }[choices.sink];
  const connectors =
    choices.direct.length > 0
      ? choices.direct.map(directConnectorText).join('\n')
      : hostedConnectorsText(choices);
  const folders =
    choices.folders.size === 0 ? '' : `definitions: ${JSON.stringify([...choices.folders])}\n\n`;
  return `# Paths are relative to this file. "connector-sync config schema" prints the format.
${choices.direct.length > 0 ? folders : apiText(choices)}sinks:
  main: ${sink}

# redis: { url: "\${REDIS_URL}" } # for "connector-sync worker"; without it redis://127.0.0.1:6379

connectors:
${connectors}`;
}

function apiText({ baseUrl }: ConfigChoices): string {
  return `api:
  baseUrl: ${JSON.stringify(baseUrl ?? '${CONNECTOR_API_URL}')}
  clientId: "\${CONNECTOR_API_CLIENT_ID}"
  clientSecret: "\${CONNECTOR_API_CLIENT_SECRET}" # or "\${file:./secret}", a file that only you can read

`;
}

function hostedConnectorsText({ baseUrl, sink, dataFolder, hosted, ...choices }: ConfigChoices): string {
  const workspace = JSON.stringify(choices.workspace);
  const shared = isSharedSink(sink) ? ', shared: true' : '';
  // The definitions' rates are those of the services behind a hosted API; sample data behind a local one needs none.
  const rate =
    baseUrl !== null && isLoopbackHost(new URL(baseUrl).hostname)
      ? '    rateLimit: { requestsPerSecond: 500 } # sample data needs no limit\n'
      : '';
  const names = new Map<string, number>();
  const entries = hosted.map(({ definition, address }) => {
    const usual = usualNames.get(definition) ?? definition;
    const number = (names.get(usual) ?? 0) + 1;
    names.set(usual, number);
    return `  ${number === 1 ? usual : `${usual}-${number}`}:
    definition: ${definition}
    ${address}
    sink: main
    schedule: { every: 1h }
${rate}
`;
  });
  return `${entries.join('')}  # library:
  #   definition: document-library
  #   workspace: ${workspace}
  #   sink: main
  #   downloads: { directory: ${pathText(dataFolder, 'files')}${shared} } # the files of its records

# publish:
#   lake: { type: files, directory: ${pathText(dataFolder, 'lake')} } # what has changed, as Parquet, after each sync
`;
}

function pathText(folder: string, name: string): string {
  const path = folder.startsWith('..')
    ? `${folder}/${name}`
    : `./${folder === '' ? '' : `${folder}/`}${name}`;
  return /^[\w./-]+$/.test(path) ? path : JSON.stringify(path);
}

/** Makes the lines of a `.env` for this config. */
function environmentLines(choices: ConfigChoices): readonly string[] {
  const own = choices.direct.flatMap(({ variables }) => variables.map(({ variable }) => `${variable}=...`));
  const ofApi = [
    ...(choices.baseUrl === null ? ['CONNECTOR_API_URL=https://...'] : []),
    'CONNECTOR_API_CLIENT_ID=...',
    'CONNECTOR_API_CLIENT_SECRET=...',
  ];
  return [
    ...(choices.direct.length === 0 ? ofApi : own),
    ...(choices.sink === 'postgres' ? ['DATABASE_URL=postgresql://user:password@host:5432/database'] : []),
  ];
}

/** Names as in the other configs that this program writes. */
const usualNames: ReadonlyMap<string, string> = new Map([
  ['email-marketing', 'newsletter'],
  ['workspace-notes', 'wiki'],
]);

/** Whether the name is that of a definition file, and not of a type. */
const isFile = (name: string): boolean => /\.ya?ml$/.test(name);

/** `names`: types, their aliases, or definition files. Throws USAGE for one that cannot be read directly. */
function directConnectors(names: readonly string[], cwd: string) {
  const chosen = names.map((name) => {
    const found = definitionFrom(name, { cwd }, null);
    if (found.upstream !== null) return found;
    throw usage(
      `--direct: ${name} is for connectors behind an API (hosted) and has no upstream. For the service itself import with --mode direct; for the API: init --base-url <address>.`,
    );
  });
  return [...new Set(chosen)].map(directConnector);
}

/** Describes a connector of the new config that reads its service itself. */
function directConnector(definition: Definition) {
  const { name, aliases } = definition;
  const service = aliases[0] ?? name;
  const way = simplestWay(definition);
  const fields = [...(way?.fields ?? [])].filter(([, { isRequired }]) => isRequired);
  const others = definition.credentials.filter(({ title }) => title !== way?.title);
  return {
    /** The other ways to sign in. */
    others: others.map(shapeText),
    needsLogin: definition.upstream?.auth.get(way?.title ?? '')?.kind === 'authorizationCode',
    name: usualNames.get(name) ?? name,
    definition: name,
    /** The name under which people know the service. */
    service,
    /** The fields, each with the variable that it is read from; `title`: null for a field of the credentials. */
    variables: fields.map(([field, { setting }]) => {
      return { field, variable: usualVariable(definition, field), title: setting?.title ?? null };
    }),
  };
}

/** The first way with the fewest required fields. */
function simplestWay({ credentials }: Definition): CredentialShape | undefined {
  const required = ({ fields }: CredentialShape): number =>
    [...fields.values()].filter(({ isRequired }) => isRequired).length;
  return credentials.toSorted((left, right) => required(left) - required(right))[0];
}

/** Writes the connector as YAML for `connectors`. */
function directConnectorText(connector: ReturnType<typeof directConnector>): string {
  const { name, definition, service, variables, others } = connector;
  const known = service === definition ? '' : ` # ${service}`;
  const ways = others.map((way) => `    # or sign in by ${way}\n`).join('');
  const line = (part: string, isSetting: boolean, note: string): string => {
    const own = variables.filter(({ title }) => (title !== null) === isSetting);
    const texts = own.map(({ field, variable }) => `${field}: "\${${variable}}"`).join(', ');
    return own.length === 0 ? '' : `    ${part}: { ${texts} } # ${note}\n`;
  };
  const titles = variables.flatMap(({ title }) => title ?? []).join(', ');
  const credentials = line('credentials', false, 'or "${file:./secret}", a file that only you can read');
  return `  ${name}:
    definition: ${definition}${known}
${ways}${credentials}${line('settings', true, titles)}    sink: main
    schedule: { every: 1h }
`;
}
