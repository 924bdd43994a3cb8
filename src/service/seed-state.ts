import { usage } from '../core/usage-error.ts';
import type { Definition } from '../definitions/definition.ts';
import { connectorConfig } from './routes/new-connector.ts';
import type { Application } from './state/applications.ts';
import type { ServiceState } from './state/open-service-state.ts';

export interface ServedApplication {
  /** The organization's name; made where there is none. */
  readonly organization: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

/** A connector that is there from the start. */
export interface ServedConnector {
  readonly connectorId: string;
  readonly definitionName: string;
  readonly workspace: string;
  /** Name of the organization that it belongs to; `default` where none is given. */
  readonly organization?: string;
}

export interface SeedOptions {
  /** The application of the organization `default`; may be left out where the state has one. */
  readonly clientId?: string;
  readonly clientSecret?: string;
  /** Further ones. */
  readonly applications?: readonly ServedApplication[];
  /** By name: the catalog that the service offers, and what parameters are checked against. */
  readonly definitions: ReadonlyMap<string, Definition>;
  /** Connectors that are there from the start; one that was made here before is left as it is. */
  readonly connectors: readonly ServedConnector[];
}

/** The organization of what names none. */
const defaultOrganization = 'default';

/**
 * Puts what the service was started with into its state: applications with their secrets, and the connectors with their
 * workspaces. What already exists stays as it is. Returns the organization of the first application.
 *
 * Throws `SyncError` USAGE for a connector whose definition is unknown, for an id that is given twice or belongs to
 * another kind of connector, for a connector of an organization that has no application, and where neither the options
 * nor the state have one of the organization `default`.
 */
export function seedState(
  state: ServiceState,
  { clientId, clientSecret, applications = [], connectors, definitions }: SeedOptions,
): string {
  const first =
    clientId === undefined || clientSecret === undefined
      ? storedApplication(state)
      : state.applications.put({ organizationName: defaultOrganization, clientId, clientSecret });
  for (const { organization, ...application } of applications) {
    state.applications.put({ organizationName: organization, ...application });
  }
  const organizationIdByName = new Map(
    state.applications.list().map((known) => [known.organizationName, known.organizationId]),
  );

  const seen = new Set<string>();
  for (const connector of connectors) {
    if (seen.has(connector.connectorId)) throw usage(`Two connectors have the id ${connector.connectorId}.`);
    seen.add(connector.connectorId);
    const definition = knownDefinition(definitions, connector.definitionName);
    const organizationName = connector.organization ?? defaultOrganization;
    const organizationId = organizationIdByName.get(organizationName);
    if (organizationId === undefined) {
      throw usage(`Expected an application of the organization ${organizationName}, got none.`);
    }
    seedConnector(state, organizationId, connector, definition);
  }
  for (const { definition } of state.connectors.all()) knownDefinition(definitions, definition);
  return first.organizationId;
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
      replicationConfig: connectorConfig.parse({}),
      credentials: null,
    });
  } else if (present.definition !== name) {
    throw usage(
      `Expected connector ${connectorId} to be of the definition ${name}; the service's data has it as ${present.definition}.`,
    );
  }
}

function knownDefinition(definitions: ReadonlyMap<string, Definition>, name: string): Definition {
  const definition = definitions.get(name);
  if (definition !== undefined) return definition;
  throw usage(`Expected one of the definitions ${[...definitions.keys()].join(', ')}, got ${name}.`);
}
