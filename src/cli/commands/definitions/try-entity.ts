import type { App } from '../../../app/app.ts';
import { fieldValue } from '../../../app/stored-fields.ts';
import { hasCode, SyncError } from '../../../core/errors.ts';
import { readJson } from '../../../core/json-text.ts';
import { Secret } from '../../../core/secret.ts';
import { usage } from '../../../core/usage-error.ts';
import type { Params, EntityTable, PreparedRecord } from '../../../core/records.ts';
import { checkParams, convertParams, missingParams } from '../../../definitions/check-params.ts';
import type { Entity } from '../../../definitions/definition.ts';
import { fillingParent, tryListing, type TriedCall, type TriedStep } from '../../../engine/try-listing.ts';
import type { SeenExchange } from '../../../http/exchange.ts';
import { walkParams } from '../../../settings/build-entities.ts';
import type { ReadConnector } from '../../../settings/settings.ts';
import { command, hostOf, wholeNumber, type CommandContext } from '../../command.ts';
import { shellWord } from '../../environment.ts';
import { exitCodeOfError, exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { openPatientApp } from '../../output/show-run.ts';
import { parseParam } from '../../read-target.ts';
import { declarationOf } from '../schema.ts';
import { definitionFrom, settingsIfAny } from './known-definitions.ts';
import { stepText } from './paging-text.ts';
import { entityNamed } from './show-definition.ts';
import { chooseConnector, variable, withOtherWays } from './tried-access.ts';
import { withoutTokens } from '../../page-tokens.ts';
import { openCallText, type CommandFor, type SeenCall } from './try-text.ts';

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
