import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../core/names.ts';
import type { EntityTable } from '../../core/records.ts';
import type { PartitionHistory, RowHistory } from '../ledger-reader.ts';
import { parseFailure, parseParams } from './ledger-json.ts';
import { knowsRows, openRows } from './open-rows.ts';
import { standing } from './partitions/states.ts';
import { readMissingRow } from './read-missing.ts';

/** What is known of a single row, and of the partition that shows it; null where the key is not stored. */
export function readRowHistory(
  db: Database.Database,
  connector: ConnectorName,
  table: EntityTable,
  keyText: string,
): RowHistory | null {
  const { entity } = table;
  const isStored =
    knowsRows(db) &&
    db.prepare('SELECT 1 FROM _sync_tables WHERE connector = ? AND entity = ?').get(connector, entity) !==
      undefined;
  const found = isStored ? openRows(db).row(connector, table, keyText) : undefined;
  if (found === undefined) return null;
  const { run, home, ...row } = found;
  const missing = readMissingRow(db, connector, entity, row.row);
  return {
    ...row,
    changedByRun: run,
    missing: missing === null ? null : { ...missing, keyText },
    partition: home === null ? null : readPartition(db, home),
  };
}

interface PartitionRow extends Omit<PartitionHistory, 'params' | 'failure' | 'isGone'> {
  readonly params: string;
  readonly failure: string | null;
  readonly gone: number;
}

function readPartition(db: Database.Database, id: number): PartitionHistory | null {
  const found = db
    .prepare<[number], PartitionRow>(
      `SELECT entity, params, mode, watermark, marker, sealed_at AS sealedAt, sealed_run AS sealedRun, full_at AS fullAt,
         found_at AS foundAt, due_since AS dueSince, failure, gone
       FROM _sync_partitions WHERE id = ?`,
    )
    .get(id);
  if (found === undefined) return null;
  const { params, failure, gone, ...partition } = found;
  return {
    ...partition,
    params: parseParams(params),
    failure: failure === null ? null : parseFailure(failure),
    isGone: gone === standing.ended || gone === standing.emptied,
  };
}
