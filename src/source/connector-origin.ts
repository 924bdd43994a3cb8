import { createHash } from 'node:crypto';
import { isConnectorId, type ConnectorId } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';

/** Whose records a connector reads. A sink remembers it, and takes no records of another origin. */
export interface ConnectorOrigin {
  readonly baseUrl: string;
  readonly connectorId: ConnectorId;
}

const accountScheme = 'account:';
const unnamedScheme = 'service:';
const unnamed = checkedId('unnamed');

/**
 * An account of the service itself. It is the same whether the account is read directly or through an API that tells
 * which account its connector has, so going from one to the other keeps the rows.
 */
export function accountOrigin({ name }: Pick<Definition, 'name'>, account: string): ConnectorOrigin {
  return { baseUrl: `${accountScheme}${name}`, connectorId: idOf(account) };
}

/**
 * An account that the service does not name: all that is known of it is where it is. Other accounts there have the same
 * origin, so it is no proof of whose records are read.
 */
export function unnamedOrigin(host: string): ConnectorOrigin {
  return { baseUrl: `${unnamedScheme}${host}`, connectorId: unnamed };
}

export function isUnnamed({ baseUrl }: Pick<ConnectorOrigin, 'baseUrl'>): boolean {
  return baseUrl.startsWith(unnamedScheme);
}

export function isAccount({ baseUrl }: Pick<ConnectorOrigin, 'baseUrl'>): boolean {
  return baseUrl.startsWith(accountScheme);
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
