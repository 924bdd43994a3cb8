import { setMaxListeners } from 'node:events';
import * as z from 'zod';
import { wholeJson } from '../../core/canonical-json.ts';
import { systemClock, type Clock, instant, type Instant } from '../../core/clock.ts';
import { hasCode, SyncError, usage } from '../../core/errors.ts';
import type { OnRunEvent } from '../../core/events.ts';
import { type ConnectorId, isConnectorId } from '../../core/names.ts';
import {
  openApiCaller,
  type ApiCall,
  type HttpRequest,
  openHttpTransport,
  openTokenCache,
  type IssuedToken,
  type TokenCache,
} from './api-caller.ts';
import { defaultApiLimits, type ApiLimits } from './api-limits.ts';
import { openCallBudget, type CallBudget, type CallBudgetOptions } from './call-with-retries.ts';
import { stopError, type CallFacts, invalidBody, callFacts } from './call-failure.ts';
import type { Secret } from '../../core/secret.ts';
import { apiAddress } from '../../http/guard-address.ts';
import { orAborted } from '../../http/or-aborted.ts';
import { redactMessage } from '../../http/redact-message.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { JsonObject } from '../../core/json.ts';
import { tryJsonText } from '../../http/lossless-json.ts';
import { textOfBody } from '../../http/exchange.ts';

/** Access to an account of the service, from the settings. */
interface ApiSettings {
  readonly baseUrl: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  /** Sent as X-Organization-Id; null: the token says which organization. */
  readonly organizationId: string | null;
  /**
   * Every call but those for tokens carries a token that sees this workspace alone; absent or null: the account's own
   * token.
   */
  readonly scopedToWorkspace?: string | null;
}

/** Look-ups of connectors are calls of the account, not of a connector: they have separate limits. */
const lookUpLimits = { concurrency: 8, requestsPerSecond: 50 };

interface ApiClientOptions {
  readonly api: ApiSettings;
  readonly clock?: Clock;
  readonly onEvent?: OnRunEvent;
  readonly limits?: Partial<ApiLimits>;
}

export type ApiClient = ReturnType<typeof openApiClient>;

/**
 * One account of a Connector Execution API: sockets, token, retries. Every method rejects with a classified
 * `SyncError` once its retries are used up, or at once with the signal's reason. Disposing it breaks off calls on
 * their way. Opens no connection yet. Throws `SyncError` CONFIG_INVALID for settings that must not be used.
 */
