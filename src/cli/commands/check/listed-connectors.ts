import type { App } from '../../../app/app.ts';
import type { ConnectorSettings } from '../../../settings/settings.ts';
import type { ConnectorSummary } from '../../../source/api/catalog-calls.ts';
import type { ApiClient } from '../../../source/api/open-api-client.ts';
import { openAdministration } from '../../../source/api/open-administration.ts';

/**
 * The app's client, which answers for connectors from the lists of their workspaces: a call for each workspace, not one for each
 * connector. Where the config names ids, the workspaces of the account are looked through, if they are fewer than the ids; a
 * connector in none of these lists is asked for by itself. `onListed` hears how many lists are read.
 */
export async function openListingClient(
  app: App,
  connectors: readonly ConnectorSettings[],
  signal: AbortSignal,
  onListed: (lists: number) => void,
): Promise<ApiClient> {
  const { client } = app;
  const listed = new Map<string, ConnectorSummary>();
  const isId = ({ address }: ConnectorSettings): boolean => address.kind === 'id';
  const ids = connectors.filter(isId).length;
  const workspaces = ids < 2 ? [] : await workspacesOfIds(app, ids, signal);
  for (const [index, workspace] of workspaces.entries()) {
    onListed(index);
    for (const found of await listOf(client, workspace, signal)) listed.set(found.id, found);
  }
  return {
    ...client,
    findConnectors: async ({ workspace, definitionId }, callSignal) =>
      (await client.findConnectors({ workspace }, callSignal)).filter(
        (found) =>
          definitionId === undefined ||
          found.definitionId === null ||
          found.definitionId.toLowerCase() === definitionId.toLowerCase(),
      ),
    connector: async (id, callSignal, asked) =>
      listed.get(id) ?? (await client.connector(id, callSignal, asked)),
  };
}

/** None where there are as many as ids: a list for each saves nothing. A service that does not list them is no mistake of the config. */
async function workspacesOfIds(app: App, ids: number, signal: AbortSignal): Promise<readonly string[]> {
  const { baseUrl, scopedToWorkspace } = app.settings.api;
  if (scopedToWorkspace !== null) return [scopedToWorkspace];
  try {
    const filter = { nameContains: null, status: null };
    const found = await openAdministration(app.client, baseUrl).workspaces(filter, signal);
    return found.length < ids ? found.map(({ name }) => name) : [];
  } catch {
    signal.throwIfAborted();
    return [];
  }
}

async function listOf(
  client: ApiClient,
  workspace: string,
  signal: AbortSignal,
): Promise<readonly ConnectorSummary[]> {
  try {
    return await client.findConnectors({ workspace }, signal);
  } catch {
    // Its connectors are asked for one by one, and each says what is wrong.
    signal.throwIfAborted();
    return [];
  }
}
