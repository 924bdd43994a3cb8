import { resolve } from 'node:path';
import type { App } from '../../../app/app.ts';
import { fieldValue } from '../../../app/stored-fields.ts';
import { hasCode, SyncError } from '../../../core/errors.ts';
import { readJson } from '../../../core/json-text.ts';
import { isConnectorId, isConnectorName } from '../../../core/names.ts';
import type { Params, EntityTable, PreparedRecord } from '../../../core/records.ts';
import { Secret } from '../../../core/secret.ts';
import { usage } from '../../../core/usage-error.ts';
import { servedDefinition, type Entity, type Definition } from '../../../definitions/definition.ts';
import { maskedDefinition, type Masks } from '../../../definitions/mask/masks.ts';
import { checkParams, convertParams, missingParams } from '../../../definitions/params.ts';
import { fillingParent, tryListing, type TriedCall, type TriedStep } from '../../../engine/try-listing.ts';
import type { SeenExchange } from '../../../http/exchange.ts';
import { connectorNamed } from '../../../settings/choices.ts';
import { walkParams, buildDirect } from '../../../settings/connector-settings.ts';
import { readSettings, withParts } from '../../../settings/load-settings.ts';
import type {
  ReadConnector,
  ConnectorSettings,
  LocalSettings,
  SettingsWith,
} from '../../../settings/settings.ts';
import { command, hostOf, wholeNumber, type CommandContext } from '../../command.ts';
import { shellWord } from '../../environment.ts';
import { configuredWorkspaces } from '../../find-in-workspaces.ts';
import { registerSecrets } from '../../load-config.ts';
import { exitCodeOfError, exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { openPatientApp } from '../../output/show-run.ts';
import { withoutTokens, parseParam } from '../read-commands.ts';
import { declarationOf } from '../schema.ts';
import { definitionFrom, settingsIfAny } from './known-definitions.ts';
import { stepText, openCallText, type CommandFor, type SeenCall } from './try-text.ts';
import { entityNamed } from './show-definition.ts';

const mostCalls = 1_000;
const mostRows = 10_000;

export const tryEntity = command({
  description:
    'Read a few pages of an entity as a sync would, and show what it makes of them; stores nothing.',
  argument: ['<definition>', 'a name, or the path of a file that no config needs to name'],
  second: ['<entity>', 'such as projects'],
  options: {
    '-p, --param <name=value...>': 'a parameter of list; objects and arrays as JSON',
    '--max-calls <n>': { text: 'calls at most, repeated ones among them', default: '3' },
    '--rows <n>': { text: 'records shown of each page', default: '5' },
    '--connector <name>': 'a connector of the config, or the id of one behind the API',
    '--allow-upstream-host <name...>': 'hosts that may be at private addresses, as in the config',
  },
  help: `
Without --connector: with credentials in the environment the service itself is asked, such as
$CONNECTOR_SYNC_CREDENTIAL_API_KEY for the field api_key. Otherwise the API is, with the definition's connector in the
workspace of the config (else "default"). Without a config the API is that of $CONNECTOR_API_BASE_URL,
$CONNECTOR_API_CLIENT_ID and $CONNECTOR_API_CLIENT_SECRET.

Examples:
  $ connector-sync definitions try ./my-definitions/issue-tracker.yaml projects
  $ connector-sync definitions try issue-tracker issues --param project_id=p1 --max-calls 1
  $ connector-sync definitions try email-marketing lists --connector newsletter`,
  run: async (context, flags, nameOrFile, entityName) => {
    const maxCalls = wholeNumber('--max-calls', flags.maxCalls, mostCalls, 1);
    const rows = wholeNumber('--rows', flags.rows, mostRows);
    const settings = await settingsIfAny(context);
    const definition = definitionFrom(nameOrFile, context, settings);
    const entity = entityNamed(definition, entityName);
    const kept = [
      ...(flags.connector === undefined ? [] : [`--connector ${shellWord(flags.connector)}`]),
      ...flags.allowUpstreamHost.map((host) => `--allow-upstream-host ${shellWord(host)}`),
    ];
    const command: CommandFor = (name, params) =>
      [`${context.program} definitions try`, shellWord(nameOrFile), name, ...params, ...kept].join(' ');
    const params = readParams(entity, flags.param, command);
    const allowHosts = flags.allowUpstreamHost.map((host) => hostOf('--allow-upstream-host', host));
    const asked = { connector: flags.connector ?? null, allowHosts };
    const chosen = chooseConnector(context, settings, definition, asked);
    await using app = await openPatientApp(context, chosen.settings, 'definitions try', true);
    const { connector } = chosen;
    // An API does not have all actions of the service itself.
    const read = entityNamed(connector.definition, entity.name);
    const variables = flags.connector === undefined;
    return await runTrial(context, app, {
      connector,
      entity: read,
      params,
      maxCalls,
      rows,
      command,
      variables,
    });
  },
});

interface Trial {
  readonly connector: ReadConnector;
  readonly entity: Entity;
  readonly params: Params;
  readonly maxCalls: number;
  readonly rows: number;
  readonly command: CommandFor;
  /** Direct credentials are from the environment. */
  readonly variables: boolean;
}

async function runTrial(context: CommandContext, app: App, trial: Trial): Promise<ExitCode> {
  const { terminal, clock, signal } = context;
  const { entity, connector, maxCalls } = trial;
  const { definition } = connector;
  const exchanges: SeenExchange[] = [];
  const calls: SeenCall[] = [];
  const isDirect = connector.address.kind === 'direct';
  const text = openCallText({ ...trial, definition, isDirect }, terminal.columns());
  terminal.print(text.heading());
  const onExchange = (seen: SeenExchange): void => void exchanges.push(seen);
  const opened = app.openSource(connector, signal, { maxCalls, onExchange, isTrial: true });
  await using source = await opened.catch((error: unknown) => {
    throw withOtherWays(error, definition);
  });
  const { connectorId } = await source.origin(signal).catch((error: unknown) => {
    terminal.print(...text.connecting(exchanges));
    throw withVariables(error, trial);
  });
  terminal.print(...text.connecting(exchanges.splice(0)), text.connected(connectorId));
  await tryListing({
    ...trial,
    definition,
    source,
    expectsTotal: isDirect,
    clock,
    signal,
    onCall: (call) => {
      const token = call.page?.next?.token ?? null;
      // Texts of errors and problems may quote it.
      if (entity.mask !== null && token !== null) context.scrubber.register(new Secret(token));
      const seen = withoutTokens(entity, { ...call, exchanges: exchanges.splice(0) });
      calls.push(seen);
      terminal.print(...text.call(seen));
    },
  });
  terminal.print(...text.ending());
  terminal.printJson({
    definition: definition.name,
    entity: entity.name,
    isDirect,
    account: connectorId,
    calls: calls.map((call) => callDocument(entity, call)),
  });
  return exitCodeOf(calls);
}

/** Refused credentials of the environment: the variables that they are from. */
function withVariables(error: unknown, { connector: { address }, variables }: Trial): unknown {
  if (!hasCode(error, 'AUTH_FAILED') || address.kind !== 'direct' || !variables) return error;
  const names = [...address.credentials.keys()].map(variable).join(', ');
  const { message, code, recovery, context } = error;
  return new SyncError(`${message}; here they are from the environment: ${names}`, {
    code,
    recovery,
    context,
    cause: error,
  });
}

function exitCodeOf(calls: readonly TriedCall[]): ExitCode {
  const next = calls.at(-1)?.next;
  if (next?.kind === 'stop') return exitCodeOfError(next.error);
  if (next?.kind === 'set-aside') return exitCodes.failed;
  const hasRefused = calls.some(({ commit }) => (commit?.refused.length ?? 0) > 0);
  return hasRefused ? exitCodes.degraded : exitCodes.ok;
}

/** Throws USAGE for what a person cannot give, and for what must be given. */
function readParams(entity: Entity, texts: readonly string[], command: CommandFor): Params {
  const list = entity.actions.get('list') ?? { params: new Map() };
  const given = Object.fromEntries(texts.map(parseParam));
  const taken = walkParams(entity);
  const problems = [
    ...Object.keys(given).flatMap((name) => {
      const why = taken.get(name);
      return why === undefined ? [] : [`${name}: ${why}`];
    }),
    ...checkParams(list, given),
  ];
  if (problems.length > 0) throw usage(`--param: ${problems.join('; ')}`);
  const params = convertParams(list, given);
  if (entity.parents.length > 0 && fillingParent(entity, params) === null) {
    throw usage(missingText(entity, params, command));
  }
  const missing = missingParams(list, { ...Object.fromEntries(taken), ...params });
  if (missing.length > 0) {
    throw usage(`${entity.name} needs ${missing.join(', ')}: give each as --param <name>=<value>.`);
  }
  return params;
}

/** Which parameters parents fill, and how to get values of them. */
function missingText({ name, parents }: Entity, given: Params, command: CommandFor): string {
  const ways = parents.map(({ entity, params }) => {
    const lacking = [...params].filter(([param]) => !Object.hasOwn(given, param));
    const filled = lacking.map(([param, field]) => `${param} (the ${field} of a record of ${entity})`);
    const flags = lacking.map(([param, field]) => `--param ${param}=<${field}>`);
    return `${filled.join(' and ')}. Try ${entity} first: "${command(entity, [])}"; it shows values. Then add ${flags.join(' ')}.`;
  });
  return `${name} has a listing for each record of its parent, and needs ${ways.join(' Or ')}`;
}

/** A call for machines; its records whole. */
function callDocument(entity: Entity, { request, page, commit, problems, error, exchanges, next }: SeenCall) {
  const tables = [entity.table, ...(entity.explodedTable === null ? [] : [entity.explodedTable])];
  return {
    params: request.params,
    exchanges,
    metadata: page?.metadata ?? null,
    total: page?.total ?? null,
    bytes: page?.bytes ?? null,
    records: commit?.fetched ?? null,
    rows: tables.map((table, index) => ({
      entity: table.entity,
      rows: (commit?.rows[index]?.records ?? []).map((record) => rowDocument(table, record)),
    })),
    refused: (commit?.refused ?? []).map(({ reason, detail }) => ({ reason, detail })),
    filtered: commit?.filtered ?? 0,
    foreign: commit?.foreign ?? 0,
    drift: (commit?.drift ?? []).map((note) => ({
      ...note,
      line: declarationOf({ ...note, types: [note.type] }),
    })),
    problems,
    children: (commit?.children ?? []).map((child) => ({ entity: child.entity, params: child.params })),
    error: error === null ? null : { code: error.code, message: error.message },
    next: nextDocument(next),
  };
}

function rowDocument({ columns }: EntityTable, { values, extra }: PreparedRecord) {
  const fields = columns.map(
    ({ name, type }, index) => [name, fieldValue(type, values[index] ?? null)] as const,
  );
  return { fields: new Map(fields), extra: extra === null ? null : readJson(extra) };
}

function nextDocument(next: TriedStep) {
  const why = stepText(next);
  switch (next.kind) {
    case 'call':
      return { kind: next.kind, why, params: next.request.params };
    case 'end':
      return { kind: next.kind, why, proof: next.seal.proof, doubt: next.seal.doubt ?? null };
    case 'set-aside':
      return { kind: next.kind, why, code: next.failure.code };
    case 'stop':
      return { kind: next.kind, why, code: next.error.code };
  }
}

const credentialPrefix = 'CONNECTOR_SYNC_CREDENTIAL_';
const defaultWorkspace = 'default';

interface Asked {
  /** Null: none was named. */
  readonly connector: string | null;
  /** Beside those of the config. */
  readonly allowHosts: readonly string[];
}

interface Chosen {
  readonly connector: ReadConnector;
  readonly settings: SettingsWith<'access'>;
}

/**
 * What a definition is tried with: the connector that was asked for, else the credentials of the environment, else the
 * API. Throws USAGE, saying what to give.
 */
function chooseConnector(
  context: CommandContext,
  config: LocalSettings | null,
  definition: Definition,
  { connector: name, allowHosts }: Asked,
): Chosen {
  const own = config ?? environmentSettings(context);
  const settings = { ...own, allowUpstreamHosts: [...own.allowUpstreamHosts, ...allowHosts] };
  const chosen = (
    address: ConnectorSettings['address'],
    { masks, storedIn }: Pick<ConnectorSettings, 'masks' | 'storedIn'> | typeof untold = untold,
  ): Chosen => ({
    connector: {
      ...triedConnector(definition, address, masks ?? masksOfType(settings, definition)),
      storedIn,
    },
    settings: { ...settings, access: address.kind === 'direct' ? null : withParts(settings, 'api').api },
  });
  if (name !== null) {
    const entry = isConnectorName(name) ? settings.connectors.get(name) : undefined;
    if (entry !== undefined) return chosen(addressOf(entry, definition, settings), entry);
    if (settings.parts.api === null || !isConnectorId(name)) connectorNamed(settings, name);
    if (isConnectorId(name)) return chosen({ kind: 'id', id: name });
  }
  const given = credentialsOf(context, definition);
  if (Object.keys(given).length > 0) {
    return chosen(triedCredentials(definition, given, (field) => variable(field ?? '<FIELD>')));
  }
  if (settings.parts.api === null) throw usage(howToText(definition));
  const { scopedToWorkspace } = settings.parts.api;
  const workspace = scopedToWorkspace ?? configuredWorkspaces(settings)[0] ?? defaultWorkspace;
  return chosen({ kind: 'workspace', workspace });
}

/** Credentials that no connector of the config has. */
const untold = { masks: null, storedIn: null } as const;

/** Of the config's connectors of this type. Throws USAGE where they mask an entity in several ways. */
function masksOfType({ connectors }: LocalSettings, { id, name }: Definition): Masks {
  const ofType = [...connectors.values()].filter(({ definition }) => definition.id === id);
  const masks = new Map(ofType.flatMap((connector) => [...connector.masks]));
  for (const [entity, { mask }] of ofType.flatMap((connector) => [...connector.masks])) {
    if (masks.get(entity)?.mask.fingerprint === mask.fingerprint) continue;
    throw usage(
      `The connectors of the type ${name} mask ${entity} in several ways. Name the one whose masks you mean with --connector.`,
    );
  }
  return masks;
}

/** Without a config: the API that the environment names, if any. */
function environmentSettings({ cwd, env, scrubber }: CommandContext): LocalSettings {
  const api = {
    baseUrl: '${CONNECTOR_API_BASE_URL}',
    clientId: '${CONNECTOR_API_CLIENT_ID}',
    clientSecret: '${CONNECTOR_API_CLIENT_SECRET}',
  };
  const hasApi = (env['CONNECTOR_API_BASE_URL'] ?? '') !== '';
  const text = JSON.stringify({ sinks: {}, ...(hasApi ? { api } : {}) });
  const settings = readSettings({ file: resolve(cwd, 'environment'), text, env });
  registerSecrets(settings, scrubber);
  return settings;
}

function addressOf(
  { name, definition: own, address }: ConnectorSettings,
  definition: Definition,
  settings: LocalSettings,
): ConnectorSettings['address'] {
  if (own.id !== definition.id) {
    throw usage(`The connector "${name}" is of the type ${own.name}, and ${definition.name} is tried.`);
  }
  if (address.kind !== 'direct') return address;
  withParts(settings, 'access');
  const given = Object.fromEntries(
    [...address.credentials].map(([field, secret]) => [field, secret.reveal()]),
  );
  const tried = triedCredentials(
    definition,
    given,
    (field) => `credentials of ${name}${field === null ? '' : `, ${field}`}`,
  );
  return tried.kind === 'direct' ? { ...tried, signIn: address.signIn } : tried;
}

/** A connector that no config has, at this address, with the rates of its definition. */
function triedConnector(
  definition: Definition,
  address: ConnectorSettings['address'],
  masks: Masks,
): Omit<ReadConnector, 'storedIn'> {
  const { name, rateLimit } = definition;
  if (!isConnectorName(name)) throw new TypeError(`expected the name of a checked definition, got ${name}`);
  return {
    name,
    definition: maskedDefinition(
      address.kind === 'direct' ? definition : servedDefinition(definition),
      masks,
    ),
    address,
    ...rateLimit,
    isRateSet: false,
  };
}

/**
 * The service itself, with these credentials. Throws USAGE with everything that is wrong with them; `placeOf` names
 * the place of a field, or (null) of all of them.
 */
function triedCredentials(
  definition: Definition,
  given: Readonly<Record<string, string>>,
  placeOf: (field: string | null) => string,
): ConnectorSettings['address'] {
  const problems: string[] = [];
  const address = buildDirect({}, given, definition, {
    at: [],
    note: ([, field], message) => {
      problems.push(`${placeOf(field === undefined ? null : String(field))}: ${message}`);
    },
  });
  if (problems.length > 0) throw usage(problems.join('\n'));
  return address;
}

/** By field; those that are set. The scrubber knows them from here on. */
function credentialsOf(
  { env, scrubber }: CommandContext,
  { credentials }: Definition,
): Readonly<Record<string, string>> {
  const fields = new Set(credentials.flatMap((shape) => [...shape.fields.keys()]));
  const given = [...fields].flatMap((field) => {
    const value = env[variable(field)] ?? '';
    return value === '' ? [] : [[field, value] as const];
  });
  const isSecret = (field: string): boolean =>
    credentials.some((shape) => shape.fields.get(field)?.isSecret === true);
  for (const [field, value] of given) if (isSecret(field)) scrubber.register(new Secret(value));
  return Object.fromEntries(given);
}

/** Of a field of credentials in the environment. */
function variable(field: string): string {
  return `${credentialPrefix}${field.toUpperCase()}`;
}

function howToText({ name, upstream, credentials }: Definition): string {
  const api =
    'name an API in the config, or by CONNECTOR_API_BASE_URL, CONNECTOR_API_CLIENT_ID and CONNECTOR_API_CLIENT_SECRET';
  if (upstream === null) {
    return `${name} has no upstream, so only an API can read it, and there is none: ${api}.`;
  }
  return [
    `${name} needs credentials. ${waysText(credentials)}`,
    `Or name a connector of the config with --connector. Or ${api}.`,
  ].join('\n');
}

/** The API has no connector to try the definition with: what else there is. Gives any other error as it is. */
function withOtherWays(error: unknown, { upstream, credentials }: Definition): unknown {
  if (!hasCode(error, 'CONNECTOR_UNKNOWN') || upstream === null) return error;
  const { message, code, recovery, context } = error;
  const other = `${message}.\nOr ask the service itself. ${waysText(credentials)}`;
  return new SyncError(other, { code, recovery, context, cause: error });
}

function waysText(credentials: Definition['credentials']): string {
  const ways = credentials.map(({ title, fields }) => {
    const needed = [...fields].filter(([, { isRequired }]) => isRequired).map(([field]) => variable(field));
    return `  ${needed.join(' and ')} (${title})`;
  });
  return ['Set these variables of the environment:', ways.join(', or\n')].join('\n');
}
