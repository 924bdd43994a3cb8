import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import type { EntityTable } from '../../../core/records.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Tx } from '../../../sql/postgres/session.ts';
import { knownTables } from '../../ledger/tables.ts';
import { textHash } from '../../../sql/postgres/text.ts';
import { tableAt } from './names.ts';
import { openRecordTable } from './open-record-table.ts';
import type { RecordTable } from '../../ledger/record-table.ts';
import { canonicalKey } from '../../../sql/postgres/types.ts';

/** A row as a reader finds it. */
export interface ReadRow {
  readonly row: number;
  readonly firstSeenAt: Instant;
  readonly changedAt: Instant;
  readonly run: RunId;
  readonly deletedAt: Instant | null;
  readonly seq: number;
  readonly home: number | null;
}

/** The row of a key in a table that is there; undefined where the key is not stored, or is no key of the table. */
export async function readRow(
  tx: Tx,
  at: string,
  connector: ConnectorName,
  table: EntityTable,
  keyText: string,
): Promise<ReadRow | undefined> {
  const canonical = canonicalKey(table, keyText);
  if (canonical === null) return undefined;
  return await tx.first<ReadRow>(
    `SELECT _row AS row, _first_seen_at AS first_seen_at, _changed_at AS changed_at, _run_id AS run, _deleted_at AS deleted_at,
       _seq AS seq, _partition AS home
     FROM ${tableAt(at, connector, table.entity)} WHERE _key = :key`,
    { key: textHash(canonical) },
  );
}

/** The table of an entity that a run's plan does not have; undefined where nothing of it was ever stored. For its rows, not to write them. */
export async function openStoredTable(
  tx: Tx,
  { at }: Pick<Ledger, 'at'>,
  connector: ConnectorName,
  entity: EntityName,
): Promise<RecordTable | undefined> {
  const known = (await knownTables(tx, at, connector, [entity])).get(entity);
  if (known === undefined) return undefined;
  const { key, stored } = known;
  return openRecordTable({ at, connector, table: { entity, key, columns: stored }, stored });
}
