import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { entityStatuses, toPartMissing, type EntityFacts } from '../../decisions/complete-reads.ts';
import { parseHolder } from '../../stored-json.ts';
import { standing } from '../../decisions/standing.ts';
import type { ConnectorStatus, FileStatus } from '../../ledger-reader.ts';
import type { StoredIdentity } from '../../lease.ts';
import type { RecordTables } from '../driver.ts';
import type { Tx, Values } from '../../../sql/database.ts';
import { hasIdentity } from '../connectors.ts';
import { hasBegun } from '../runs/runs.ts';
import { newestRunsSql, runColumns, runSummary, type RunRow } from './read-runs.ts';
import { readDoubted, readUnconfirmed } from './doubted-listings.ts';

/** Of all connectors, or of those named; a statement for each kind of fact, however many there are. */
export async function readConnectors(
  tx: Tx,
  only?: readonly ConnectorName[],
  records?: RecordTables,
): Promise<readonly ConnectorStatus[]> {
  const named: Values = only === undefined ? {} : { only };
  const which = (column: string): string => (only === undefined ? '1 = 1' : `${column} IN {only text}`);
  const known = await tx.rows<ConnectorRow>(
    `SELECT connector, definition, connector_id, base_url, holder FROM _sync_connectors
     WHERE ${which('connector')} AND ${hasIdentity} ORDER BY connector`,
    named,
  );
  const entities = new Map<ConnectorName, EntityFacts[]>(known.map(({ connector }) => [connector, []]));
  const placeOf = (found: { connector: ConnectorName; entity: EntityName }): string =>
    `${found.connector}/${found.entity}`;
  const doubted = new Map((await readDoubted(tx, { only, records })).map((found) => [placeOf(found), found]));
  const unconfirmed = new Set((await readUnconfirmed(tx, { only })).map(placeOf));
  for (const row of await tx.rows<EntityRow>(entityStatusSql(which), named)) {
    const { stored, bytes, wanted, failed } = row;
    const files = row.hasFiles ? { stored, bytes, wanted, failed } : null;
    entities.get(row.connector)?.push({
      ...row,
      parents: (row.parents?.split(',') ?? []) as EntityName[],
      files,
      partMissing: toPartMissing(doubted.get(placeOf(row))),
      isUnordered: unconfirmed.has(placeOf(row)),
    });
  }
  const lastRunsSql = `${newestRunsSql(`${runColumns}, report`, `AND ${hasBegun}`)} WHERE ${which('known.connector')}`;
  const newest = await tx.rows<RunRow>(lastRunsSql, named);
  const lastRuns = new Map(newest.map((run) => [run.connector, runSummary(run)]));
  return known.map(({ holder, ...row }): ConnectorStatus => ({
    ...row,
    lastHolder: parseHolder(holder),
    lastRun: lastRuns.get(row.connector) ?? null,
    entities: entityStatuses(entities.get(row.connector) ?? []),
  }));
}

interface ConnectorRow extends StoredIdentity, Pick<ConnectorStatus, 'connector'> {
  readonly holder: string;
}

interface EntityRow
  extends Omit<EntityFacts, 'files' | 'parents' | 'partMissing' | 'isUnordered'>, FileStatus {
  readonly connector: ConnectorName;
  /** Their names with commas in between. */
  readonly parents: string | null;
  readonly hasFiles: boolean;
}

/**
 * What `status` shows of each entity. Listings inside a tree and windows of backfills are temporary work: they are not
 * counted, nor is what lies below deleted records. Missing rows are counted without those that `get` has vouched for
 * since they were missed, and those that go with their parent.
 */
function entityStatusSql(which: (column: string) => string): string {
  return `
WITH walked AS (
  SELECT connector, entity, CAST(sum(partitions) AS bigint) AS partitions, CAST(sum(due) AS bigint) AS due,
    max(last_sealed_at) AS last_sealed_at, CAST(sum(begun) AS bigint) AS begun, CAST(sum(complete) AS bigint) AS complete,
    min(oldest_read_at) AS oldest_read_at, string_agg(parent_entity, ',') AS parents
  FROM (
    SELECT connector, entity, parent_entity, count(*) AS partitions, count(due_since) AS due, max(sealed_at) AS last_sealed_at,
      count(coalesce(due_since, sealed_at)) AS begun, count(read_at) AS complete, min(read_at) AS oldest_read_at
    FROM (
      SELECT connector, entity, due_since, sealed_at, parent_entity, {json proof readAt} AS read_at
      FROM _sync_partitions
      WHERE ${which('connector')} AND tree IS NULL AND backfill = '' AND gone = ${standing.live}
    ) AS one
    GROUP BY connector, entity, parent_entity
  ) AS of_parent
  GROUP BY connector, entity
), refused AS (
  SELECT connector, entity, count(*) AS quarantined FROM _sync_quarantine
  WHERE ${which('connector')} GROUP BY connector, entity
), missed AS (
  SELECT m.connector, m.entity, count(*) AS missing
  FROM _sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition
  WHERE ${which('m.connector')} AND m.missed > 0 AND p.gone IN (${standing.live}, ${standing.emptied})
  GROUP BY m.connector, m.entity
), kept AS (
  SELECT connector, entity, count(file) AS stored, CAST(coalesce(sum(bytes), 0) AS bigint) AS bytes, CAST(sum(is_wanted) AS bigint) AS wanted,
    count(*) FILTER (WHERE is_wanted = 1 AND failure IS NOT NULL) AS failed
  FROM _sync_downloads WHERE ${which('connector')} GROUP BY connector, entity
), known AS (
  SELECT connector, entity FROM walked UNION SELECT connector, entity FROM refused
  UNION SELECT connector, entity FROM _sync_tables WHERE ${which('connector')}
)
SELECT connector, entity, coalesce(t.rows - t.deleted, 0) AS rows, coalesce(t.deleted, 0) AS deleted,
  coalesce(missing, 0) AS missing, coalesce(partitions, 0) AS partitions, coalesce(due, 0) AS due,
  coalesce(quarantined, 0) AS quarantined, last_sealed_at,
  coalesce(begun, 0) AS begun, coalesce(complete, 0) AS complete, oldest_read_at, parents, t.as_of,
  kept.stored IS NOT NULL AS has_files, kept.stored, kept.bytes, kept.wanted, kept.failed
FROM known LEFT JOIN walked USING (connector, entity) LEFT JOIN refused USING (connector, entity)
  LEFT JOIN missed USING (connector, entity) LEFT JOIN kept USING (connector, entity)
  LEFT JOIN _sync_tables AS t USING (connector, entity)
ORDER BY connector, entity`;
}
