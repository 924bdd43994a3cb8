import { hostname } from 'node:os';
import { join } from 'node:path';
import { instant, type Clock } from './core/clock.ts';
import { SyncError } from './core/errors.ts';
import type { OnRunEvent } from './core/events.ts';
import type { ConnectorId, ConnectorName } from './core/names.ts';
import type { SharedBudget } from './core/shared-budget.ts';
import { estimateCalls, type CallEstimate } from './engine/estimate-calls.ts';
import type { FileOptions } from './engine/files/fetch-files.ts';
import type { RunOptions } from './engine/run-options.ts';
import { selectEntities, type Selection } from './engine/select-entities.ts';
import { syncConnector } from './engine/sync-connector.ts';
import type { ConnectorSettings, Settings, SinkSettings } from './settings/settings.ts';
import type { ConnectorStatus, LedgerReader } from './sinks/ledger-reader.ts';
import { openFileFolder } from './sinks/files/open-file-folder.ts';
import { isSinkThere } from './sinks/ledger/open-database.ts';
import { openHistory, openSink } from './sinks/registry.ts';
import type { RunReport } from './sinks/run-report.ts';
import { openApiClient, type ApiClient } from './source/api/open-api-client.ts';
import { openApiSource, type ApiSource, type ApiSourceOptions } from './source/api/open-api-source.ts';
import { resolveConnector } from './source/api/resolve-connector.ts';
import { sayUnreachable } from './telemetry/unreachable.ts';
import { watchCancel } from './watch-cancel.ts';

export interface AppOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  /** Shown to whoever finds a connector busy: which command holds it. No arguments, they may name anything. */
  readonly command: string;
  /** Stands in the ledger for the API's address where that changes from run to run (a local service on a free port). */
  readonly identityBaseUrl?: string;
  /** What a connector's calls share with other processes; null: nothing. The app disposes it with the source. */
  readonly openBudget?: (connector: ConnectorSettings, id: ConnectorId) => SharedBudget | null;
}

export interface EntityGlobs {
  /** Empty: every entity of the connector. */
  readonly select: readonly string[];
  readonly exclude: readonly string[];
}

export interface SyncRequest {
  readonly globs: EntityGlobs;
  readonly onEvent: OnRunEvent;
  /** What the ledger knew before the run; null for a connector that it has never held. */
  readonly onStatus?: (status: ConnectorStatus | null) => void;
  /** What is asked of this run beyond an ordinary one; the guards are those of the settings. */
  readonly run?: Partial<Omit<RunOptions, 'guards'>>;
  /**
   * Aborting it ends the run after a checkpoint, with the outcome `interrupted`; so does a cancel request in the ledger,
   * within about a second.
   */
  readonly signal: AbortSignal;
}

export interface PlannedSync extends Selection {
  readonly estimates: readonly CallEstimate[];
}

/** The rooms wired together for one process. Connects to nothing before it is asked to. */
export interface App extends AsyncDisposable {
  readonly settings: Settings;
  readonly client: ApiClient;
  openSource(
    connector: ConnectorSettings,
    signal: AbortSignal,
    more?: Pick<ApiSourceOptions, 'onEvent' | 'maxCalls'>,
  ): Promise<ApiSource>;
  /** One run of one connector, as `syncConnector` tells it. Throws where no run could begin. */
  sync(connector: ConnectorSettings, request: SyncRequest): Promise<RunReport>;
  /** What a sync would read, without a call; `isFull`: one that is asked to read everything. */
  plan(connector: ConnectorSettings, globs: EntityGlobs, isFull?: boolean): PlannedSync;
  /** The id of a sink, which is made where there is none. Throws what `openSink` throws. */
  sinkId(sink: SinkSettings): Promise<string>;
}

