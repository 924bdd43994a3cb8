import { keyTextOf, type ColumnValue } from '../../core/records.ts';
import { openStoredKeys } from '../ledger/read-stored-keys.ts';
import { tableName } from '../ledger/record-store.ts';
import type { KeyAndHash, KeyReader } from '../record-reader.ts';
import { quoted } from './quoted.ts';

/** Keys as the columns of each table hold them. */
export function openSqliteKeys(file: string): KeyReader {
  return openStoredKeys({ file, kind: 'sqlite' }, function* (db, connector, { entity, key }) {
    const columns = key.map(quoted).join(', ');
    const rows = db
      .prepare<[], readonly ColumnValue[]>(
        `SELECT _hash, ${columns} FROM ${quoted(tableName(connector, entity))} WHERE _deleted_at IS NULL`,
      )
      .raw(true)
      .safeIntegers(true);
    for (const [hash = '', ...parts] of rows.iterate()) {
      yield { keyText: keyTextOf(parts), hash: String(hash) } satisfies KeyAndHash;
    }
  });
}
