import type { App } from '../app.ts';
import { SyncError } from '../core/errors.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { ConnectorSummary } from '../source/api/catalog-calls.ts';

export interface FoundConnector {
  readonly workspace: string;
  readonly id: string;
  readonly name: string | null;
  /** The name of our definition; null for a connector type that we have none for. */
  readonly definition: string | null;
  /** Names of the config's connectors that give this id. */
  readonly configured: readonly ConnectorSettings['name'][];
}

export interface WorkspacesSearch {
  readonly workspaces: readonly string[];
  /** Id of a connector type; null: of every type. */
  readonly definitionId: string | null;
  /** A workspace that the service does not know (any more) has no connectors, instead of being an error. */
  readonly mayBeGone: boolean;
}

/** The connectors of some workspaces, in their order. Throws CONNECTOR_UNKNOWN for a workspace that is not there. */
export async function findInWorkspaces(
  app: App,
  { workspaces, definitionId, mayBeGone }: WorkspacesSearch,
  signal: AbortSignal,
): Promise<readonly FoundConnector[]> {
  const definitionById = new Map(
    [...app.settings.definitions.values()].map(({ id, name }) => [id.toLowerCase(), name]),
  );
  const configured = [...app.settings.connectors.values()];
  const inWorkspace = async (workspace: string): Promise<readonly ConnectorSummary[]> => {
    try {
      const filter = definitionId === null ? { workspace } : { workspace, definitionId };
      return await app.client.findConnectors(filter, signal);
    } catch (error) {
      if (mayBeGone && error instanceof SyncError && error.code === 'CONNECTOR_UNKNOWN') return [];
      throw error;
    }
  };
  const found: FoundConnector[] = [];
  for (const workspace of workspaces) {
    for (const { id, name, definitionId: type } of await inWorkspace(workspace)) {
      found.push({
        workspace,
        id,
        name,
        definition: (type === null ? undefined : definitionById.get(type.toLowerCase())) ?? null,
        configured: configured
          .filter(({ address }) => address.kind === 'id' && address.id === id)
          .map((connector) => connector.name),
      });
    }
  }
  return found;
}
