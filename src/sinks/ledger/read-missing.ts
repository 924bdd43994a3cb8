import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { MissingRow } from '../ledger-reader.ts';
import { knowsRows, openRows } from './open-rows.ts';
import { parseNames } from './table-json.ts';
import { standing } from './partitions/states.ts';

/** Rows that seem to be gone. Statements are made for each question: a file of an older version may be migrated any moment. */
export function readMissing(
  db: Database.Database,
  connector: ConnectorName,
  limit: number,
): readonly MissingRow[] {
  if (!knowsRows(db)) return [];
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

/** What is known of one row; null where it is not missing. */
export function readMissingRow(
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
