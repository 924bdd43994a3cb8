import { randomUUID } from 'node:crypto';
import { knownOrMade } from '../core/grouped.ts';
import type { JsonObject } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import { usage } from '../core/errors.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import { placesOfCredentials, unusable } from '../upstream/credentials.ts';
import { type ApiError, notFound } from './api-error.ts';
import {
  askProvider,
  maskedProvider,
  type ProvidedConnector,
  type Provider,
  type ProviderCheck,
  type Providers,
} from './provider.ts';
import type { Principal, StoredConnector, ServiceState, Workspace } from './state/open-service-state.ts';
import type { ContextStores, StoreStatus } from './store/open-context-stores.ts';

/** Throws `SyncError` USAGE. */
export function knownDefinition(definitions: Parts['definitions'], name: string): Definition {
  const definition = definitions.get(name);
  if (definition !== undefined) return definition;
  throw usage(`Expected one of the definitions ${[...definitions.keys()].join(', ')}, got ${name}.`);
}

/** Thousands of connectors may have one definition. */
const made = new WeakMap<Definition, Definition>();

/** Without entities that a real account cannot be asked for: only an API has them, or all of their parents. */
function callable(definition: Definition): Definition {
  const requests = definition.upstream?.entities;
  if (requests === undefined || requests.size === definition.entities.size) return definition;
  return knownOrMade(made, definition, () => {
    const entities = new Map<EntityName, Entity>();
    for (const [name, entity] of definition.entities) {
      const parents = entity.parents.filter((one) => one.entity === name || entities.has(one.entity));
      const isFound = parents.length > 0 || entity.parents.length === 0;
      if (requests.has(name) && isFound) entities.set(name, { ...entity, parents });
    }
    return { ...definition, entities };
  });
}

/** A connector that the service answers for. */
export type LocalConnector = ReturnType<typeof complete>;

/** See `openLocalConnectors`. */
export type LocalConnectors = ReturnType<typeof openLocalConnectors>;

interface Parts {
  readonly state: ServiceState;
  readonly definitions: ReadonlyMap<string, Definition>;
  readonly providers: Providers;
  readonly stores: ContextStores;
}

/** The connectors in the service's state, with the parts that they need: definitions, third parties, indexed stores. */
export function openLocalConnectors(parts: Parts) {
  const { state, providers, stores } = parts;
  return {
    /** Throws `ApiError` 404 for one that the principal does not see, in the words that an unknown one gets. */
    byId(principal: Principal, id: string): LocalConnector {
      const stored = state.connectors.byId(principal.organizationId, id);
      if (stored === null || !isSeen(principal, stored.workspaceId)) throw noConnector();
      return complete(parts, stored);
    },
    inWorkspace: (workspace: Workspace, definition: Definition | null): readonly LocalConnector[] =>
      state.connectors
        .inWorkspace(workspace, definition?.name ?? null)
        .map((stored) => complete(parts, stored)),
    provider: (connector: LocalConnector): Provider => provider(parts, connector),
    /** Asks the third party about the credentials that the connector has. */
    check: (connector: LocalConnector, signal: AbortSignal): Promise<ProviderCheck> =>
      askProvider(signal, (own) => providers.check(provided(state, connector), own)),
    /** Checks with the third party credentials that no connector has yet, and returns their account. */
    checkNew: (
      { definition, connectorId = randomUUID() }: { definition: Definition; connectorId?: string },
      given: JsonObject | null,
      signal: AbortSignal,
    ): Promise<ProviderCheck> => {
      const connector = { connectorId, definition, credentials: () => given, saveCredentials: null };
      return askProvider(signal, (own) => providers.check(connector, own));
    },
    stores,
    status: ({ stored }: LocalConnector): StoreStatus => stores.status(stored.id),
    settleStore: (stored: StoredConnector): Promise<void> => settleStore(parts, stored),
    /** Deletes the connector with its indexed store. Throws `ApiError` 404 if another request deleted it first. */
    async delete(stored: StoredConnector): Promise<void> {
      try {
        // The store first: killed in between, the service still knows the connector and fills its store again.
        await stores.drop(stored.id);
        if (!state.connectors.delete(stored.organizationId, stored.id)) throw noConnector();
      } finally {
        // One that could not be deleted keeps its store.
        await settleStore(parts, stored);
      }
    },
    /** Settles every store: at the start. */
    async settleAll(): Promise<void> {
      for (const stored of state.connectors.all()) await settleStore(parts, stored);
    },
  };
}

