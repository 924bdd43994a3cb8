import { usualColumns } from '../../output/terminal.ts';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { App } from '../../../app/app.ts';
import { fieldValue } from '../../../app/stored-fields.ts';
import { instant } from '../../../core/clock.ts';
import { hasCode, SyncError, type ErrorCode, usage } from '../../../core/errors.ts';
import { readJson, type JsonValue } from '../../../core/json.ts';
import { isConnectorId, isConnectorName } from '../../../core/names.ts';
import type { EntityTable, FieldDrift, Params, PreparedRecord } from '../../../core/records.ts';
import { Secret } from '../../../core/secret.ts';
import {
  servedDefinition,
  withSettings,
  type Entity,
  type Definition,
} from '../../../definitions/definition.ts';
import { withYamlMember } from '../../../definitions/edit-yaml.ts';
import { maskedDefinition, type Masks } from '../../../definitions/record-masks.ts';
import { firstNames } from '../../../definitions/suggest-name.ts';
import { checkParams, convertParams, missingParams } from '../../../definitions/params.ts';
import { wholeJson } from '../../../core/canonical-json.ts';
import { proveEntity, type ProveOptions } from '../../../engine/prove-entity.ts';
import { fillingParent, tryListing, type TriedCall, type TriedStep } from '../../../engine/try-listing.ts';
import { windowParams } from '../../../engine/windows.ts';
import { replaceText } from '../../../files/replace-text.ts';
import type { SeenExchange } from '../../../http/exchange.ts';
import { connectorNamed } from '../../../settings/choices.ts';
import type { ConnectorSettings, LocalSettings, ReadConnector } from '../../../settings/settings.ts';
import { walkParams, buildDirect, entryGiven, isDirect } from '../../../settings/connector-settings.ts';
import { readSettings, withParts } from '../../../settings/load-settings.ts';
import { count, counted, duration, printable, printableWithin, sizeText } from '../../../telemetry/format.ts';
import { doubtText } from '../../../wording/run-report-table.ts';
import { command, hostOf, wholeNumber, type CommandContext } from '../../command.ts';
import { configuredWorkspaces } from '../../find-in-workspaces.ts';
import { exitCodeOfError, exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { openPatientApp } from '../../output/show-run.ts';
import { answerTable, fact } from '../../output/record-table.ts';
import { indentedTable, leftColumns, marks } from '../../output/text-table.ts';
import { withoutTokens, parseParam } from '../read-commands.ts';
import { declarationOf } from '../schema-diff.ts';
import { definitionFrom, entityNamed, settingsIfAny } from './show-definition.ts';

export const mostCalls = 1_000;
const mostRows = 10_000;
/** With attempts that are repeated, and the parents of parents. */
const mostProvingCalls = 100;

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
    '--setting <name=value...>': 'a setting of the connector type, such as account=4711',
    '--prove': 'test what an import has guessed, with about twelve calls, and write the result into the file',
    '--allow-upstream-host <name...>': 'hosts that may be at private addresses, as in the config',
  },
  help: `
Without --connector: with credentials in the environment the service itself is asked, such as
$CONNECTOR_SYNC_CREDENTIAL_API_KEY for the field api_key. Otherwise the API is, with the definition's connector in the
workspace of the config (else "default").

Examples:
  $ connector-sync definitions try ./my-definitions/issue-tracker.yaml projects
  $ connector-sync definitions try issue-tracker issues --param project_id=p1 --max-calls 1
  $ connector-sync definitions try ./my-definitions/issue-tracker.yaml projects --prove
  $ connector-sync definitions try email-marketing lists --connector newsletter`,
  run: async (context, flags, nameOrFile, entityName) => {
    const maxCalls = wholeNumber('--max-calls', flags.maxCalls, mostCalls, 1);
    const rows = wholeNumber('--rows', flags.rows, mostRows);
    const settings = await settingsIfAny(context);
    const definition = definitionFrom(nameOrFile, context, settings);
    const entity = entityNamed(definition, entityName);
    const proofFile = flags.prove ? proofFileOf(nameOrFile, context) : null;
    const params = proofFile === null ? readParams(entity, flags.param, context.clock.now()) : {};
    const allowHosts = flags.allowUpstreamHost.map((host) => hostOf('--allow-upstream-host', host));
    const given = { ...credentialsOf(context, definition), ...settingsIn(flags.setting, definition) };
    const chosen = chooseConnector(context, settings, definition, flags.connector, given, allowHosts);
    await using app = await openPatientApp(context, chosen.settings, 'definitions try', true);
    const { connector } = chosen;
    // An API lacks some actions of the service itself.
    const read = entityNamed(connector.definition, entity.name);
    const isOfEnvironment = flags.connector === undefined;
    const trial = { connector, entity: read, params, maxCalls, rows, isOfEnvironment, proofFile };
    return await runTrial(context, app, trial);
  },
});

