import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../core/names.ts';
import type { ConnectorStatus, EntityStatus } from '../ledger-reader.ts';
import { readFileStatus, type EntityFiles } from './downloads/read-downloads.ts';
import { entityStatusSql } from './entity-status-sql.ts';
import { parseHolder } from './ledger-json.ts';
import { versionOf } from './read-operations.ts';
import { readRuns } from './read-runs.ts';

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
  const entities = new Map<ConnectorName, EntityStatus[]>(asked.map(({ connector }) => [connector, []]));
  for (const row of readEntities(db, one)) {
    entities.get(row.connector)?.push(toStatus(row, files.get(entityKey(row))));
  }
  return asked.map(({ holder, ...row }): ConnectorStatus => ({
    ...row,
    lastHolder: parseHolder(holder),
    lastRun: readRuns(db, { connector: row.connector, kind: 'sync', limit: 1 })[0] ?? null,
    entities: entities.get(row.connector) ?? [],
  }));
}

interface ConnectorRow extends Pick<ConnectorStatus, 'connector' | 'definition' | 'connectorId' | 'baseUrl'> {
  readonly holder: string;
}

interface EntityRow extends Omit<EntityStatus, 'files'> {
  readonly connector: ConnectorName;
}

/** Of all connectors, or of one. */
function readEntities(db: Database.Database, connector: ConnectorName | null): readonly EntityRow[] {
  const sql = entityStatusSql(versionOf(db), connector !== null);
  return connector === null
    ? db.prepare<[], EntityRow>(sql).all()
    : db.prepare<Pick<EntityRow, 'connector'>, EntityRow>(sql).all({ connector });
}

function toStatus(
  { connector: _connector, ...status }: EntityRow,
  found: EntityFiles | undefined,
): EntityStatus {
  if (found === undefined) return { ...status, files: null };
  const { stored, bytes, wanted, failed } = found;
  return { ...status, files: { stored, bytes, wanted, failed } };
}

function entityKey({ connector, entity }: Pick<EntityFiles, 'connector' | 'entity'>): string {
  return `${connector}/${entity}`;
}
