import { hasCode, SyncError, usage } from '../core/errors.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { Notifier } from '../notify/open-notifier.ts';
import { isLoopbackHost } from '../http/guard-address.ts';
import type { DirectAddress, LocalSettings, ReadConnector } from '../settings/settings.ts';
import { shareSinks } from '../sinks/share-sinks.ts';
import { defaultApiLimits } from '../source/api/api-limits.ts';
import { type ConnectorSource, maskedSource } from '../source/source.ts';
import {
  type ApiClient,
  openApiClient,
  otherTypeError,
  resolveConnector,
} from '../source/api/open-api-client.ts';
import { openApiSource } from '../source/api/open-api-source.ts';
import { openDirectClient, openDirectSource } from '../source/direct/open-direct-source.ts';
import type { App, AppOptions } from './app.ts';
import { addressOfConnector, checkAddress, checkApiAddress } from './connector-address.ts';
import { readConnector, type RunParts, tellEnd } from './run-connector.ts';
import { signInAt } from './sign-in.ts';

/** The app itself; `openApp` loads it. */
export function wireApp(options: AppOptions, notifier: Notifier): App {
  const { settings, clock } = options;
  const api = settings.access;
  const listeners = new Set<OnRunEvent>();
  // All runs wait for the same token, and for the catalog before they begin: failed attempts are reported to each.
  const onEvent: OnRunEvent = (event) => {
    if (event.kind !== 'call-retried' && event.kind !== 'throttled') return;
    options.onWait?.(event);
    for (const listen of listeners) listen(event);
  };
  const { maxThrottleWaitMs = defaultApiLimits.maxThrottleWaitMs } = options;
  const limits = { maxThrottleWaitMs };
  const client =
    api === null
      ? absentClient(options)
      : checkedClient(openApiClient({ api, clock, onEvent, limits }), api.baseUrl, options);
  const direct = openDirectClient({ allowHosts: settings.allowUpstreamHosts, clock, maxThrottleWaitMs });

  const openDirect = (
    connector: ReadConnector,
    { credentials, signIn }: DirectAddress,
    more: SourceExtras,
  ): ConnectorSource => {
    const { name, definition, isRateSet } = connector;
    const account = {
      // One that is tried reads by the sign-in of its connector.
      name: signIn?.connector ?? name,
      definition,
      credentials,
      signIn: signInAt({ signIn }, clock),
      ...(more.onExchange === undefined ? {} : { onExchange: more.onExchange }),
    };
    return openDirectSource(direct.account(account), {
      ...more,
      address: addressOfConnector(connector, options) ?? '',
      ...(isRateSet ? {} : { statedRate: 'lower' }),
      openBudget: (origin) => options.openBudget?.(connector, origin) ?? null,
      limits,
      clock,
    });
  };

  const openClear: App['openSource'] = async (connector, signal, { stored, ...asked } = {}) => {
    const { definition, address, concurrency, requestsPerSecond, isRateSet } = connector;
    await checkAddress(connector, options, stored);
    const heard = options.onWait === undefined ? {} : { onEvent: options.onWait };
    const more = { definition, concurrency, requestsPerSecond, ...heard, ...asked };
    if (address.kind === 'direct') return openDirect(connector, address, more);
    const checked = checkingType(client, connector, settings);
    // Before the source, because the budget belongs to the account and not to the way in which a config names it.
    const id = await resolveConnector(checked, definition, address, signal);
    const baseUrl = api?.baseUrl ?? '';
    // An API on this machine knows best what may be asked of it; another one may only ask for less.
    const isHere = URL.canParse(baseUrl) && isLoopbackHost(new URL(baseUrl).hostname);
    const unnamed = { baseUrl: options.identityBaseUrl ?? baseUrl, connectorId: id, isAccount: false };
    const { onExchange } = asked;
    return openApiSource(checked, {
      ...more,
      ...(isRateSet ? {} : { statedRate: isHere ? 'follow' : 'lower' }),
      connectorId: id,
      address: unnamed.baseUrl,
      budget: options.openBudget?.(connector, unnamed) ?? null,
      // The layers below know only paths.
      ...(onExchange && {
        onExchange: (seen, facts) => onExchange({ ...seen, url: `${baseUrl}${seen.url}` }, facts),
      }),
    });
  };
  const openSource: App['openSource'] = async (connector, ...more) =>
    maskedSource(await openClear(connector, ...more), connector.definition);
  const sinks = shareSinks(clock, settings.sinks.size);
  const parts: RunParts = { ...options, openSource, openSink: sinks.open };
  const read: App['readAside'] = async (connector, request) => {
    using _listening = listenWith(listeners, request.onEvent);
    return await readConnector(parts, connector, request);
  };
  return {
    settings,
    client,
    notifier,
    openSource,
    sync: (connector, request) =>
      tellEnd({ ...options, notifier }, connector, request.run ?? {}, () => read(connector, request)),
    repair: (connector, repair) => tellEnd(options, connector, {}, repair),
    readAside: read,
    async [Symbol.asyncDispose]() {
      await notifier[Symbol.asyncDispose]();
      await direct[Symbol.asyncDispose]();
      await client[Symbol.asyncDispose]();
      // Last: a file that cannot be closed must not leave connections open.
      await sinks[Symbol.asyncDispose]();
    },
  };
}

