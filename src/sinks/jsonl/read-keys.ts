import { openStoredKeys } from '../ledger/read-stored-keys.ts';
import type { KeyAndHash, KeyReader } from '../record-reader.ts';
import { keyTableName } from './key-table.ts';

/** Keys as the ledger beside the lines has them. */
export function openJsonlKeys(file: string): KeyReader {
  return openStoredKeys({ file, kind: 'jsonl' }, (db, connector, { entity }) =>
    db
      .prepare<[], KeyAndHash>(
        `SELECT key AS keyText, hash FROM ${keyTableName(connector, entity)} WHERE deleted_at IS NULL`,
      )
      .iterate(),
  );
}
