import type { App } from '../app/app.ts';
import { SyncError } from '../core/errors.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { ConnectorSummary } from '../source/api/catalog-calls.ts';
import { fittingTable } from './output/text-table.ts';
import { leftColumns } from './output/text-table.ts';

interface FoundConnector {
  readonly workspace: string;
  readonly id: string;
  readonly name: string | null;
  /** The name of our definition; null for a connector type that we have none for. */
  readonly definition: string | null;
  /** Names of the config's connectors that read it: by its id, or as the only one of its type in their workspace. */
  readonly configured: readonly ConnectorSettings['name'][];
}

interface WorkspacesSearch {
  readonly workspaces: readonly string[];
  /** Id of a connector type; null: of every type. */
  readonly definitionId: string | null;
  /** A workspace that the service does not know (or no longer knows) has no connectors, instead of being an error. */
  readonly mayBeGone: boolean;
}

/** The connectors of some workspaces, in their order. Throws CONNECTOR_UNKNOWN for a workspace that does not exist. */
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
    const there = await inWorkspace(workspace);
    const several = typesOfSeveral(there);
    for (const { id, name, definitionId: type } of there) {
      found.push({
        workspace,
        id,
        name,
        definition: (type === null ? undefined : definitionById.get(type.toLowerCase())) ?? null,
        configured: configured
          .filter(({ address, definition }) =>
            address.kind === 'id'
              ? address.id === id
              : address.kind === 'workspace' &&
                address.workspace === workspace &&
                isOfType(definition.id, type) &&
                !several.has(type),
          )
          .map((connector) => connector.name),
      });
    }
  }
  return found;
}

function typesOfSeveral(connectors: readonly ConnectorSummary[]): ReadonlySet<string | null> {
  const met = new Set<string | null>();
  return new Set(
    connectors.flatMap(({ definitionId }) => {
      if (met.has(definitionId)) return [definitionId];
      met.add(definitionId);
      return [];
    }),
  );
}

function isOfType(definitionId: string | null, type: string | null): boolean {
  return definitionId !== null && definitionId.toLowerCase() === type?.toLowerCase();
}

/** Connectors behind the API; `config` names the entries that read them. */
export function connectorTable(found: readonly FoundConnector[], width: number | null): readonly string[] {
  const rows = found.map(({ workspace, id, name, definition, configured }) => [
    workspace,
    id,
    definition ?? '?',
    configured.join(', '),
    name ?? '',
  ]);
  return fittingTable(columns, rows, width);
}

const columns = leftColumns('workspace', 'id', 'definition', 'config', 'name');