/** A call with the requests that it sent. */
type SeenCall = TriedCall & { readonly exchanges: readonly SeenExchange[] };

interface Trial {
  readonly connector: ReadConnector;
  readonly entity: Entity;
  readonly params: Params;
  readonly maxCalls: number;
  /** The number of records that are shown of each page. */
  readonly rows: number;
  /** Direct credentials come from the environment. */
  readonly isOfEnvironment: boolean;
  /** The definition file that takes the proofs; null: pages are shown. */
  readonly proofFile: string | null;
}

async function runTrial(context: CommandContext, app: App, trial: Trial): Promise<ExitCode> {
  const { terminal, clock, signal } = context;
  const { entity, connector, rows, proofFile } = trial;
  const maxCalls = proofFile === null ? trial.maxCalls : mostProvingCalls;
  const { definition, address } = connector;
  const exchanges: SeenExchange[] = [];
  const calls: SeenCall[] = [];
  const isDirect = address.kind === 'direct';
  const width = terminal.columns() ?? usualColumns;
  const requestsText = (): readonly string[] =>
    exchanges.splice(0).flatMap((seen) => exchangeText(seen, width));
  terminal.print(
    `${definition.name}/${entity.name}, at most ${counted(maxCalls, 'call')}; nothing is stored`,
  );
  const onExchange = (seen: SeenExchange): void => void exchanges.push(seen);
  const opened = app.openSource(connector, signal, { maxCalls, onExchange, isTrial: true });
  await using source = await opened.catch((error: unknown) => {
    if (definition.upstream === null) throw error;
    throw withAdvice(error, 'CONNECTOR_UNKNOWN', `.\nOr ask the service itself. ${waysText(definition)}`);
  });
  const { connectorId } = await source.origin(signal).catch((error: unknown) => {
    terminal.print(...requestsText());
    if (address.kind !== 'direct' || !trial.isOfEnvironment) throw error;
    const names = [...address.credentials.keys()].map(variable).join(', ');
    throw withAdvice(error, 'AUTH_FAILED', `; here they are from the environment: ${names}`);
  });
  const account = printableWithin(connectorId, width - 20);
  const connected =
    isDirect && connectorId === 'unnamed'
      ? 'the service answers; the definition does not tell its accounts apart'
      : `${isDirect ? 'account' : 'connector'} ${account} answers`;
  terminal.print(...requestsText(), `${marks.ok} ${connected}`);
  const about = { definition: definition.name, entity: entity.name, isDirect, account: connectorId };
  if (proofFile !== null) {
    const options = { definition, entity, source, clock, signal };
    const before = readFileSync(proofFile, 'utf8');
    const { findings, text } = await prove(context, { file: proofFile, text: before }, options);
    if (text !== before) {
      replaceText({ file: proofFile, before, after: text, like: proofFile, nowMs: clock.now() });
      terminal.print(`${proofFile}: written`);
    }
    terminal.printJson({ ...about, findings });
    return findings.every(({ verdict }) => verdict === 'proven') ? exitCodes.ok : exitCodes.degraded;
  }
  const known = new Set<string>();
  await tryListing({
    ...trial,
    definition,
    source,
    expectsTotal: isDirect,
    clock,
    signal,
    onCall: (call) => {
      const token = call.page?.next?.token ?? null;
      // Texts of errors and problems may quote the token.
      if (entity.mask !== null && token !== null) context.scrubber.register(new Secret(token));
      const seen = withoutTokens(entity, { ...call, exchanges: exchanges.splice(0) });
      calls.push(seen);
      terminal.print(...callText(seen, calls.length, { entity, rows, width, known }));
    },
  });
  terminal.print('', ...endingText(calls.at(-1)?.next ?? null, trial, width));
  terminal.printJson({
    ...about,
    calls: calls.map((call) => callDocument(entity, call)),
  });
  return exitCodeOf(calls);
}

