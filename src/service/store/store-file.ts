import { hash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { SyncError } from '../../core/errors.ts';
import { isConnectorId, isConnectorName, type ConnectorId, type ConnectorName } from '../../core/names.ts';
import type { Definition } from '../../definitions/definition.ts';

/** A store's file holds one connector: this one, whatever it is called outside. */
export const storeConnector: ConnectorName = nameOf('store');

/**
 * What a store's file says of where its records come from: with other masks it is another store, and one that was
 * filled before is of no use.
 */
export function storeOrigin({ entities }: Definition): string {
  const masks = [...entities].flatMap(([name, { mask }]) =>
    mask === null ? [] : [[name, mask.fingerprint]],
  );
  return `context-store:${masks.length === 0 ? '' : hash('sha256', JSON.stringify(masks), 'hex')}`;
}

/** The SQLite file of a connector's store. Throws `SyncError` USAGE for an id that makes no file name. */
export function storeFile(folder: string, connectorId: string): string {
  return join(folder, 'stores', `${checkedId(connectorId)}.db`);
}

/** The id as the other rooms know it. Throws as `storeFile` does. */
export function checkedId(connectorId: string): ConnectorId {
  if (isConnectorId(connectorId)) return connectorId;
  throw new SyncError(
    `Expected a connector id of letters, digits, "_" and "-", at most 128, got ${JSON.stringify(connectorId.slice(0, 140))}.`,
    { code: 'USAGE', recovery: 'stop' },
  );
}

/**
 * Removes a store with what SQLite and the lock keep beside it. No process may be writing it. A missing file is no
 * error; rejects with the system's error for what cannot be removed.
 */
export async function removeStore(file: string): Promise<void> {
  // The file last: while it exists, the others are found again with it.
  for (const beside of [
    '-wal',
    '-shm',
    '-journal',
    `.${storeConnector}.lock`,
    `.${storeConnector}.lock-journal`,
  ]) {
    await rm(`${file}${beside}`, { force: true });
  }
  await rm(file, { force: true });
}

function nameOf(text: string): ConnectorName {
  if (isConnectorName(text)) return text;
  throw new TypeError(`${text} is no name for a connector`);
}
