import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Clock, systemClock } from '../core/clock.ts';
import { usage } from '../core/errors.ts';
import { type Definition, servedDefinition } from '../definitions/definition.ts';
import { maskedDefinition, type Masks } from '../definitions/record-masks.ts';
import { derivedKey } from '../files/sealer.ts';
import { knownDefinition, openLocalConnectors } from './local-connectors.ts';
import { guardRequests, knownPrincipalOf, openServer, type ServerOptions } from './open-server.ts';
import type { Providers } from './provider.ts';
import { openApiDocument } from './reference/open-api-document.ts';
import { apiEndpoints, publicPathsOf, registerEndpoints, trackCalls } from './routes/api-endpoints.ts';
import type { ApiParts } from './routes/endpoint.ts';
import { defaultServerLimits, defaultTokenSeconds, type ServerLimits } from './server-limits.ts';
import { type Application, openServiceState, type ServiceState } from './state/open-service-state.ts';
import { loadServiceKey } from './state/service-key.ts';
import { openContextStores } from './store/open-context-stores.ts';

/** A connector that is there from the start. */
export interface ServedConnector {
  readonly connectorId: string;
  readonly definitionName: string;
  readonly workspace: string;
}

export interface SeedOptions {
  /** The application of the organization `default`; may be left out where the state has one. */
  readonly clientId?: string;
  readonly clientSecret?: string;
  /** Definitions by name: the catalog that the service offers, and the rules for parameters. */
  readonly definitions: ReadonlyMap<string, Definition>;
  /** Connectors that are there from the start; one that was made here before is left as it is. */
  readonly connectors: readonly ServedConnector[];
}

/** The organization of requests and connectors that name none. */
const defaultOrganization = 'default';

/**
 * Puts what the service was started with into its state: the application with its secret, and the connectors with their
 * workspaces. What already exists stays as it is. Returns the organization of the application.
 *
 * Throws `SyncError` USAGE for a connector whose definition is unknown, for an id that is given twice or belongs to
 * another kind of connector, and where neither the options nor the state have an application of `default`.
 */
function seedState(state: ServiceState, { clientId, clientSecret, connectors, definitions }: SeedOptions) {
  const { organizationId } =
    clientId === undefined || clientSecret === undefined
      ? storedApplication(state)
      : state.applications.put({ organizationName: defaultOrganization, clientId, clientSecret });
  const seen = new Set<string>();
  for (const connector of connectors) {
    if (seen.has(connector.connectorId)) throw usage(`Two connectors have the id ${connector.connectorId}.`);
    seen.add(connector.connectorId);
    seedConnector(state, organizationId, connector, knownDefinition(definitions, connector.definitionName));
  }
  for (const { definition } of state.connectors.all()) knownDefinition(definitions, definition);
  return organizationId;
}

/** Where none is given: one that was made before. */
function storedApplication(state: ServiceState): Application {
  const found = state.applications
    .list()
    .find(({ organizationName }) => organizationName === defaultOrganization);
  if (found !== undefined) return found;
  throw usage(
    `Expected a client id and a client secret, or data with an application of the organization ${defaultOrganization}.`,
  );
}

function seedConnector(
  state: ServiceState,
  organizationId: string,
  { connectorId, workspace: workspaceName }: ServedConnector,
  { name, title }: Definition,
): void {
  const present = state.connectors.byId(organizationId, connectorId);
  if (present === null) {
    const workspace = state.workspaces.ensure(organizationId, workspaceName);
    // Throws for an id that another organization's connector has.
    state.connectors.create({
      id: connectorId,
      organizationId,
      workspaceId: workspace.id,
      definition: name,
      name: `${title} (${workspaceName})`,
      credentials: null,
      account: null,
      address: null,
    });
  } else if (present.definition !== name) {
    throw usage(
      `Expected connector ${connectorId} to be of the definition ${name}; the service's data has it as ${present.definition}.`,
    );
  }
}

export interface ServiceOptions extends SeedOptions, ServerOptions {
  /** Address to bind, default 127.0.0.1. */
  readonly host?: string;
  /** 0: any free port. */
  readonly port: number;
  /**
   * The third parties behind all connectors, also behind those that are created later. The service disposes of them.
   */
  readonly providers: Providers;
  /**
   * Folder for data that must survive the process. Default null: everything is in memory, and there are no indexed
   * stores.
   */
  readonly data?: string | null;
  /** 32 bytes that credentials are sealed with; default: the key file in `data`. */
  readonly key?: Buffer;
  /** Masks by the name of a definition, for the stored and shown records of all its connectors. */
  readonly masks?: ReadonlyMap<string, Masks>;
  /** False: no indexed stores are kept, though there is a folder. */
  readonly isIndexed?: boolean;
  /** Between two syncs of an indexed store. Default null: only the first sync runs by itself. */
  readonly refreshEveryMs?: number | null;
  /** Default 900: public clients keep a token for 14 minutes whatever `expires_in` says. */
  readonly tokenTtlSeconds?: number;
  /** Host names to answer for, in addition to the loopback names and `host`. */
  readonly allowedHosts?: readonly string[];
  readonly limits?: Partial<ServerLimits>;
  readonly clock?: Clock;
  /** Called for each request when its answer has been sent or cut off. */
  readonly onRequest?: (entry: RequestEntry) => void;
}

const defaults = {
  host: '127.0.0.1',
  data: null,
  masks: new Map<string, Masks>(),
  isIndexed: true,
  refreshEveryMs: null,
  tokenTtlSeconds: defaultTokenSeconds,
  allowedHosts: [],
  clock: systemClock,
} satisfies Partial<ServiceOptions>;

