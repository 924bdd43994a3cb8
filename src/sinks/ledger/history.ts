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
import type { RunKind } from '../run-report.ts';
import { readDownloads, type EntityFiles } from './downloads/read-downloads.ts';
import { readDrift } from './drift/read-drift.ts';
import { entityStatusSql } from './entity-status-sql.ts';
import { parseFailure, parseHolder, parseParams, parseReport } from './ledger-json.ts';
import { readMissing } from './read-missing.ts';
import { readOperations } from './read-operations.ts';
import { readOverview } from './read-overview.ts';
import { readRowHistory } from './read-row-history.ts';
import { toSinkError } from './sink-error.ts';

/**
 * Reads the ledger over a connection that may be the writer's own or a read-only one. A file that is open for reading may be
 * of an older version now and be migrated by another process a moment later: every question is put in the words of the
 * version that it finds.
 */
export function openLedgerReader(db: Database.Database, file: string): LedgerReader {
  const readingByVersion = new Map<number, Reading>();
  const reading = (): Reading => {
    const version = Number(db.pragma('user_version', { simple: true }));
    const read = readingByVersion.get(version) ?? prepareReading(db, version);
    readingByVersion.set(version, read);
    return read;
  };
  const operations = readOperations(db);
  const overview = readOverview(db);
  const missing = readMissing(db);
  const rowHistory = readRowHistory(db);
  const drift = readDrift(db);
  const downloads = readDownloads(db);
  const once = <Result>(work: () => Result): Result => {
    try {
      return db.transaction(work).deferred();
    } catch (error) {
      throw toSinkError(error, file);
    }
  };
  const runs: LedgerReader['runs'] = ({ connector, kind = null, limit }) => {
    const { runs: ofAll, runsOf } = reading();
    const rows =
      connector === undefined ? ofAll.all({ kind, limit }) : runsOf.all({ connector, kind, limit });
    return rows.map(readRun);
  };
  return {
    runs: (filter) => once(() => runs(filter)),
    run: (id) =>
      once(() => {
        const row = reading().run.get(id);
        return row === undefined ? null : readRun(row);
      }),
    connectors: (only) =>
      once(() => {
        const known = reading().connectors.all();
        const names = new Set(only);
        const asked = only === undefined ? known : known.filter(({ connector }) => names.has(connector));
        const [one] = asked;
        const isOne = one !== undefined && asked.length === 1 && known.length > fewConnectors;
        const rows = isOne
          ? reading().entitiesOf.all({ connector: one.connector })
          : reading().entities.all();
        const files = new Map(
          downloads.status(isOne ? one.connector : null).map((found) => [entityKey(found), found]),
        );
        const entities = new Map<ConnectorName, EntityStatus[]>(
          asked.map(({ connector }) => [connector, []]),
        );
        for (const row of rows) entities.get(row.connector)?.push(readEntity(row, files.get(entityKey(row))));
        return asked.map(({ holder, ...row }): ConnectorStatus => ({
          ...row,
          lastHolder: parseHolder(holder),
          lastRun: runs({ connector: row.connector, kind: 'sync', limit: 1 })[0] ?? null,
          entities: entities.get(row.connector) ?? [],
        }));
      }),
    overview: () => once(overview.overview),
    sinkId: () => once(overview.sinkId),
    changeMark: () => once(() => Number(db.pragma('data_version', { simple: true }))),
    failures: (connector, limit) => once(() => reading().failures.all(connector, limit).map(readFailure)),
    quarantine: (connector, limit) => once(() => reading().quarantine.all(connector, limit)),
    pauses: () => once(operations.pauses),
    pause: (connector) => once(() => operations.pause(connector)),
    isCancelRequested: (run) => once(() => operations.isCancelRequested(run)),
    fileFailures: (connector, limit) => once(() => downloads.failures(connector, limit)),
    freshness: (connector) => once(() => operations.freshness(connector)),
    finishedWindows: (connector, backfill) => once(() => operations.finishedWindows(connector, backfill)),
    missing: (connector, limit) => once(() => missing.missing(connector, limit)),
    explain: (connector, table, keyText) => once(() => rowHistory.explain(connector, table, keyText)),
    drift: (connector) => once(() => drift.drift(connector)),
  };
}

interface RunRow extends Omit<RunSummary, 'report'> {
  readonly report: string | null;
}

interface EntityRow extends Omit<EntityStatus, 'files'> {
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

interface RunsOf {
  readonly kind: RunKind | null;
  readonly limit: number;
}

interface OfConnector {
  readonly connector: ConnectorName;
}

type Reading = ReturnType<typeof prepareReading>;

/** With so many, a pass over all partitions is faster than the index is for those of one. */
const fewConnectors = 10;
/** Where versions 1 and 2 know of syncs alone. */
const firstWithKinds = 3;

function prepareReading(db: Database.Database, version: number) {
  const kind = version < firstWithKinds ? "'sync'" : 'kind';
  const runColumns = `run, ${kind} AS kind, connector, state, started_at AS startedAt, finished_at AS finishedAt, continues, report`;
  return {
    runs: db.prepare<RunsOf, RunRow>(
      `SELECT ${runColumns} FROM _sync_runs WHERE (:kind IS NULL OR ${kind} = :kind)
       ORDER BY number DESC LIMIT :limit`,
    ),
    runsOf: db.prepare<RunsOf & { readonly connector: ConnectorName }, RunRow>(
      `SELECT ${runColumns} FROM _sync_runs WHERE connector = :connector AND (:kind IS NULL OR ${kind} = :kind)
       ORDER BY number DESC LIMIT :limit`,
    ),
    run: db.prepare<[RunId], RunRow>(`SELECT ${runColumns} FROM _sync_runs WHERE run = ?`),
    connectors: db.prepare<[], ConnectorRow>(
      `SELECT connector, definition, connector_id AS connectorId, base_url AS baseUrl, holder
       FROM _sync_connectors ORDER BY connector`,
    ),
    entities: db.prepare<[], EntityRow>(entityStatusSql(version, false)),
    entitiesOf: db.prepare<OfConnector, EntityRow>(entityStatusSql(version, true)),
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

function readRun({ report, ...run }: RunRow): RunSummary {
  return { ...run, report: report === null ? null : parseReport(report) };
}

function readEntity(
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

function readFailure({ entity, params, failure }: FailureRow): PartitionFailure {
  return { entity, params: parseParams(params), failure: parseFailure(failure) };
}