/** The file of a definition that is given by its path. */
function proofFileOf(nameOrFile: string, { cwd }: CommandContext): string {
  if (/[/\\]|\.ya?ml$/.test(nameOrFile)) return resolve(cwd, nameOrFile);
  throw usage('--prove writes into the definition: give the path of its file.');
}

/** Tests the guesses of an entity, and shows what is found. Returns the text of its file with those that are proven. */
export async function prove(
  { terminal }: CommandContext,
  { file, text: before }: { readonly file: string; readonly text: string },
  options: ProveOptions,
) {
  const { entity, clock } = options;
  const { draft } = entity;
  const findings = await proveEntity(options);
  const ofVerdict = { proven: marks.ok, wrong: marks.failed, open: marks.warning };
  terminal.print(
    ...findings.map(({ guess, verdict, why }) => `${ofVerdict[verdict]} ${guess}: ${printable(why)}`),
  );
  if (draft === null || findings.length === 0) terminal.print('No guess is open.');
  const found = findings.filter(({ verdict }) => verdict === 'proven');
  if (draft === null || found.length === 0) return { findings, text: before };
  const { request } = draft;
  const proofs = found.map(({ guess, rows, parents }) => {
    const on = instant(clock.now()).slice(0, 10);
    return [guess, { on, rows, ...(parents === 0 ? {} : { parents }), request }] as const;
  });
  const valid = Object.entries(entity.proven ?? {}).filter(([, proof]) => proof.request === request);
  const proven = Object.fromEntries([...valid, ...proofs]);
  const text = withYamlMember(before, ['entities', entity.name, 'proven'], proven);
  if (text !== null) return { findings, text };
  throw usage(
    `${file} cannot be edited as it is written. Add to ${entity.name}: proven: ${JSON.stringify(proven)}`,
  );
}

/** Adds advice to an error with this code; returns any other one unchanged. */
function withAdvice(error: unknown, code: ErrorCode, advice: string): unknown {
  if (!hasCode(error, code)) return error;
  const { message, recovery, context } = error;
  return new SyncError(`${message}${advice}`, { code, recovery, context, cause: error });
}

function exitCodeOf(calls: readonly TriedCall[]): ExitCode {
  const next = calls.at(-1)?.next;
  if (next?.kind === 'stop') return exitCodeOfError(next.error);
  if (next?.kind === 'set-aside') return exitCodes.failed;
  const hasRefused = calls.some(({ commit }) => (commit?.refused.length ?? 0) > 0);
  return hasRefused ? exitCodes.degraded : exitCodes.ok;
}

/** Throws USAGE for parameters that a person cannot set, and for missing ones. */
function readParams(entity: Entity, texts: readonly string[], nowMs: number): Params {
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
  const params = { ...windowParams(entity, nowMs), ...convertParams(list, given) };
  if (entity.parents.length > 0 && fillingParent(entity, params) === null) {
    throw usage(missingText(entity, params));
  }
  const divided = Object.fromEntries([...entity.each.keys()].map((name) => [name, null]));
  const missing = missingParams(list, { ...Object.fromEntries(taken), ...divided, ...params });
  if (missing.length > 0) {
    throw usage(`${entity.name} needs ${missing.join(', ')}: give each as --param <name>=<value>.`);
  }
  return params;
}

