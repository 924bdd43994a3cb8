import { setMaxListeners } from 'node:events';
import { systemClock, type Clock } from '../../core/clock.ts';
import { hasCode } from '../../core/errors.ts';
import type { OnRunEvent } from '../../core/events.ts';
import type { ConnectorId } from '../../core/names.ts';
import { openApiCaller, type ApiCall } from './api-caller.ts';
import { defaultApiLimits, type ApiLimits } from './api-limits.ts';
import { openCallBudget, type CallBudget, type CallBudgetOptions } from './call-budget.ts';
import { stopError } from './call-failure.ts';
import {
  checkConnectorId,
  connectorCall,
  definitionsCall,
  findConnectorsCall,
  scopedTokenCall,
  tokenCall,
  type ConnectorFilter,
} from './catalog-calls.ts';
import type { Secret } from '../../core/secret.ts';
import { checkBaseUrl, openHttpTransport } from './http-transport.ts';
import { orAborted } from '../../http/or-aborted.ts';
import { redactMessage } from '../../http/redact-message.ts';
import { openServerClock } from '../server-clock.ts';
import { openTokenCache, type IssuedToken, type TokenCache } from './token-cache.ts';

/** How to reach an account of the service, as the settings say it. */
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
  /** How connectors are looked up before their runs. */
  readonly lookups: LookupSettings;
}

/** Look-ups of connectors are calls of the account, not of a connector: they have separate limits. */
interface LookupSettings {
  /** Of each process. */
  readonly requestsPerSecond: number;
  /** Look-ups at a time. */
  readonly concurrency: number;
  /** How long an answer is cached; 0: every run asks again. */
  readonly cacheForMs: number;
}

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
  const baseUrl = checkBaseUrl(api.baseUrl);
  checkEnvironment();
  const transport = openHttpTransport(baseUrl, limits);
  const closing = new AbortController();
  setMaxListeners(0, closing.signal);

  const redact = (text: string): string =>
    redactMessage(text, [api.clientSecret.reveal(), ...applicationTokens.known(), ...tokens.known()]);
  const serverClock = openServerClock();
  const onServerDate = (date: string): void => {
    // Date.parse is lenient ("-5" is a year); a date of HTTP ends so.
    serverClock.heard(/[a-z]{3}.*GMT$/i.test(date) ? Date.parse(date) : Number.NaN);
  };
  const headers = organizationHeader(api.organizationId);
  const common = { transport, headers, clock, limits, redact, onServerDate };
  const { maxThrottleWaitMs } = limits;
  /** `shared`: what other processes keep too. It is entered after this process's own rate has given a turn. */
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
  const catalogBudget = openBudget(api.lookups);
  const lookUps = openLookUps(api.lookups.cacheForMs, clock);
  const lookUp = async <T>(
    key: string,
    what: ApiCall<T>,
    unknown: string,
    signal: AbortSignal,
  ): Promise<T> => {
    // Aborted when the client closes, not when the first caller aborts.
    const ask = (): Promise<T> => call(what, catalogBudget, onEvent, closing.signal);
    try {
      return await lookUps.find(key, ask, signal);
    } catch (error) {
      // A 404 of the catalog is about what was looked for.
      throw hasCode(error, 'NOT_FOUND') ? stopError('CONNECTOR_UNKNOWN', unknown, error) : error;
    }
  };

  return {
    /** The catalog of connector types, narrowed to names that contain `name` (without case). */
    definitions: (name: string | null, signal: AbortSignal) =>
      call(definitionsCall(name), catalogBudget, onEvent, signal),
    /**
     * Every connector of a workspace, cached for `lookups.cacheForMs`; CONNECTOR_UNKNOWN (stop) when the
     * service does not know the workspace.
     */
    findConnectors: (filter: ConnectorFilter, signal: AbortSignal) =>
      lookUp(
        JSON.stringify(filter),
        findConnectorsCall(filter),
        'the workspace is not known to the service: check its name and the credentials',
        signal,
      ),
    /**
     * One connector by its id, kept likewise unless `isFresh`; CONNECTOR_UNKNOWN (stop) on 404. Its context tells a
     * service without this endpoint from an unknown connector as far as that is possible: `namesConnector`.
     */
    connector: async (id: ConnectorId, signal: AbortSignal, { isFresh } = { isFresh: false }) => {
      const what = connectorCall(checkConnectorId(id));
      if (isFresh) lookUps.forget(id);
      return await lookUp(id, what, unknownId(id), signal);
    },
    /** For the source: any call, through a budget of the caller's. */
    call,
    openBudget,
    /** By the answer that came last, whatever was asked. */
    serverTime: () => serverClock.now(),
    clock,
    async [Symbol.asyncDispose]() {
      closing.abort(stopError('INTERRUPTED', 'the API client was closed while a token was being requested'));
      await transport[Symbol.asyncDispose]();
    },
  };
}

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

/** Of each account; a config of more connectors asks for some of them more often. */
const mostKept = 20_000;

/** A cache of catalog answers about connectors: the runs of one account ask for the same ones repeatedly. */
function openLookUps(cacheForMs: number, clock: Clock) {
  const keptByKey = new Map<string, { readonly answer: Promise<unknown>; readonly askedAtMs: number }>();
  return {
    /**
     * The cached answer for `key`, or that of `ask`, which concurrent callers share. Failures are not cached.
     * Rejects with the signal's reason as soon as it is aborted; the request continues for other callers.
     */
    async find<T>(key: string, ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
      signal.throwIfAborted();
      const known = keptByKey.get(key);
      if (known !== undefined && clock.now() - known.askedAtMs < cacheForMs) {
        // A key stands for one question, so its answer has the type of that question's.
        return await orAborted(known.answer as Promise<T>, signal);
      }
      const answer = ask();
      const kept = { answer, askedAtMs: clock.now() };
      keptByKey.delete(key);
      const [oldest] = keptByKey.size >= mostKept ? keptByKey.keys() : [];
      if (oldest !== undefined) keptByKey.delete(oldest);
      keptByKey.set(key, kept);
      answer.catch(() => {
        if (keptByKey.get(key) === kept) keptByKey.delete(key);
      });
      return await orAborted(answer, signal);
    },
    /** Drops what is kept for `key`. */
    forget: (key: string): void => void keptByKey.delete(key),
  };
}