export function openApiClient(options: ApiClientOptions) {
  const { api, clock = systemClock, onEvent = () => undefined } = options;
  const limits: ApiLimits = { ...defaultApiLimits, ...options.limits };
  const baseUrl = apiAddress(api.baseUrl);
  if (typeof baseUrl === 'string') throw stopError('CONFIG_INVALID', `api.baseUrl: ${baseUrl}`);
  checkEnvironment();
  const transport = openHttpTransport(baseUrl, limits);
  const closing = new AbortController();
  setMaxListeners(0, closing.signal);

  const redact = (text: string): string =>
    redactMessage(text, [api.clientSecret.reveal(), ...applicationTokens.known(), ...tokens.known()]);
  const serverClock = openServerClock();
  const headers = organizationHeader(api.organizationId);
  const common = { transport, headers, clock, limits, redact, onServerTime: serverClock.heard };
  const { maxThrottleWaitMs } = limits;
  /**
   * `shared`: the budget that other processes keep too. It is entered after this process's own rate has given a turn.
   */
  const openBudget = (how: Omit<CallBudgetOptions, 'clock' | 'maxThrottleWaitMs'>): CallBudget =>
    openCallBudget({ ...how, clock, maxThrottleWaitMs });
  // A separate budget for each kind: token requests must not queue behind the calls that wait for the token.
  const openTokens = (request: () => ApiCall<IssuedToken>, by: TokenCache | null): TokenCache => {
    const call = openApiCaller({ ...common, tokens: by });
    const budget = openBudget({ concurrency: 1, requestsPerSecond: 5 });
    return openTokenCache(() => call(request(), budget, onEvent, closing.signal), clock);
  };
  const applicationTokens = openTokens(() => tokenCall(api), null);
  const workspace = api.scopedToWorkspace ?? null;
  const tokens =
    workspace === null ? applicationTokens : openTokens(() => scopedTokenCall(workspace), applicationTokens);
  const call = openApiCaller({ ...common, tokens });
  const catalogBudget = openBudget(lookUpLimits);
  // Aborted when the client closes, not when the first caller aborts.
  const ask = <T>(what: ApiCall<T>): Promise<T> => call(what, catalogBudget, onEvent, closing.signal);
  const lookUp = openLookUps(ask, limits.lookUpCacheMs, clock);

  return {
    /** The catalog of connector types, narrowed to names that contain `name` (without case). */
    definitions: (name: string | null, signal: AbortSignal) => {
      const request = { path: definitionsPath, query: name === null ? {} : { name } };
      const list = catalogCall('list source definitions', request, definitionList);
      return call(list, catalogBudget, onEvent, signal);
    },
    /**
     * Every connector of a workspace, cached for `limits.lookUpCacheMs`; CONNECTOR_UNKNOWN (stop) when the
     * service does not know the workspace.
     */
    findConnectors: (filter: ConnectorFilter, signal: AbortSignal) =>
      lookUp(JSON.stringify(filter), findConnectorsCall(filter), { unknown: unknownWorkspace }, signal),
    /**
     * One connector by its id, kept likewise unless `isFresh`; CONNECTOR_UNKNOWN (stop) on 404. Its context tells a
     * service without this endpoint from an unknown connector as far as that is possible: `namesConnector`.
     */
    connector: async (id: ConnectorId, signal: AbortSignal, { isFresh } = { isFresh: false }) =>
      await lookUp(id, connectorCall(checkConnectorId(id)), { unknown: unknownId(id), isFresh }, signal),
    /** Makes any call through a budget of the caller's: for the source. */
    call,
    openBudget,
    /** Time according to the newest answer to any request. */
    serverTime: () => serverClock.now(),
    clock,
    async [Symbol.asyncDispose]() {
      closing.abort(stopError('INTERRUPTED', 'the API client was closed while a token was being requested'));
      await transport[Symbol.asyncDispose]();
    },
  };
}

const unknownWorkspace = 'the workspace is not known to the service: check its name and the credentials';

export function unknownId(id: ConnectorId): string {
  return `no connector has the id ${id}: check it and the organization`;
}

function organizationHeader(id: string | null): Record<string, string> {
  if (id === null) return {};
  if (!/^[A-Za-z0-9._-]{1,128}$/.test(id)) {
    throw stopError(
      'CONFIG_INVALID',
      'api.organizationId: expected letters, digits, ".", "_" and "-"; copy it from the service',
    );
  }
  return { 'x-organization-id': id };
}

function checkEnvironment(): void {
  if (process.env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0') {
    throw stopError(
      'CONFIG_INVALID',
      'NODE_TLS_REJECT_UNAUTHORIZED=0 switches certificate checks off, so anyone could read the credentials; unset it (a private CA goes into NODE_EXTRA_CA_CERTS)',
    );
  }
}

/** Answers about connectors: the runs of one account ask for the same ones repeatedly. Failures are not kept. */
function openLookUps(ask: <T>(what: ApiCall<T>) => Promise<T>, cacheForMs: number, clock: Clock) {
  const kept = new Map<string, { readonly answer: Promise<unknown>; readonly askedAtMs: number }>();
  return async <T>(
    key: string,
    what: ApiCall<T>,
    { unknown, isFresh = false }: { readonly unknown: string; readonly isFresh?: boolean },
    signal: AbortSignal,
  ): Promise<T> => {
    signal.throwIfAborted();
    let found = kept.get(key);
    if (found === undefined || isFresh || clock.now() - found.askedAtMs >= cacheForMs) {
      const asked = { answer: ask(what), askedAtMs: clock.now() };
      asked.answer.catch(() => kept.get(key) === asked && kept.delete(key));
      kept.set(key, asked);
      found = asked;
    }
    try {
      // A key stands for one question, so its answer has the type of that question's.
      return await orAborted(found.answer as Promise<T>, signal);
    } catch (error) {
      // A 404 of the catalog concerns the requested connector.
      throw hasCode(error, 'NOT_FOUND') ? stopError('CONNECTOR_UNKNOWN', unknown, error) : error;
    }
  };
}

