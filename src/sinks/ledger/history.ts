import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type {
  ConnectorStatus,
  EntityStatus,
  LedgerReader,
  PartitionFailure,
  QuarantineRow,
  RunSummary,
} from '../ledger-reader.ts';
import { parseFailure, parseHolder, parseParams, parseReport } from './ledger-json.ts';
import { readOperations } from './read-operations.ts';
import { toSinkError } from './sink-error.ts';

/** Reads the ledger over a connection that may be the writer's own or a read-only one. */
export function openLedgerReader(db: Database.Database, file: string): LedgerReader {
  const read = prepareReading(db);
  const operations = readOperations(db);
  const once = <Result>(work: () => Result): Result => {
    try {
      return db.transaction(work).deferred();
    } catch (error) {
      throw toSinkError(error, file);
    }
  };
  const runs: LedgerReader['runs'] = ({ connector, limit }) =>
    (connector === undefined ? read.runs.all(limit) : read.runsOf.all(connector, limit)).map(readRun);
  return {
    runs: (filter) => once(() => runs(filter)),
    run: (id) =>
      once(() => {
        const row = read.run.get(id);
        return row === undefined ? null : readRun(row);
      }),
    connectors: () =>
      once(() => {
        const entities = read.entities.all();
        return read.connectors.all().map(({ holder, ...row }): ConnectorStatus => ({
          ...row,
          lastHolder: parseHolder(holder),
          lastRun: runs({ connector: row.connector, limit: 1 })[0] ?? null,
          entities: entities.filter((entity) => entity.connector === row.connector).map(readEntity),
        }));
      }),
    failures: (connector, limit) => once(() => read.failures.all(connector, limit).map(readFailure)),
    quarantine: (connector, limit) => once(() => read.quarantine.all(connector, limit)),
    pauses: () => once(operations.pauses),
    isCancelRequested: (run) => once(() => operations.isCancelRequested(run)),
    freshness: (connector) => once(() => operations.freshness(connector)),
  };
}

interface RunRow extends Omit<RunSummary, 'report'> {
  readonly report: string | null;
}

interface EntityRow extends EntityStatus {
  readonly connector: ConnectorName;
}

interface FailureRow {
  readonly entity: EntityName;
  readonly params: string;
  readonly failure: string;
}

interface ConnectorRow extends Pick<ConnectorStatus, 'connector' | 'definition' | 'connectorId' | 'baseUrl'> {
  readonly holder: string;
}

const runColumns =
  'run, connector, state, started_at AS startedAt, finished_at AS finishedAt, continues, report';

function prepareReading(db: Database.Database) {
  return {
    runs: db.prepare<[number], RunRow>(`SELECT ${runColumns} FROM _sync_runs ORDER BY number DESC LIMIT ?`),
    runsOf: db.prepare<[ConnectorName, number], RunRow>(
      `SELECT ${runColumns} FROM _sync_runs WHERE connector = ? ORDER BY number DESC LIMIT ?`,
    ),
    run: db.prepare<[RunId], RunRow>(`SELECT ${runColumns} FROM _sync_runs WHERE run = ?`),
    connectors: db.prepare<[], ConnectorRow>(
      `SELECT connector, definition, connector_id AS connectorId, base_url AS baseUrl, holder
       FROM _sync_connectors ORDER BY connector`,
    ),
    entities: db.prepare<[], EntityRow>(entityStatusSql),
    failures: db.prepare<[ConnectorName, number], FailureRow>(
      `SELECT entity, params, failure FROM _sync_partitions
       WHERE connector = ? AND due_since IS NOT NULL AND failure IS NOT NULL
       ORDER BY failed_at DESC, id DESC LIMIT ?`,
    ),
    quarantine: db.prepare<[ConnectorName, number], QuarantineRow>(
      `SELECT entity, reason, detail, record, first_seen_at AS firstSeenAt
       FROM _sync_quarantine WHERE connector = ? ORDER BY last_seen_at DESC, id DESC LIMIT ?`,
    ),
  };
}

/**
 * All connectors in one pass over the partitions: an index would lead to their rows in random order, at ten times the
 * cost. Listings inside a tree are passing work, not partitions of their own: they are not counted.
 */
const entityStatusSql = `
WITH walked AS (
  SELECT connector, entity, count(*) AS partitions, count(due_since) AS due, max(sealed_at) AS last_sealed_at
  FROM _sync_partitions NOT INDEXED WHERE tree IS NULL GROUP BY connector, entity
), refused AS (
  SELECT connector, entity, count(*) AS quarantined FROM _sync_quarantine GROUP BY connector, entity
), known AS (
  SELECT connector, entity FROM walked UNION SELECT connector, entity FROM refused
  UNION SELECT connector, entity FROM _sync_tables
)
SELECT connector, entity, coalesce(rows, 0) AS rows, coalesce(partitions, 0) AS partitions, coalesce(due, 0) AS due,
  coalesce(quarantined, 0) AS quarantined, last_sealed_at AS lastSealedAt
FROM known LEFT JOIN walked USING (connector, entity) LEFT JOIN refused USING (connector, entity)
  LEFT JOIN _sync_tables USING (connector, entity)
ORDER BY connector, entity`;

function readRun({ report, ...run }: RunRow): RunSummary {
  return { ...run, report: report === null ? null : parseReport(report) };
}

function readEntity({ connector: _connector, ...status }: EntityRow): EntityStatus {
  return status;
}

function readFailure({ entity, params, failure }: FailureRow): PartitionFailure {
  return { entity, params: parseParams(params), failure: parseFailure(failure) };
}