const noMasks: Masks = new Map();

export type Service = Awaited<ReturnType<typeof startService>>;

/**
 * Serves the Connector Execution API. Resolves when the port answers. Throws `SyncError` USAGE for a connector whose
 * definition is unknown and for a data folder that another process has, what opening the data throws, and the system's
 * error when the port is taken.
 */
export async function startService(options: ServiceOptions) {
  const settings = { ...defaults, ...options };
  const { clock, data, providers } = settings;
  const limits = { ...defaultServerLimits, ...options.limits };
  const definitions = new Map(
    [...options.definitions].map(([name, one]) => [
      name,
      maskedDefinition(servedDefinition(one), settings.masks.get(name) ?? noMasks),
    ]),
  );
  // Close functions, called from the last to the first, also when a later step of the start fails.
  const opened = [async (): Promise<void> => await providers[Symbol.asyncDispose]()];
  try {
    const key = options.key ?? loadServiceKey(data, undefined);
    const state = openServiceState({ ...settings, ...limits, folder: data, key });
    // Closed after the providers: tokens that a third party renews until they end are still stored.
    opened.unshift(async () => state[Symbol.dispose]());
    const organizationId = seedState(state, options);
    const cursorKey = derivedKey(key, 'search cursors');
    const kept = { isKept: settings.isIndexed, search: { deadlineMs: 5_000, processes: 2 }, cursorKey };
    const stores = openContextStores({ ...settings, ...kept, folder: data });
    opened.push(async () => await stores[Symbol.asyncDispose]());

    const connectors = openLocalConnectors({ state, definitions, providers, stores });
    const { server, close: closeServer } = apiServer(settings, limits, {
      state,
      definitions,
      connectors,
      clock,
    });
    opened.push(closeServer);

    await connectors.settleAll();
    const url = await server.listen({ host: settings.host, port: settings.port });
    let closed: Promise<void> | null = null;
    const close = (): Promise<void> => (closed ??= closeAll(opened));
    return {
      /** `http://<host>:<port>`, or `https`: the base URL for clients. */
      url,
      /** The ids of the connectors that the options named. */
      connectors: options.connectors.map(({ connectorId }) => connectorId),
      /** Organization of the application that `clientId` names, or of `default`. */
      organizationId,
      state,
      stores,
      /** Cuts open connections, ends syncs and searches, and frees the port; may be called again. */
      close,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await closeAll(opened);
    throw error;
  }
}

/** The server of the API, which does not listen yet. */
function apiServer(
  settings: ServiceOptions & Required<Pick<ServiceOptions, keyof typeof defaults>>,
  limits: ServerLimits,
  parts: Omit<ApiParts, 'openApi'>,
) {
  const { state, clock } = parts;
  const calls = trackCalls();
  const server = openServer(limits, settings);
  logRequests(server, settings.onRequest);
  guardRequests(server, {
    state,
    allowedHosts: answeredHosts(settings.host, settings.allowedHosts),
    publicPaths: publicPathsOf(apiEndpoints),
    limits,
    clock,
  });
  let openApi: ApiParts['openApi'] | null = null;
  const api = {
    ...parts,
    /** Made at its first use, because making it takes half of the start. */
    get openApi() {
      return (openApi ??= openApiDocument(apiEndpoints));
    },
  };
  registerEndpoints(server, apiEndpoints, { api, calls });
  return {
    server,
    /** Connections first: an answer that is still waited for is cut off, not turned into an error. */
    close: async (): Promise<void> => await server.close().finally(() => calls.abortAll()),
  };
}

/** Closes each one, also where another cannot be closed; rejects with the first failure. */
async function closeAll(opened: (() => Promise<void>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (let close = opened.pop(); close !== undefined; close = opened.pop()) {
    await close().catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}

function answeredHosts(host: string, allowedHosts: readonly string[]): ReadonlySet<string> {
  return new Set([
    '127.0.0.1',
    'localhost',
    '[::1]',
    // As it stands in a Host header: IPv6 addresses in brackets.
    host.includes(':') ? `[${host}]` : host.toLowerCase(),
    ...allowedHosts.map((name) => name.toLowerCase()),
  ]);
}

function logRequests(server: FastifyInstance, onRequest: ServiceOptions['onRequest']): void {
  server.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    done();
  });
  server.addHook('onResponse', (request, reply, done) => {
    onRequest?.(entryOf(request, reply));
    done();
  });
}

const maxIdChars = 128;

export type RequestEntry = ReturnType<typeof entryOf>;

/**
 * Parts of a request that a log may hold: no query, no header, no body, and of the path only where a connector's id was
 * expected.
 */
function entryOf(request: FastifyRequest, reply: FastifyReply) {
  const { url } = request.routeOptions;
  const principal = knownPrincipalOf(request);
  const { id } = (request.params ?? {}) as { readonly id?: unknown };
  const isOfConnector = url?.includes('/connectors/:id') === true && typeof id === 'string';
  return {
    /** UUID; the client finds it in the header `X-Request-Id`. */
    requestId: request.id,
    method: request.method,
    /** Route as declared: `/api/v1/integrations/connectors/:id/execute`; null where no endpoint matched. */
    route: url ?? null,
    /** Id in the path; null for a route without one. */
    connectorId: isOfConnector ? id.slice(0, maxIdChars) : null,
    status: reply.statusCode,
    durationMs: Math.round(reply.elapsedTime),
    /** IP address. */
    client: request.socket.remoteAddress ?? '',
    /** Null: no token, or an unknown one. */
    clientId: principal?.clientId ?? null,
    /** The start of the token's hash. */
    token: principal?.tokenName ?? null,
  };
}