export function openApp(options: AppOptions): App {
  const { settings, clock } = options;
  const client = namingOrigin(openApiClient({ api: settings.api, clock }), settings.api.baseUrl);
  const openSource: App['openSource'] = async (connector, signal, more = {}) => {
    const { definition, address, concurrency, requestsPerSecond } = connector;
    const checked = checkingType(client, connector, settings);
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
  return {
    settings,
    client,
    openSource,
    sync: async (connector, { globs, onEvent, onStatus, run = {}, signal }) => {
      const { definition } = connector;
      const { entities } = selectEntities(definition, connector.entities, globs);
      await using source = await openSource(connector, signal, { onEvent, maxCalls: run.maxCalls ?? null });
      await using sink = await openSink(connector.sink, { clock });
      onStatus?.(statusOf(sink.history, connector.name));
      using cancel = watchCancel(sink.history);
      return await syncConnector({
        identity: {
          connector: connector.name,
          baseUrl: options.identityBaseUrl ?? settings.api.baseUrl,
          connectorId: source.connectorId,
          definition: definition.name,
          definitionHash: definition.contentHash,
          holder: {
            pid: process.pid,
            host: hostname(),
            command: options.command,
            since: instant(clock.now()),
          },
        },
        definition,
        entities,
        source,
        sink,
        concurrency: connector.concurrency,
        files: filesOf(connector, source, clock),
        clock,
        run: { ...run, guards: settings.guards },
        onEvent: (event) => {
          cancel.onEvent(event);
          onEvent(event);
        },
        signal: AbortSignal.any([signal, cancel.signal]),
      });
    },
    plan: (connector, globs, isFull = false) => {
      const { definition } = connector;
      const selection = selectEntities(definition, connector.entities, globs);
      using history = openExistingHistory(connector.sink);
      const status = history === null ? null : statusOf(history, connector.name);
      const estimates = estimateCalls({ definition, entities: selection.entities, status, isFull });
      return { ...selection, estimates };
    },
    sinkId: async (settings) => {
      await using sink = await openSink(settings, { clock });
      return sink.id;
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

function filesOf(
  { name, downloads }: ConnectorSettings,
  source: ApiSource,
  clock: Clock,
): FileOptions | null {
  if (downloads === null) return null;
  const { directory, entities, maxBytes } = downloads;
  const folder = openFileFolder({ directory, connector: name, clock });
  return { source, folder, entities: new Set(entities), maxBytes };
}

/**
 * A sink's ledger for reading; null when nothing has been synced into it yet. The caller disposes it. Throws where that
 * cannot be known (no permission) or something else is there.
 */
export function openExistingHistory(sink: SinkSettings): (LedgerReader & Disposable) | null {
  return isSinkThere(ledgerFile(sink)) ? openHistory(sink) : null;
}

/** The SQLite file that holds a sink's `_sync_*` tables. */
export function ledgerFile(sink: SinkSettings): string {
  return sink.type === 'sqlite' ? sink.path : join(sink.directory, '_ledger.db');
}

export function statusOf(history: LedgerReader, connector: ConnectorName): ConnectorStatus | null {
  return history.connectors().find((status) => status.connector === connector) ?? null;
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
    connector: (id, signal) => named(client.connector(id, signal)),
    call: (call, budget, onEvent, signal) => named(client.call(call, budget, onEvent, signal)),
  };
}

/** The client, which refuses a connector of another known type by that type's name: the source knows only its id. */
function checkingType(client: ApiClient, { definition }: ConnectorSettings, settings: Settings): ApiClient {
  return {
    ...client,
    connector: async (id, signal) => {
      const found = await client.connector(id, signal);
      const type = found.definitionId?.toLowerCase();
      const other = [...settings.definitions.values()].find((known) => known.id.toLowerCase() === type);
      if (other === undefined || other.id === definition.id) return found;
      throw new SyncError(
        `connector ${id} is of the type ${other.name} (${other.id}), and the config says ${definition.name} (${definition.id}); correct its definition or id`,
        { code: 'CONFIG_INVALID', recovery: 'stop' },
      );
    },
  };
}
