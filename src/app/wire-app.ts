import type { App, AppOptions } from './app.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { SharedBudget } from '../core/shared-budget.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import { shareSinks } from '../sinks/share-sinks.ts';
import { openApiClient, type ApiClient } from '../source/api/open-api-client.ts';
import { openApiSource, type ApiSource } from '../source/api/open-api-source.ts';
import { otherTypeError, resolveConnector } from '../source/api/resolve-connector.ts';
import { sayUnreachable } from '../telemetry/unreachable.ts';
import { readConnector, tellEnd, type RunParts } from './run-connector.ts';

/** The app itself; `openApp` loads it. */
export function wireApp(options: AppOptions): App {
  const { settings, clock } = options;
  const listeners = new Set<OnRunEvent>();
  // All runs wait for the same token, and for the catalog before they begin: each is told of failed attempts.
  const onEvent: OnRunEvent = (event) => {
    if (event.kind !== 'call-retried' && event.kind !== 'throttled') return;
    for (const listen of listeners) listen(event);
  };
  const { maxThrottleWaitMs } = options;
  const limits = maxThrottleWaitMs === undefined ? {} : { maxThrottleWaitMs };
  const client = namingOrigin(
    openApiClient({ api: settings.api, clock, onEvent, limits }),
    settings.api.baseUrl,
  );
  const openSource: App['openSource'] = async (
    connector,
    signal,
    { client: asked = client, ...more } = {},
  ) => {
    const { definition, address, concurrency, requestsPerSecond } = connector;
    const checked = checkingType(asked, connector, settings);
    // Before the source, because the budget belongs to the account and not to the way in which a config names it.
    const id = await resolveConnector(checked, definition, address, signal);
    const budget = options.openBudget?.(connector, id) ?? null;
    const source = await openApiSource(checked, {
      definition,
      address: { kind: 'id', id },
      concurrency,
      requestsPerSecond,
      budget,
      ...more,
      signal,
    });
    return budget === null ? source : closingBudget(source, budget);
  };
  const parts: RunParts = { ...options, openSource, openSink: shareSinks(clock, settings.sinks.size) };
  const read: App['readAside'] = async (connector, request) => {
    using _listening = listenWith(listeners, request.onEvent);
    return await readConnector(parts, connector, request);
  };
  return {
    settings,
    client,
    openSource,
    sync: (connector, request) =>
      tellEnd(options, connector, request.run ?? {}, () => read(connector, request)),
    readAside: read,
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

function listenWith(listeners: Set<OnRunEvent>, onEvent: OnRunEvent): Disposable {
  listeners.add(onEvent);
  return { [Symbol.dispose]: () => void listeners.delete(onEvent) };
}

function closingBudget(source: ApiSource, budget: SharedBudget): ApiSource {
  return {
    ...source,
    [Symbol.asyncDispose]: async () => {
      await source[Symbol.asyncDispose]();
      await budget[Symbol.asyncDispose]();
    },
  };
}

/** The client, with failures to reach the API told by its address: the layers below know only paths. */
function namingOrigin(client: ApiClient, baseUrl: string): ApiClient {
  const named = async <T>(call: Promise<T>): Promise<T> =>
    await call.catch((error: unknown) => {
      throw sayUnreachable(error, baseUrl);
    });
  return {
    ...client,
    definitions: (name, signal) => named(client.definitions(name, signal)),
    findConnectors: (filter, signal) => named(client.findConnectors(filter, signal)),
    connector: (id, signal, asked) => named(client.connector(id, signal, asked)),
    call: (call, budget, onEvent, signal) => named(client.call(call, budget, onEvent, signal)),
  };
}

/** The client, which refuses a connector of another known type by that type's name: the source knows only its id. */
function checkingType(
  client: ApiClient,
  { definition }: ConnectorSettings,
  settings: LocalSettings,
): ApiClient {
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