export type ConnectorAddress =
  | { readonly kind: 'id'; readonly id: ConnectorId }
  | { readonly kind: 'workspace'; readonly workspace: string };

/**
 * The id behind an address; asks the service only for a workspace. Throws CONNECTOR_UNKNOWN for none, and
 * CONNECTOR_AMBIGUOUS, naming them, for several connectors of the definition in the workspace.
 */
export async function resolveConnector(
  client: ApiClient,
  definition: Definition,
  address: ConnectorAddress,
  signal: AbortSignal,
): Promise<ConnectorId> {
  if (address.kind === 'id') return checkConnectorId(address.id);
  const { workspace } = address;
  const found = await client.findConnectors({ workspace, definitionId: definition.id }, signal);
  const [first, ...others] = found;
  if (first === undefined) {
    throw stopError(
      'CONNECTOR_UNKNOWN',
      `workspace "${workspace}" has no ${definition.name} connector; create one or check the workspace's name`,
    );
  }
  if (others.length === 0) return first.id;
  const names = found.slice(0, 20).map(({ id, name }) => (name === null ? id : `${id} (${name})`));
  throw new SyncError(
    `workspace "${workspace}" has ${found.length} ${definition.name} connectors: ${names.join(', ')}; set the id of one`,
    { code: 'CONNECTOR_AMBIGUOUS', recovery: 'stop', context: { found: found.length } },
  );
}

/** `expected`: the value in the definition or the config. */
export function otherTypeError(id: ConnectorId, found: string, expected: string): SyncError {
  return stopError(
    'CONFIG_INVALID',
    `connector ${id} is of the type ${found}, ${expected}; correct its definition or id`,
  );
}

/**
 * Two clocks may differ by a thousandth in their speed, far more than they do: the service's time is never overtaken.
 */
const clockDrift = 0.999;

/** The service's own time, as far as its answers tell it. */
export function openServerClock() {
  let served: { readonly dateMs: number; readonly heardAt: number } | null = null;
  return {
    heard: (time: Instant | null): void => {
      if (time !== null) served = { dateMs: Date.parse(time), heardAt: performance.now() };
    },
    /**
     * The `Date` of the answer that came last, and the whole seconds that have passed since by a clock that never
     * jumps. Never ahead of the service. Null before the first answer that has a date.
     */
    now(): Instant | null {
      if (served === null) return null;
      const { dateMs, heardAt } = served;
      return instant(dateMs + Math.floor(((performance.now() - heardAt) * clockDrift) / 1_000) * 1_000);
    },
  };
}

/** Text that the service may leave out: null then. */
export const unsaid = z.string().nullable().default(null);
const connectorId = z.string().refine(isConnectorId, 'expected letters, digits, "_" and "-"');

const definition = z
  .object({ sourceDefinitionId: unsaid, name: z.string(), supportLevel: unsaid })
  .transform(({ sourceDefinitionId: id, ...others }) => ({ id, ...others }));
/** A connector type of the API's catalog. */
export type SourceDefinition = Readonly<z.output<typeof definition>>;
const definitionList = z
  .object({ definitions: z.array(definition) })
  .transform(({ definitions }): readonly SourceDefinition[] => definitions);
/** Safe as a path segment: it leads to no other endpoint. */
const definitionPathId = /^[A-Za-z0-9_-]{1,128}$/;

const template = z.object({ actor_definition_id: unsaid }).nullish();
export const namedConnector = z.object({ id: connectorId, name: unsaid });
const summary = namedConnector
  .extend({
    /** The account at the third party, as that one names it; the service that comes with this program says it. */
    account_id: z.string().min(1).nullable().default(null),
    summarized_source_template: template,
    source_template: template,
  })
  .transform(
    ({ id, name, account_id: account, summarized_source_template: ofAll, source_template: ofOne }) => {
      const { actor_definition_id: definitionId } = ofAll ?? ofOne ?? { actor_definition_id: null };
      return { id, name, definitionId, account };
    },
  );
