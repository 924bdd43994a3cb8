import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { standing } from '../decisions/standing.ts';
import type { UnprovenListings } from '../run-report.ts';
import { parseParams, parseUnproven } from '../stored-json.ts';
import { has } from './read-runs.ts';

interface UnprovenRow {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly listings: number;
  readonly params: string;
  readonly doubt: string;
}

export type UnprovenOf = UnprovenListings & { readonly connector: ConnectorName };

/** Listings whose last walk ended with a doubt, of one connector or of all; without roots of other settings, which nothing leads to any more. `window`: of a backfill; '' for living ones. */
export function readUnproven(
  db: Database.Database,
  connector: ConnectorName | null,
  window = '',
): readonly UnprovenOf[] {
  if (!has(db, 'deletes')) return [];
  const ofConnector = connector === null ? '' : 'connector = :connector AND';
  const rows = db
    .prepare<[object], UnprovenRow>(
      `SELECT connector, entity, listings, params, doubt FROM (
         SELECT connector, entity, params, doubt, count(*) OVER ofEntity AS listings,
           row_number() OVER (ofEntity ORDER BY json_extract(doubt, '$.runs') DESC,
             json_extract(doubt, '$.total') - json_extract(doubt, '$.shown') DESC, id) AS place
         FROM (SELECT id, connector, entity, params, json_extract(proof, '$.doubt') AS doubt FROM _sync_partitions AS one
           WHERE ${ofConnector} backfill = :window AND tree IS NULL AND gone = ${standing.live} AND proof LIKE '%"doubt":%'
             AND (parent_key IS NOT NULL OR NOT EXISTS (SELECT 1 FROM _sync_partitions AS root
               WHERE root.connector = one.connector AND root.entity = one.entity AND root.backfill = one.backfill
                 AND root.tree IS NULL AND root.parent_key IS NULL AND root.origin > one.origin)))
         WINDOW ofEntity AS (PARTITION BY connector, entity)
       ) WHERE place = 1 ORDER BY connector, entity`,
    )
    .all({ window, ...(connector === null ? {} : { connector }) });
  return rows.map(({ doubt, params, ...row }) => ({
    ...row,
    params: parseParams(params),
    ...parseUnproven(doubt),
  }));
}
