import type { ConnectorName } from '../../../core/names.ts';
import { parseHolder, parseReport } from '../../stored-json.ts';
import { standing } from '../../decisions/standing.ts';
import type { ConnectorStatus, EntityStatus, FileStatus, RunSummary } from '../../ledger-reader.ts';
import type { Tx, Values } from '../session.ts';

/** Of all connectors, or of those named; a statement for each kind of fact, however many there are. */
export async function readConnectors(
  tx: Tx,
  at: string,
  only?: readonly ConnectorName[],
): Promise<readonly ConnectorStatus[]> {
  const named: Values = only === undefined ? {} : { only };
  const which = (column: string): string => (only === undefined ? 'true' : `${column} = ANY(:only::text[])`);
  const known = await tx.rows<ConnectorRow>(
    `SELECT connector, definition, connector_id, base_url, holder FROM ${at}_sync_connectors
     WHERE ${which('connector')} ORDER BY connector`,
    named,
  );
  const entities = new Map<ConnectorName, EntityStatus[]>(known.map(({ connector }) => [connector, []]));
  for (const row of await tx.rows<EntityRow>(entityStatusSql(at, which), named)) {
    entities.get(row.connector)?.push(toStatus(row));
  }
  const lastRuns = new Map(
    (await tx.rows<LastRun>(lastRunsSql(at, which), named)).map((run) => [run.connector, run]),
  );
  return known.map(({ holder, ...row }): ConnectorStatus => ({
    ...row,
    lastHolder: parseHolder(holder),
    lastRun: toSummary(lastRuns.get(row.connector)),
    entities: entities.get(row.connector) ?? [],
  }));
}

interface ConnectorRow extends Pick<ConnectorStatus, 'connector' | 'definition' | 'connectorId' | 'baseUrl'> {
  readonly holder: string;
}

interface LastRun extends Omit<RunSummary, 'report'> {
  readonly report: string | null;
}

function toSummary(found: LastRun | undefined): RunSummary | null {
  if (found === undefined) return null;
  const { report, ...run } = found;
  return { ...run, report: report === null ? null : parseReport(report) };
}

/** A search in the index of runs for each connector: thousands of runs may be kept of each. */
function lastRunsSql(at: string, which: (column: string) => string): string {
  return `SELECT run, kind, run.connector, state, started_at, finished_at, continues, report
    FROM ${at}_sync_connectors AS known JOIN ${at}_sync_runs AS run ON run.number = (
      SELECT number FROM ${at}_sync_runs AS one WHERE one.connector = known.connector AND one.kind = 'sync'
      ORDER BY number DESC LIMIT 1)
    WHERE ${which('known.connector')}`;
}

interface EntityRow extends Omit<EntityStatus, 'files'>, FileStatus {
  readonly connector: ConnectorName;
  readonly hasFiles: boolean;
}

function toStatus({
  connector: _connector,
  hasFiles,
  stored,
  bytes,
  wanted,
  failed,
  ...status
}: EntityRow): EntityStatus {
  return { ...status, files: hasFiles ? { stored, bytes, wanted, failed } : null };
}

/**
 * What `status` shows of each entity. Listings inside a tree are passing work, not partitions of their own, and so are windows of backfills:
 * they are not counted, nor is what lies below records that are gone. Missing rows are counted without those that `get` has vouched for since they
 * were missed, and those that go with their parent. The read itself is what counts as complete, not `full_at`, which is of the run's start and null
 * while deletes are withheld.
 */
function entityStatusSql(at: string, which: (column: string) => string): string {
  return `
WITH walked AS (
  SELECT connector, entity, count(*) AS partitions, count(due_since) AS due, max(sealed_at) AS last_sealed_at,
    min(CASE WHEN mode = 'full' AND due_since IS NULL THEN sealed_at ELSE full_at END) AS last_complete_read_at
  FROM ${at}_sync_partitions
  WHERE ${which('connector')} AND tree IS NULL AND backfill = '' AND gone = ${standing.live}
  GROUP BY connector, entity
), refused AS (
  SELECT connector, entity, count(*) AS quarantined FROM ${at}_sync_quarantine
  WHERE ${which('connector')} GROUP BY connector, entity
), missed AS (
  SELECT m.connector, m.entity, count(*) AS missing
  FROM ${at}_sync_missing AS m JOIN ${at}_sync_partitions AS p ON p.id = m.partition
  WHERE ${which('m.connector')} AND m.missed > 0 AND p.gone IN (${standing.live}, ${standing.emptied})
  GROUP BY m.connector, m.entity
), kept AS (
  SELECT connector, entity, count(file) AS stored, coalesce(sum(bytes), 0)::bigint AS bytes, sum(is_wanted)::bigint AS wanted,
    count(*) FILTER (WHERE is_wanted = 1 AND failure IS NOT NULL) AS failed
  FROM ${at}_sync_downloads WHERE ${which('connector')} GROUP BY connector, entity
), known AS (
  SELECT connector, entity FROM walked UNION SELECT connector, entity FROM refused
  UNION SELECT connector, entity FROM ${at}_sync_tables WHERE ${which('connector')}
)
SELECT connector, entity, coalesce(t.rows - t.deleted, 0) AS rows, coalesce(t.deleted, 0) AS deleted,
  coalesce(missing, 0) AS missing, coalesce(partitions, 0) AS partitions, coalesce(due, 0) AS due,
  coalesce(quarantined, 0) AS quarantined, last_sealed_at, last_complete_read_at,
  kept.stored IS NOT NULL AS has_files, kept.stored, kept.bytes, kept.wanted, kept.failed
FROM known LEFT JOIN walked USING (connector, entity) LEFT JOIN refused USING (connector, entity)
  LEFT JOIN missed USING (connector, entity) LEFT JOIN kept USING (connector, entity)
  LEFT JOIN ${at}_sync_tables AS t USING (connector, entity)
ORDER BY connector, entity`;
}
