import { SyncError } from '../../core/errors.ts';
import { isConnectorId, type ConnectorId } from '../../core/names.ts';

/** Judged again where the id enters a path: `..` would lead to another endpoint, encoded or not. */
export function checkConnectorId(id: string): ConnectorId {
  if (isConnectorId(id)) return id;
  throw new SyncError('a connector id has 1 to 128 letters, digits, "_" or "-"; copy it from the service', {
    code: 'CONFIG_INVALID',
    recovery: 'stop',
  });
}