type SourceExtras = Omit<NonNullable<Parameters<App['openSource']>[2]>, 'stored'> &
  Pick<ReadConnector, 'definition' | 'concurrency' | 'requestsPerSecond'>;

function listenWith(listeners: Set<OnRunEvent>, onEvent: OnRunEvent): Disposable {
  listeners.add(onEvent);
  return { [Symbol.dispose]: () => void listeners.delete(onEvent) };
}

/** For a config without an API: commands that need one are refused earlier, by `withParts`. */
function absentClient({ clock }: Pick<AppOptions, 'clock'>): ApiClient {
  const refuse = (): never => {
    throw usage('This needs a Connector Execution API, and the config names none: add api.');
  };
  const refuseCall = async (): Promise<never> => refuse();
  return {
    definitions: refuseCall,
    findConnectors: refuseCall,
    connector: refuseCall,
    call: refuseCall,
    openBudget: refuse,
    serverTime: () => null,
    clock,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/**
 * Sends nothing before its address has been compared with the stored one. Failures to reach the API name its address:
 * the layers below know only paths.
 */
function checkedClient(client: ApiClient, baseUrl: string, options: AppOptions): ApiClient {
  let isChecked = false;
  const checked = async <T>(call: () => Promise<T>): Promise<T> => {
    if (!isChecked) await checkApiAddress(options);
    isChecked = true;
    return await call().catch((error: unknown) => {
      throw sayUnreachable(error, baseUrl);
    });
  };
  return {
    ...client,
    definitions: (name, signal) => checked(() => client.definitions(name, signal)),
    findConnectors: (filter, signal) => checked(() => client.findConnectors(filter, signal)),
    connector: (id, signal, asked) => checked(() => client.connector(id, signal, asked)),
    call: (call, budget, onEvent, signal) => checked(() => client.call(call, budget, onEvent, signal)),
  };
}

/** The client, which refuses a connector of another known type by that type's name: the source knows only its id. */
function checkingType(client: ApiClient, { definition }: ReadConnector, settings: LocalSettings): ApiClient {
  return {
    ...client,
    connector: async (id, signal, asked) => {
      const found = await client.connector(id, signal, asked);
      const type = found.definitionId?.toLowerCase();
      const other = [...settings.definitions.values()].find((known) => known.id.toLowerCase() === type);
      if (other === undefined || other.id === definition.id) return found;
      const expected = `and the config says ${definition.name} (${definition.id})`;
      throw otherTypeError(id, `${other.name} (${other.id})`, expected);
    },
  };
}

// --- Failures to reach the API

/**
 * A failure to reach the API, with the API's origin (no path, no query) and what to check; any other error as it came.
 */
export function sayUnreachable(error: unknown, baseUrl: string): unknown {
  if (!hasCode(error, 'NETWORK') && !hasCode(error, 'TIMEOUT')) return error;
  const { message, code, recovery, context } = error;
  // An answer such as a 504 came from somewhere.
  if (context['cause'] === undefined) return error;
  const { origin } = new URL(baseUrl);
  const advice = 'Is api.baseUrl right, is the service running, and may this machine reach it?';
  return new SyncError(`${origin}: ${message}. ${advice}`, {
    code,
    recovery,
    context: { ...context, origin },
    cause: error,
  });
}
