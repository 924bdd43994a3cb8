import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { entityStatuses, toUnproven, type EntityFacts } from '../decisions/complete-reads.ts';
import type { ConnectorStatus, EntityStatus } from '../ledger-reader.ts';
import { readFileStatus, type EntityFiles } from './downloads/note-downloads.ts';
import { parseHolder, parseNames } from '../stored-json.ts';
import { standing } from '../decisions/standing.ts';
import { readUnproven } from './read-unproven.ts';
import { asOfSql, has, readRuns } from './read-runs.ts';

/** With so many, a pass over all partitions is faster than the index is for those of one. */
const fewConnectors = 10;

export function readConnectors(
  db: Database.Database,
  only?: readonly ConnectorName[],
): readonly ConnectorStatus[] {
  const known = db
    .prepare<[], ConnectorRow>(
      `SELECT connector, definition, connector_id AS connectorId, base_url AS baseUrl, holder
       FROM _sync_connectors ORDER BY connector`,
    )
    .all();
  const names = new Set(only);
  const asked = only === undefined ? known : known.filter(({ connector }) => names.has(connector));
  const [first] = asked;
  const isOne = first !== undefined && asked.length === 1 && known.length > fewConnectors;
  const one = isOne ? first.connector : null;
  const files = new Map(readFileStatus(db, one).map((found) => [entityKey(found), found]));
  const entities = new Map<ConnectorName, EntityFacts[]>(asked.map(({ connector }) => [connector, []]));
  const unproven = new Map(readUnproven(db, one).map((found) => [entityKey(found), found]));
  for (const { connector, parents, ...row } of readEntities(db, one)) {
    const key = entityKey({ connector, entity: row.entity });
    entities.get(connector)?.push({
      ...row,
      parents: parseNames(parents ?? '[]') as EntityName[],
      files: filesOf(files.get(key)),
      unproven: toUnproven(unproven.get(key)),
    });
  }
  return asked.map(({ holder, ...row }): ConnectorStatus => ({
    ...row,
    lastHolder: parseHolder(holder),
    lastRun: readRuns(db, { connector: row.connector, kind: 'sync', limit: 1 })[0] ?? null,
    entities: entityStatuses(entities.get(row.connector) ?? []),
  }));
}

interface ConnectorRow extends Pick<ConnectorStatus, 'connector' | 'definition' | 'connectorId' | 'baseUrl'> {
  readonly holder: string;
}

interface EntityRow extends Omit<EntityFacts, 'files' | 'parents' | 'unproven'> {
  readonly connector: ConnectorName;
  readonly parents: string | null;
}

function readEntities(db: Database.Database, connector: ConnectorName | null): readonly EntityRow[] {
  const sql = entityStatusSql(db, connector !== null);
  return connector === null
    ? db.prepare<[], EntityRow>(sql).all()
    : db.prepare<Pick<EntityRow, 'connector'>, EntityRow>(sql).all({ connector });
}

function filesOf(found: EntityFiles | undefined): EntityStatus['files'] {
  if (found === undefined) return null;
  const { stored, bytes, wanted, failed } = found;
  return { stored, bytes, wanted, failed };
}

function entityKey({ connector, entity }: Pick<EntityFiles, 'connector' | 'entity'>): string {
  return `${connector}/${entity}`;
}

/** What `status` shows of each entity, without listings in trees, windows and what is below deleted records. All connectors in one pass: an index would cost ten times as much. `isOne`: of `:connector` alone, by the index. */
function entityStatusSql(db: Database.Database, isOne: boolean): string {
  const knowsDeletes = has(db, 'deletes');
  const where = isOne ? 'WHERE connector = :connector' : '';
  const how = isOne ? `${where} AND` : 'NOT INDEXED WHERE';
  return `
WITH walked AS (
  SELECT connector, entity, count(*) AS partitions, count(due_since) AS due, max(sealed_at) AS last_sealed_at,
    count(coalesce(due_since, sealed_at)) AS begun, count(read_at) AS complete, min(read_at) AS oldest_read_at,
    json_group_array(DISTINCT parent_entity) FILTER (WHERE parent_entity IS NOT NULL) AS parents
  FROM (SELECT connector, entity, due_since, sealed_at, ${knowsDeletes ? `parent_entity, ${readAt}` : 'NULL AS parent_entity, sealed_at'} AS read_at
  FROM _sync_partitions ${how} tree IS NULL ${knowsDeletes ? `AND backfill = '' AND gone = ${standing.live}` : ''})
  GROUP BY connector, entity
), refused AS (
  SELECT connector, entity, count(*) AS quarantined FROM _sync_quarantine ${where} GROUP BY connector, entity
), missed AS (
  ${knowsDeletes ? missedRows(isOne) : `SELECT connector, entity, 0 AS missing FROM _sync_tables ${where}`}
), known AS (
  SELECT connector, entity FROM walked UNION SELECT connector, entity FROM refused
  UNION SELECT connector, entity FROM _sync_tables ${where}
)
SELECT connector, entity, coalesce(rows${knowsDeletes ? ' - deleted' : ''}, 0) AS rows,
  ${knowsDeletes ? 'coalesce(deleted, 0)' : '0'} AS deleted, coalesce(missing, 0) AS missing,
  coalesce(partitions, 0) AS partitions, coalesce(due, 0) AS due,
  coalesce(quarantined, 0) AS quarantined, last_sealed_at AS lastSealedAt,
  coalesce(begun, 0) AS begun, coalesce(complete, 0) AS complete, oldest_read_at AS oldestReadAt, parents,
  ${asOfSql(db)} AS asOf
FROM known LEFT JOIN walked USING (connector, entity) LEFT JOIN refused USING (connector, entity)
  LEFT JOIN missed USING (connector, entity) LEFT JOIN _sync_tables USING (connector, entity)
ORDER BY connector, entity`;
}

/** Versions before did not note it: `full_at` is of the run's start, and null while a full walk is due or deletes are withheld. */
const readAt = `CASE WHEN proof LIKE '%"readAt":%' THEN json_extract(proof, '$.readAt') WHEN proof IS NULL THEN NULL
    WHEN mode = 'full' AND due_since IS NULL THEN sealed_at ELSE coalesce(full_at, sealed_at) END`;

/** Without those that `get` has vouched for since they were missed, and those that go with their parent. */
function missedRows(isOne: boolean): string {
  return `SELECT m.connector, m.entity, count(*) AS missing
  FROM _sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition
  WHERE ${isOne ? 'm.connector = :connector AND' : ''} m.missed > 0 AND p.gone IN (${standing.live}, ${standing.emptied}) GROUP BY m.connector, m.entity`;
}
