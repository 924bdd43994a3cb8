import type { App } from '../app/app.ts';
import { hasCode } from '../core/errors.ts';
import type { Definition } from '../definitions/definition.ts';
import type { ApiSettings, LocalSettings } from '../settings/settings.ts';
import { type ConnectorSummary, openAdministration } from '../source/api/open-api-client.ts';
import { fittingTable, leftColumns } from './output/text-table.ts';

/**
 * Finds the connectors of some workspaces, in their order. `definitionId`: the connector type; null: every type. Throws
 * CONNECTOR_UNKNOWN for a workspace that does not exist, unless it may be deleted: then it has no connectors.
 */
export async function findInWorkspaces(
  app: App,
  workspaces: readonly string[],
  definitionId: string | null,
  mayBeGone: boolean,
  signal: AbortSignal,
) {
  const configured = [...app.settings.connectors.values()];
  const inWorkspace = async (workspace: string): Promise<readonly ConnectorSummary[]> => {
    try {
      const filter = definitionId === null ? { workspace } : { workspace, definitionId };
      return await app.client.findConnectors(filter, signal);
    } catch (error) {
      if (mayBeGone && hasCode(error, 'CONNECTOR_UNKNOWN')) return [];
      throw error;
    }
  };
  const found = [];
  for (const workspace of workspaces) {
    const there = await inWorkspace(workspace);
    const types = there.map((one) => one.definitionId);
    const several = new Set(types.filter((type, at) => types.indexOf(type) !== at));
    for (const { id, name, definitionId: type } of there) {
      found.push({
        workspace,
        id,
        name,
        /** The name of the definition; null for a connector type without one. */
        definition: definitionWithId(app.settings, type)?.name ?? null,
        /**
         * Names of the config's connectors that read it: by its id, or as the only one of its type in the workspace.
         */
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

function isOfType(definitionId: string | null, type: string | null): boolean {
  return definitionId !== null && definitionId.toLowerCase() === type?.toLowerCase();
}

/** The definition of a connector type of the API; none where the type has none. */
export function definitionWithId({ definitions }: LocalSettings, id: string | null): Definition | undefined {
  return [...definitions.values()].find((one) => isOfType(one.id, id));
}

/** Workspaces in which connectors of the config are looked up. */
export function configuredWorkspaces({ connectors }: LocalSettings): readonly string[] {
  const addresses = [...connectors.values()].map(({ address }) => address);
  return [...new Set(addresses.flatMap((one) => (one.kind === 'workspace' ? [one.workspace] : [])))];
}

/** All workspaces that the credentials may see. A token of one workspace cannot list them. */
export async function everyWorkspace(
  { client }: App,
  { baseUrl, scopedToWorkspace }: ApiSettings,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (scopedToWorkspace !== null) return [scopedToWorkspace];
  const filter = { nameContains: null, status: null };
  const workspaces = await openAdministration(client, baseUrl).workspaces(filter, signal);
  return workspaces.map(({ name }) => name);
}

/** Connectors behind the API; `config` names the entries that read them. */
export function connectorTable(found: Awaited<ReturnType<typeof findInWorkspaces>>, width: number | null) {
  const rows = found.map(({ workspace, id, name, definition, configured }) => [
    workspace,
    id,
    definition ?? '?',
    configured.join(', '),
    name ?? '',
  ]);
  return fittingTable(leftColumns('workspace', 'id', 'definition', 'config', 'name'), rows, width);
}
