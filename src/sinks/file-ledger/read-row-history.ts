import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { EntityTable } from '../../core/records.ts';
import type { MissingRow, PartitionHistory, RowHistory } from '../ledger-reader.ts';
import { parseFailure, parseParams, parseNames } from '../stored-json.ts';
import { openRows } from './open-rows.ts';
import { has } from './read-runs.ts';
import { standing } from '../decisions/standing.ts';

/** What is known of a single row, and of the partition that shows it; null where the key is not stored. */
export function readRowHistory(
  db: Database.Database,
  connector: ConnectorName,
  table: EntityTable,
  keyText: string,
): RowHistory | null {
  const { entity } = table;
  const isStored =
    has(db, 'deletes') &&
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

/** Rows that seem to be gone. Statements are made for each question: a file of an older version may be migrated any moment. */
export function readMissing(
  db: Database.Database,
  connector: ConnectorName,
  limit: number,
): readonly MissingRow[] {
  if (!has(db, 'deletes')) return [];
  const rows = openRows(db);
  return db
    .prepare<[ConnectorName, number], NotedRow>(
      `${missingSql} WHERE m.connector = ? AND ${isMissing} ORDER BY m.entity, m.row LIMIT ?`,
    )
    .all(connector, limit)
    .flatMap(({ row, key, ...noted }) => {
      const table = { entity: noted.entity, key: parseNames(key) };
      const keyText = rows.keyOf(connector, table, row);
      return keyText === undefined ? [] : [{ ...noted, keyText }];
    });
}

function readMissingRow(
  db: Database.Database,
  connector: ConnectorName,
  entity: EntityName,
  row: number,
): Omit<MissingRow, 'keyText'> | null {
  const noted = db
    .prepare<[ConnectorName, EntityName, number], NotedRow>(
      `${missingSql} WHERE m.connector = ? AND m.entity = ? AND m.row = ? AND ${isMissing}`,
    )
    .get(connector, entity, row);
  if (noted === undefined) return null;
  const { missingSince, needs, missedWalks } = noted;
  return { entity, missingSince, needs, missedWalks };
}

interface NotedRow extends Omit<MissingRow, 'keyText'> {
  readonly row: number;
  readonly key: string;
}

const missingSql = `
SELECT m.entity, m.row, m.since AS missingSince, m.missed AS missedWalks, t.key,
  iif(m.needs = 'walk' AND m.missed >= 2, 'nothing', m.needs) AS needs
FROM _sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition
  JOIN _sync_tables AS t ON t.connector = m.connector AND t.entity = m.entity`;
const isMissing = `m.missed > 0 AND p.gone IN (${standing.live}, ${standing.emptied})`;
