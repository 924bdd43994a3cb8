import { createHash } from 'node:crypto';
import { isConnectorId, type ConnectorId } from '../core/names.ts';

/** Whose records a connector reads. A sink remembers it, and takes no records of another origin. */
export interface ConnectorOrigin {
  /** The base URL of an API; of a service itself scheme, host and port of all that gets the credentials. */
  readonly baseUrl: string;
  readonly connectorId: ConnectorId;
  /**
   * The service has named the account. Otherwise `connectorId` is no proof of whose records are read: another account
   * there has the same.
   */
  readonly isAccount: boolean;
}

const unnamed = checkedId('unnamed');

/** `account`: as the service names it; null: it does not. */
export function accountOrigin(baseUrl: string, account: string | null): ConnectorOrigin {
  return { baseUrl, connectorId: account === null ? unnamed : idOf(account), isAccount: account !== null };
}

/** Services may name accounts as they like. */
function idOf(account: string): ConnectorId {
  if (isConnectorId(account)) return account;
  return checkedId(createHash('sha256').update(account).digest('hex'));
}

function checkedId(text: string): ConnectorId {
  if (!isConnectorId(text)) throw new TypeError('expected a text that can be an id');
  return text;
}