/** A configured connector. */
export type ConnectorSummary = Readonly<z.output<typeof summary>>;
/** `{data: [...]}`, as today, or the bare array: the outer shape is not part of the specification. */
const summaryList = z.union([
  z.object({ data: z.array(summary) }).transform(({ data }) => data),
  z.array(summary),
]);

export interface ConnectorFilter {
  readonly workspace: string;
  readonly definitionId?: string;
}

export const connectorsPath = '/api/v1/integrations/connectors';
const definitionsPath = '/api/v1/integrations/definitions/sources';

/** Judged again where the id enters a path: `..` would lead to another endpoint, encoded or not. */
export function checkConnectorId(id: string): ConnectorId {
  if (isConnectorId(id)) return id;
  throw stopError(
    'CONFIG_INVALID',
    'a connector id has 1 to 128 letters, digits, "_" or "-"; copy it from the service',
  );
}

function findConnectorsCall({ workspace, definitionId }: ConnectorFilter) {
  const ofDefinition = definitionId === undefined ? {} : { definition_id: definitionId };
  const query = { workspace_name: workspace, ...ofDefinition };
  const wanted = definitionId?.toLowerCase();
  // A service that ignores the filter must not make the answer ambiguous.
  const ofType = summaryList.transform((found) =>
    found.filter(({ definitionId: of }) => wanted === undefined || (of?.toLowerCase() ?? wanted) === wanted),
  );
  return catalogCall('find connectors', { path: connectorsPath, query }, ofType);
}

function connectorCall(id: ConnectorId): ApiCall<ConnectorSummary> {
  const call = catalogCall('read the connector', { path: `${connectorsPath}/${id}` }, summary);
  return checkedAnswer(call, (found) => {
    if (found.id === id) return found;
    throw invalidBody(call.facts, 'expected the connector that was asked for, got another one');
  });
}

/** RFC 6750's b64token: the characters that may stand behind "Bearer " in a header. */
const bearerToken = z.string().regex(/^[A-Za-z0-9._~+/=-]{1,16384}$/);

const tokenAnswer = z
  .object({
    access_token: bearerToken,
    // Seconds. Absent: as the hosted service has it.
    expires_in: z.number().positive().default(900),
  })
  .transform(({ access_token: token, expires_in }) => ({ token, lifetimeMs: expires_in * 1_000 }));

/**
 * `POST account/applications/token` with the client credentials; there is no refresh token, so this is also the
 * renewal.
 */
function tokenCall({ clientId, clientSecret }: ApiSettings): ApiCall<IssuedToken> {
  const request = {
    path: '/api/v1/account/applications/token',
    body: JSON.stringify({ client_id: clientId, client_secret: clientSecret.reveal() }),
  };
  return catalogCall('get an application token', request, tokenAnswer, {
    purpose: 'token',
    expected:
      'expected {access_token, expires_in} with a token that fits a header; where this is no token endpoint, check the path in api.baseUrl',
  });
}

/** The service says 20 minutes in its documentation and nothing in its answer. */
const lifetimeMs = 15 * 60_000;

const scopedTokenAnswer = z.object({ token: bearerToken }).transform(({ token }) => ({ token, lifetimeMs }));

/**
 * `POST account/applications/scoped-token`, with the application token: a token that sees one workspace alone. The
 * service may make a workspace that it does not know.
 */
function scopedTokenCall(workspace: string): ApiCall<IssuedToken> {
  const body = JSON.stringify({ workspace_name: workspace });
  const request = { path: '/api/v1/account/applications/scoped-token', body };
  return catalogCall('get a token for the workspace of api.scopedToWorkspace', request, scopedTokenAnswer);
}

/** GET without a body and POST with one, unless `method` is given. */
type CatalogRequest = Pick<HttpRequest, 'path'> & Partial<Pick<HttpRequest, 'query' | 'method' | 'body'>>;

