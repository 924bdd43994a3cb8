import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { standing } from '../../decisions/standing.ts';
import type { UnprovenListings } from '../../run-report.ts';
import { parseParams, parseUnproven } from '../../stored-json.ts';
import type { Tx } from '../../../sql/database.ts';

interface UnprovenRow {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly listings: number;
  readonly params: string;
  readonly doubt: string;
}

/**
 * Listings whose last walk ended with a doubt, of those connectors or of all; without roots of other settings, which
 * nothing leads to now. `window`: of a backfill; '' for living ones.
 */
export async function readUnproven(
  tx: Tx,
  { only, window = '' }: { readonly only?: readonly ConnectorName[] | undefined; readonly window?: string },
): Promise<readonly (UnprovenListings & { readonly connector: ConnectorName })[]> {
  const ofConnector = only === undefined ? '' : 'connector IN {only text} AND';
  const rows = await tx.rows<UnprovenRow>(
    `SELECT connector, entity, listings, params, doubt FROM (
       SELECT connector, entity, params, doubt, count(*) OVER of_entity AS listings,
         row_number() OVER (of_entity ORDER BY CAST({json doubt runs} AS numeric) DESC,
           CAST({json doubt total} AS numeric) - CAST({json doubt shown} AS numeric) DESC NULLS LAST, id) AS place
       FROM (SELECT id, connector, entity, params, {json proof doubt} AS doubt FROM _sync_partitions AS one
         WHERE ${ofConnector} backfill = :window AND tree IS NULL AND gone = ${standing.live} AND proof LIKE '%"doubt":%'
           AND (parent_key IS NOT NULL OR NOT EXISTS (SELECT 1 FROM _sync_partitions AS root
             WHERE root.connector = one.connector AND root.entity = one.entity AND root.backfill = one.backfill
               AND root.tree IS NULL AND root.parent_key IS NULL AND root.origin > one.origin))) AS doubted
       WINDOW of_entity AS (PARTITION BY connector, entity)
     ) AS placed WHERE place = 1 ORDER BY connector, entity`,
    { window, ...(only === undefined ? {} : { only }) },
  );
  return rows.map(({ doubt, params, ...row }) => ({
    ...row,
    params: parseParams(params),
    ...parseUnproven(doubt),
  }));
}
