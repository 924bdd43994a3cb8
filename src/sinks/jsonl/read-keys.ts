import { join } from 'node:path';
import { openStoredKeys } from '../ledger/read-stored-keys.ts';
import type { KeyAndHash, KeyReader } from '../read-keys.ts';
import { keyTableName } from './key-table.ts';

/** Keys as the ledger beside the lines has them. */
export function openJsonlKeys(directory: string): KeyReader {
  return openStoredKeys({ file: join(directory, '_ledger.db'), kind: 'jsonl' }, (db, connector, { entity }) =>
    db
      .prepare<[], KeyAndHash>(
        `SELECT key AS keyText, hash FROM ${keyTableName(connector, entity)} WHERE deleted_at IS NULL`,
      )
      .iterate(),
  );
}