interface CatalogOptions {
  readonly purpose?: 'catalog' | 'token';
  /** A call that changes something: it is sent again only where it cannot have been done. */
  readonly isWrite?: boolean;
  readonly mayBeEmpty?: boolean;
  /** Text of the error for an answer of another shape. */
  readonly expected?: string;
}

/** One call about the account, whose answer has the shape that the API promises. */
function catalogCall<Schema extends z.ZodType>(
  label: string,
  { path, query = {}, body = null, method = body === null ? 'GET' : 'POST' }: CatalogRequest,
  schema: Schema,
  { purpose = 'catalog', isWrite = false, mayBeEmpty = false, expected }: CatalogOptions = {},
): ApiCall<z.output<Schema>> {
  const facts = callFacts(purpose, label, { isWrite });
  return {
    request: { method, path, query, body },
    facts,
    read: ({ body: answer }) => {
      const text = textOfBody(answer);
      const isEmpty = mayBeEmpty && text.trim() === '';
      return isEmpty ? schema.parse({}) : readAnswer(text, schema, facts, expected);
    },
  };
}

/** The same call; `check` gets its answer, and may throw `CallFailure`. */
function checkedAnswer<Answer, T>(call: ApiCall<Answer>, check: (answer: Answer) => T): ApiCall<T> {
  return { ...call, read: (answer) => check(call.read(answer)) };
}

/** A body as the shape that the API promises; unknown members are left out. Throws `CallFailure` BODY_INVALID. */
function readAnswer<Schema extends z.ZodType>(
  text: string,
  schema: Schema,
  facts: CallFacts,
  expected: string | undefined,
): z.output<Schema> {
  const json = tryJsonText(text);
  if (json === undefined) throw invalidBody(facts, expected ?? 'expected JSON, got something else');
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const path = parsed.error.issues[0]?.path.join('.') ?? '';
  const shape = `the answer does not have the expected shape${path === '' ? '' : ` at ${path}`}`;
  throw invalidBody(facts, expected ?? shape);
}

/** Stops on an endless list. */
const mostPages = 10_000;

/**
 * Actions of a person on an account, which a sync never takes. Every method rejects with a classified `SyncError`, as
 * the client's do; those that change something are sent once, unless it is certain that nothing was done. The client
 * stays the caller's; `baseUrl` is the client's.
 */
export function openAdministration(client: ApiClient, baseUrl: string) {
  const budget = client.openBudget({ concurrency: 1, requestsPerSecond: 10 });
  const call = async <T>(one: ApiCall<T>, signal: AbortSignal): Promise<T> =>
    await client.call(one, budget, () => undefined, signal);
  return {
    /** A connector type by its id in the API's catalog. Throws NOT_FOUND, and USAGE for an invalid id. */
    async definition(id: string, signal: AbortSignal): Promise<SourceDefinition> {
      if (!definitionPathId.test(id)) {
        throw usage('an id of a definition has letters, digits, "_" and "-"; copy it from the service');
      }
      const request = { path: `${definitionsPath}/${id}` };
      return await call(catalogCall('read the source definition', request, definition), signal);
    },
    /** Lists all workspaces, whatever the size of the service's pages. */
    async workspaces(filter: WorkspaceFilter, signal: AbortSignal): Promise<readonly WorkspaceSummary[]> {
      const found: WorkspaceSummary[] = [];
      const seen = new Set<string>();
      for (let cursor: string | null = null; ;) {
        const one = workspacesCall(filter, cursor, baseUrl);
        const page: ReturnType<typeof one.read> = await call(one, signal);
        found.push(...page.workspaces);
        ({ cursor } = page);
        if (cursor === null) return found;
        if (seen.has(cursor) || seen.size >= mostPages) {
          throw stopError(
            'PAGING_BROKEN',
            'list workspaces: expected each page to lead to a new one, got a cursor again; the service does not page as it says',
          );
        }
        seen.add(cursor);
      }
    },
    /** Sent again only where it cannot have been done. `name` null: chosen by the service. */
    async createConnector({ workspace, definitionId, name, credentials }: NewConnector, signal: AbortSignal) {
      const body = wholeJson({
        workspace_name: workspace,
        definition_id: definitionId,
        ...(name === null ? {} : { name }),
        ...(credentials === null ? {} : { credentials }),
      });
      const request = { path: connectorsPath, body };
      const how = { isWrite: true };
      return await call(catalogCall('create the connector', request, namedConnector, how), signal);
    },
    /**
     * Asks the third party about the connector's credentials. Null: it takes them; else why not, as the service says
     * it. Throws NOT_FOUND.
     */
    async checkConnector(id: ConnectorId, signal: AbortSignal): Promise<string | null> {
      const request = { path: `${connectorsPath}/${checkConnectorId(id)}/check`, body: '{}' };
      const check = catalogCall('check the connector', request, checked);
      const { status, error_message: message } = await call(check, signal);
      return status === 'succeeded' ? null : (message ?? 'the API gives no reason');
    },
    /** Resolves when the service has accepted it, with the job that does it where it names one. Throws NOT_FOUND. */
    async deleteConnector(id: ConnectorId, signal: AbortSignal): Promise<string | null> {
      const request = { method: 'DELETE', path: `${connectorsPath}/${checkConnectorId(id)}` } as const;
      // The status says that it was accepted: an empty body is fine.
      const how = { isWrite: true, mayBeEmpty: true };
      return (await call(catalogCall('delete the connector', request, deleted, how), signal)).job_id;
    },
  };
}