/** Says which parameters parents fill, and how to get values for them. */
function missingText({ name, parents }: Entity, given: Params): string {
  const ways = parents.map(({ entity, params }) => {
    const lacking = [...params].filter(([param]) => !Object.hasOwn(given, param));
    const filled = lacking.map(([param, field]) => `${param} (the ${field} of a record of ${entity})`);
    const flags = lacking.map(([param, field]) => `--param ${param}=<${field}>`);
    return `${filled.join(' and ')}. Try ${entity} first, which shows values. Then add ${flags.join(' ')}.`;
  });
  return `${name} has a listing for each record of its parent, and needs ${ways.join(' Or ')}`;
}

/** A call for machines, with complete records. */
function callDocument(entity: Entity, { request, page, commit, problems, error, exchanges, next }: SeenCall) {
  return {
    params: request.params,
    exchanges,
    metadata: page?.metadata ?? null,
    total: page?.total ?? null,
    bytes: page?.bytes ?? null,
    records: commit?.fetched ?? null,
    rows: tablesOf(entity).map((table, index) => ({
      entity: table.entity,
      rows: (commit?.rows[index]?.records ?? []).map((record) => ({
        fields: new Map(fieldsOf(table, record)),
        extra: record.extra === null ? null : readJson(record.extra),
      })),
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

function fieldsOf({ columns }: EntityTable, { values }: PreparedRecord) {
  return columns.map(({ name, type }, index) => [name, fieldValue(type, values[index] ?? null)] as const);
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

/**
 * Chooses the credentials for a trial: those of the named connector, else those of the environment, else the API.
 * Throws USAGE that says what to give.
 */
function chooseConnector(
  { cwd, env }: CommandContext,
  config: LocalSettings | null,
  definition: Definition,
  name: string | undefined,
  given: Readonly<Record<string, string>>,
  allowHosts: readonly string[],
) {
  const own = config ?? readSettings({ file: resolve(cwd, 'no config'), text: '{"sinks":{}}', env });
  const settings = { ...own, allowUpstreamHosts: [...own.allowUpstreamHosts, ...allowHosts] };
  const chosen = (address: ConnectorSettings['address'], entry?: ConnectorSettings) => {
    const isDirect = address.kind === 'direct';
    const masks = entry?.masks ?? masksOfType(settings, definition);
    const given = withSettings(isDirect ? definition : servedDefinition(definition), address);
    const read = maskedDefinition(given, masks);
    // The rates are those of the definition: no config has such a connector.
    const { name: type, rateLimit } = definition;
    if (!isConnectorName(type)) throw new TypeError(`expected the name of a checked definition, got ${type}`);
    const storedIn = entry?.storedIn ?? null;
    return {
      connector: { name: type, definition: read, address, ...rateLimit, isRateSet: false, storedIn },
      settings: { ...settings, access: isDirect ? null : withParts(settings, 'api').api },
    };
  };
  if (name !== undefined) {
    const entry = isConnectorName(name) ? settings.connectors.get(name) : undefined;
    if (entry !== undefined) return chosen(addressOf(entry, definition, settings), entry);
    if (settings.parts.api === null || !isConnectorId(name)) connectorNamed(settings, name);
    if (isConnectorId(name)) return chosen({ kind: 'id', id: name });
  }
  if (Object.keys(given).length > 0 || isDirect({}, definition)) {
    return chosen(triedCredentials(definition, given, (field) => variable(field ?? '<FIELD>')));
  }
  if (settings.parts.api === null) throw usage(howToText(definition));
  const { scopedToWorkspace } = settings.parts.api;
  const workspace = scopedToWorkspace ?? configuredWorkspaces(settings)[0] ?? defaultWorkspace;
  return chosen({ kind: 'workspace', workspace });
}

/**
 * Collects the masks of the config's connectors of this type. Throws USAGE where they mask an entity in several ways.
 */
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

/**
 * A connector of the service itself, with these credentials. Throws USAGE with all their problems; `placeOf` names the
 * place of a field, or (null) of all fields.
 */
function triedCredentials(
  definition: Definition,
  given: Readonly<Record<string, string>>,
  placeOf: (field: string | null) => string,
): ConnectorSettings['address'] {
  const problems: string[] = [];
  const address = buildDirect(entryGiven(definition, given), definition, {
    at: [],
    note: ([part, field], message) => {
      const place = placeOf(field === undefined ? null : String(field));
      problems.push(`${part === 'settings' ? `--setting ${String(field)}` : place}: ${message}`);
    },
  });
  if (problems.length > 0) throw usage(problems.join('\n'));
  return address;
}

/** The credentials that are set in the environment, by field. The scrubber hides them from then on. */
function credentialsOf({ env, scrubber }: CommandContext, { credentials }: Definition) {
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

/** The settings that are given as flags. Secret ones are taken from the environment only. */
function settingsIn(texts: readonly string[], { settings }: Definition): Readonly<Record<string, string>> {
  return Object.fromEntries(
    texts.map((text) => {
      const [, name = '', value = ''] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
      const known = settings.get(name);
      if (known?.isSecret === false) return [name, value];
      const open = [...settings].flatMap(([one, { isSecret }]) => (isSecret ? [] : [one]));
      throw usage(
        known === undefined
          ? `--setting: expected name=value with one of ${firstNames(open) || 'no settings, for there are none'}.`
          : `--setting: ${name} is secret: set ${variable(name)} in the environment.`,
      );
    }),
  );
}

/** The environment variable of a credential field. */
function variable(field: string): string {
  return `${credentialPrefix}${field.toUpperCase()}`;
}

function howToText(definition: Definition): string {
  const { name, upstream } = definition;
  const api = 'name an API in the config';
  if (upstream === null) {
    return `${name} has no upstream, so only an API can read it, and there is none: ${api}.`;
  }
  return [
    `${name} needs credentials. ${waysText(definition)}`,
    `Or name a connector of the config with --connector. Or ${api}.`,
  ].join('\n');
}

function waysText({ credentials }: Definition): string {
  const ways = credentials.map(({ title, fields }) => {
    const needed = [...fields].filter(([, { isRequired }]) => isRequired).map(([field]) => variable(field));
    return `  ${needed.join(' and ')} (${title})`;
  });
  return ['Set these variables of the environment:', ways.join(', or\n')].join('\n');
}

// --- Output for people, call by call

const longestText = 400;
const mostNamed = 20;
const mostRefused = 5;
const widestCell = 24;

interface Shown extends Pick<Trial, 'entity' | 'rows'> {
  readonly width: number;
  /** Undeclared fields that earlier calls have named. */
  readonly known: Set<string>;
}

function callText(call: SeenCall, number: number, shown: Shown): readonly string[] {
  const { entity, width } = shown;
  const { request, commit, problems, error, exchanges, next } = call;
  // For a call that has failed finally, only its error is shown.
  const isOver = error !== null && commit === null && next.kind !== 'call';
  return [
    '',
    ...requestText(`call ${number}`, entity, request.params, width),
    ...exchanges.flatMap((seen) => exchangeText(seen, width)),
    ...(error === null ? [] : fact('failed', printable(error.message), width)),
    ...(commit === null ? [] : commitText(call, commit, shown)),
    ...problems.flatMap((problem) => fact('problem', printable(problem), width)),
    ...(isOver ? [] : fact('paging', [stepText(next), ...factsOf(entity, call)].join('; '), width)),
  ];
}

/** `list tickets cursor=abc limit=50`, each value cut. */
function requestText(label: string, { name }: Entity, params: Params, width: number): readonly string[] {
  const given = Object.entries(params).map(([param, value]) => `${param}=${valueText(value)}`);
  return fact(label, ['list', name, ...given].join(' '), width).map((line) => line.slice(2));
}

function exchangeText({ method, url, body, status, ms, wireBytes, keys }: SeenExchange, width: number) {
  const has = keys === null ? '' : `; has ${firstNames(keys.map((name) => printableWithin(name, 40)))}`;
  const answer =
    status === null
      ? `none after ${duration(ms)}`
      : `${status}, ${sizeText(wireBytes)}, ${duration(ms)}${has}`;
  return [
    ...fact(method, printableWithin(url, longestText), width),
    // Blanks allow line breaks.
    ...(body === null ? [] : fact('', printableWithin(body, longestText).replaceAll(',"', ', "'), width)),
    ...fact('answer', answer, width),
  ];
}

function commitText({ page }: SeenCall, commit: NonNullable<SeenCall['commit']>, shown: Shown) {
  const { filtered, foreign, refused, fetched, children } = commit;
  const { entity, width } = shown;
  const partial = commit.rows[0]?.records.filter((record) => record.partial !== undefined).length ?? 0;
  const total = page?.total === undefined ? '' : ` of a total of ${page.total}`;
  const parts = [
    `${counted(fetched, 'record')}${total}`,
    ...(filtered === 0 ? [] : [`${filtered} of another kind, left out`]),
    ...(foreign === 0 ? [] : [`${foreign} of another listing, left out`]),
    ...(partial === 0 ? [] : [`${partial} of which only a part came`]),
    ...(refused.length === 0 ? [] : [`${refused.length} that cannot be stored (quarantine)`]),
  ];
  const names = children.map((child) => child.entity);
  const below = [...new Set(names)].map(
    (name) => `${counted(names.filter((one) => one === name).length, 'listing')} of ${name}`,
  );
  return [
    ...fact('records', parts.join(', '), width),
    ...tablesOf(entity).flatMap((table, index) => {
      const records = commit.rows[index]?.records ?? [];
      const head =
        index === 0 ? [] : fact('rows', `${counted(records.length, 'row')} of ${table.entity}`, width);
      return [...head, ...rowsText(table, records, shown)];
    }),
    ...refused
      .slice(0, mostRefused)
      .flatMap(({ reason, detail }) => fact('refused', `${reason}: ${printableWithin(detail, 200)}`, width)),
    ...driftText(commit.drift, shown),
    // Listings that a sync would read because of these records.
    ...(below.length === 0 ? [] : fact('leads to', below.join(', '), width)),
  ];
}

function tablesOf({ table, explodedTable }: Entity): readonly EntityTable[] {
  return explodedTable === null ? [table] : [table, explodedTable];
}

/** Undeclared fields that no earlier call has named, each with the line that declares it. */
function driftText(drift: readonly FieldDrift[], { entity, width, known }: Shown): readonly string[] {
  const found = drift.filter((note) => {
    const text = JSON.stringify([note.entity, note.field, note.kind, note.type]);
    return !known.has(text) && known.add(text);
  });
  if (found.length === 0) return [];
  const rows = found
    .slice(0, mostNamed)
    .map((note) => [
      printableWithin(note.field, 30),
      note.type,
      note.kind === 'misfit' ? `does not fit ${entity.fields.get(note.field) ?? 'its field'}` : 'undeclared',
      declarationOf({ ...note, types: [note.type] }) ?? '',
    ]);
  return [
    ...fact('fields', 'not as declared; they are kept in _extra', width),
    ...indentedTable(leftColumns('field', 'came as', 'is', 'to declare it'), rows, width),
    ...(found.length > mostNamed ? fact('', `and ${found.length - mostNamed} more`, width) : []),
  ];
}

/** Shows records as table rows: keys first, then as many columns as fit. The other columns are named below. */
function rowsText(table: EntityTable, records: readonly PreparedRecord[], { rows, width }: Shown) {
  const shown = records.slice(0, rows).map((record) => Object.fromEntries(fieldsOf(table, record)));
  if (shown.length === 0) return [];
  const { lines, omitted } = answerTable(shown, width - 2, table.key, widestCell);
  const empty = table.columns.filter(({ name }) => shown.every((record) => (record[name] ?? '') === ''));
  const below = (label: string, names: readonly string[]): readonly string[] =>
    names.length === 0 ? [] : fact(label, names.join(', '), width);
  const more = records.length - shown.length;
  return [
    ...lines.map((line) => `  ${line}`),
    ...(more === 0 ? [] : fact('', `and ${counted(more, 'more record')}`, width)),
    ...below('besides', omitted),
    ...below(
      'empty',
      empty.map(({ name }) => name),
    ),
  ];
}

/** Describes the step after a call, as the sync's code decided it. */
function stepText(next: TriedStep): string {
  switch (next.kind) {
    case 'call':
      return next.restartedBecause === null
        ? 'the listing continues'
        : `the listing begins again: ${next.restartedBecause}`;
    case 'end': {
      const { proof, lastPage, doubt } = next.seal;
      if (doubt !== undefined) return `the end, part missing: ${doubtText(doubt)}`;
      const why = { single: 'the first page has everything', token: 'the answer says so' };
      const short =
        lastPage === undefined ? '' : `, because ${count(lastPage.records)} of ${count(lastPage.size)} came`;
      const isKnown = proof.kind === 'single' || proof.isOrdered || proof.isCounted === true;
      const order = isKnown ? '' : ', unconfirmed: in an order that is not known';
      return `the end: ${proof.kind === 'single' || proof.kind === 'token' ? why[proof.kind] : 'nothing follows'}${short}${order}`;
    }
    case 'set-aside':
      return `a sync would leave this listing and read the others: ${next.failure.message}`;
    case 'stop':
      return `a sync would stop: ${next.error.message}`;
  }
}

/** Lists the facts in an answer about the next page. */
function factsOf({ pagination }: Entity, { page, commit, next: step }: SeenCall): readonly string[] {
  if (page === null || commit === null) {
    return commit === null && step.kind === 'call'
      ? ['the call failed, and is made again for fewer records']
      : [];
  }
  const { next, total, isCut } = page;
  const cut = isCut === true ? ['the service ended the listing early: it is read on from its other end'] : [];
  const named = total === undefined ? [] : [`the total is ${count(total)}`];
  if (next === null) {
    const { maxSize } = pagination.kind === 'single' ? { maxSize: null } : pagination;
    const came = maxSize === null ? [] : [`${count(commit.fetched)} of up to ${count(maxSize)} records came`];
    return [...cut, ...came, ...named];
  }
  const flag = next.hasMore === null ? [] : [`the flag for more is ${next.hasMore}`];
  const token = next.token === null ? 'no token' : `the token is ${printableWithin(next.token, 40)}`;
  return [...cut, ...flag, token, ...named];
}

function endingText(next: TriedStep | null, { entity, maxCalls }: Trial, width: number): readonly string[] {
  if (next === null) return ['No call was made.'];
  if (next.kind === 'end') return ['The listing was read to its end.'];
  if (next.kind !== 'call') {
    const what = next.kind === 'stop' ? 'stop here' : 'leave this listing and read the others';
    return [`${marks.failed} A sync would ${what}.`];
  }
  return [
    ...requestText('next', entity, next.request.params, width),
    `${counted(maxCalls, 'call')} made (--max-calls); a sync would continue with the next one.`,
  ];
}

function valueText(value: JsonValue): string {
  const text = typeof value === 'string' ? value : wholeJson(value);
  return printableWithin(text.slice(0, longestText), 60);
}