function complete({ definitions }: Parts, stored: StoredConnector) {
  // The definitions of a service do not go while it runs.
  const definition = knownDefinition(definitions, stored.definition);
  return { stored, definition: stored.account === null ? definition : callable(definition) };
}

function provider(parts: Parts, connector: LocalConnector): Provider {
  return maskedProvider(parts.providers.open(provided(parts.state, connector)), connector.definition);
}

/** The connector for a provider, with its credentials as they are stored at the time of the call. */
function provided({ connectors }: ServiceState, { stored, definition }: LocalConnector): ProvidedConnector {
  const { id, organizationId, account, address } = stored;
  return {
    connectorId: id,
    definition,
    account,
    credentials: () => {
      const given = connectors.credentials(organizationId, id);
      const to = addressFor(definition, account, given);
      if (to === null || to === address) return given;
      throw unusable(
        `they were given for ${address}, and the definition ${definition.name} leads to ${to} now, where nothing was sent. ` +
          'Put the address back, or give the credentials again to accept the new one',
      );
    },
    saveCredentials: (before, renewed) => connectors.renewCredentials(organizationId, id, before, renewed),
  };
}

/** Addresses that credentials are sent to; null: none, as for a sample account, or the credentials cannot be used. */
export function addressFor(definition: Definition, account: string | null, credentials: JsonObject | null) {
  if (account === null || definition.upstream === null) return null;
  return placesOfCredentials(definition, credentials ?? {});
}

/** Begins to keep the connector's indexed store, or drops it where the connector was deleted meanwhile. */
async function settleStore(parts: Parts, { organizationId, id }: StoredConnector): Promise<void> {
  const stored = parts.state.connectors.byId(organizationId, id);
  if (stored === null) return await parts.stores.drop(id);
  const connector = complete(parts, stored);
  const { definition } = connector;
  parts.stores.keep({ connectorId: id, definition, provider: lasting(parts, connector) });
}

/** Credentials may change under a store that is kept: each of its calls opens the connector as it is then. */
function lasting(parts: Parts, { stored: { organizationId, id } }: LocalConnector): Provider {
  const now = (): Provider => {
    const stored = parts.state.connectors.byId(organizationId, id);
    if (stored === null) throw noConnector();
    return provider(parts, complete(parts, stored));
  };
  return {
    list: async (request) => await now().list(request),
    get: async (request) => await now().get(request),
    download: async (request) => await now().download(request),
  };
}

/** Throws `ApiError` 404 for a workspace that the principal does not see, in the words that an unknown one gets. */
export function workspaceById(state: ServiceState, principal: Principal, id: string): Workspace {
  return seen(principal, state.workspaces.byId(principal.organizationId, id));
}

/** As `workspaceById`. */
export function workspaceByName(state: ServiceState, principal: Principal, name: string): Workspace {
  return seen(principal, state.workspaces.byName(principal.organizationId, name));
}

/**
 * The workspace of this name, made where there is none: there is no other way to make one. A scoped token makes none:
 * any name but that of the token's workspace gives 404.
 */
export function ensureWorkspace(state: ServiceState, principal: Principal, name: string): Workspace {
  const known = state.workspaces.byName(principal.organizationId, name);
  if (known !== null || principal.kind === 'scoped') return seen(principal, known);
  return state.workspaces.ensure(principal.organizationId, name);
}

function seen(principal: Principal, workspace: Workspace | null): Workspace {
  if (workspace !== null && isSeen(principal, workspace.id)) return workspace;
  throw notFound('There is no such workspace in the organization.');
}

/** A scoped token sees its workspace alone. */
function isSeen(principal: Principal, workspaceId: string): boolean {
  return principal.workspaceId === null || principal.workspaceId === workspaceId;
}

function noConnector(): ApiError {
  return notFound('There is no connector with this id in the organization.');
}