interface NewConnector {
  readonly workspace: string;
  readonly definitionId: string;
  readonly name: string | null;
  /** Credentials for the third party; they travel in the body and nowhere else. Null: none are sent. */
  readonly credentials: JsonObject | null;
}

const checked = z.object({ status: z.enum(['succeeded', 'failed']), error_message: unsaid });
const deleted = z.object({ job_id: unsaid });

const workspaceSummary = z
  .object({
    id: z.string(),
    name: z.string(),
    /** `active` or `inactive`, or a value that the service may add one day. */
    status: unsaid,
    created_at: unsaid,
  })
  .transform(({ created_at: createdAt, ...others }) => ({ ...others, createdAt }));
/** A workspace of the organization. */
type WorkspaceSummary = Readonly<z.output<typeof workspaceSummary>>;

interface WorkspaceFilter {
  /** Part of the name, in any case. Null: all of them. */
  readonly nameContains: string | null;
  readonly status: 'active' | 'inactive' | null;
}

/** The most that the service gives at once. */
const pageSize = 100;
const longestCursor = 8_192;

const workspaceList = z.object({ data: z.array(workspaceSummary), next: unsaid });

/**
 * One page, with the cursor of the next one; null: this was the last. `baseUrl` is where the service is, and where its
 * `next` must lead.
 */
function workspacesCall({ nameContains, status }: WorkspaceFilter, cursor: string | null, baseUrl: string) {
  const query = {
    limit: String(pageSize),
    ...(nameContains === null ? {} : { name_contains: nameContains }),
    ...(status === null ? {} : { status }),
    ...(cursor === null ? {} : { cursor }),
  };
  const call = catalogCall('list workspaces', { path: '/api/v1/workspaces', query }, workspaceList);
  return checkedAnswer(call, ({ data, next }) => ({
    workspaces: data,
    cursor: next === null ? null : cursorIn(next, baseUrl, call.facts),
  }));
}

/**
 * The cursor sits in the query of a whole URL. That URL is never called: the cursor goes to the service that is
 * configured. A host that is another one says that the answer was not meant for us.
 */
function cursorIn(next: string, baseUrl: string, facts: CallFacts): string {
  const url = URL.canParse(next, baseUrl) ? new URL(next, baseUrl) : null;
  const cursor = url?.host === new URL(baseUrl).host ? (url.searchParams.get('cursor') ?? '') : '';
  if (cursor !== '' && cursor.length <= longestCursor) return cursor;
  throw invalidBody(facts, 'expected next to be a URL of the same service with a cursor, got none', 'stop');
}
