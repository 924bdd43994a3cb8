import type { ConnectorName } from '../../../core/names.ts';
import type { EntityTable } from '../../../core/records.ts';
import type { StoredRowFacts } from '../../ledger/driver.ts';
import type { PostgresTx as Tx } from '../../../sql/postgres/session.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { tableAt } from './names.ts';
import { canonicalKey } from '../column-types.ts';

/** The row of a key in a table that is there; undefined where the key is not stored, or is no key of the table. */
export async function readRow(
  tx: Tx,
  at: string,
  connector: ConnectorName,
  table: EntityTable,
  keyText: string,
): Promise<StoredRowFacts | undefined> {
  const canonical = canonicalKey(table, keyText);
  if (canonical === null) return undefined;
  return await tx.first<StoredRowFacts>(
    `SELECT _row AS row, _first_seen_at AS first_seen_at, _changed_at AS changed_at, _run_id AS run, _deleted_at AS deleted_at,
       _seq AS seq, _partition AS home
     FROM ${tableAt(at, connector, table.entity)} WHERE _key = :key`,
    { key: textHash(canonical) },
  );
}
