import { SyncError } from '../../core/errors.ts';
import type { ConnectorId } from '../../core/names.ts';
import type { Definition } from '../../definitions/definition.ts';
import { stopError } from './call-failure.ts';
import { checkConnectorId } from './catalog-calls.ts';
import type { ApiClient } from './open-api-client.ts';

export type ConnectorAddress =
  | { readonly kind: 'id'; readonly id: ConnectorId }
  | { readonly kind: 'workspace'; readonly workspace: string };

/**
 * The id behind an address; asks the service only for a workspace. Throws CONNECTOR_UNKNOWN for none, and
 * CONNECTOR_AMBIGUOUS, naming them, for several connectors of the definition in the workspace.
 */
export async function resolveConnector(
  client: ApiClient,
  definition: Definition,
  address: ConnectorAddress,
  signal: AbortSignal,
): Promise<ConnectorId> {
  if (address.kind === 'id') return checkConnectorId(address.id);
  const { workspace } = address;
  const found = await client.findConnectors({ workspace, definitionId: definition.id }, signal);
  const [first, ...others] = found;
  if (first === undefined) {
    throw stopError(
      'CONNECTOR_UNKNOWN',
      `workspace "${workspace}" has no ${definition.name} connector; create one or check the workspace's name`,
    );
  }
  if (others.length === 0) return first.id;
  const names = found.slice(0, 20).map(({ id, name }) => (name === null ? id : `${id} (${name})`));
  throw new SyncError(
    `workspace "${workspace}" has ${found.length} ${definition.name} connectors: ${names.join(', ')}; set the id of one`,
    { code: 'CONNECTOR_AMBIGUOUS', recovery: 'stop', context: { found: found.length } },
  );
}

/** `expected`: what the definition or the config says instead. */
export function otherTypeError(id: ConnectorId, found: string, expected: string): SyncError {
  return stopError(
    'CONFIG_INVALID',
    `connector ${id} is of the type ${found}, ${expected}; correct its definition or id`,
  );
}
