import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import { parseFailure, parseFileFailure, parseParams, parseReport } from '../../stored-json.ts';
import type {
  EntityFreshness,
  FailedFile,
  LedgerReader,
  PartitionFailure,
  PausedConnector,
  QuarantineRow,
  RunSummary,
} from '../../ledger-reader.ts';
import { columnOf, type Tx } from '../../../sql/database.ts';

const runColumns = 'run, kind, connector, state, started_at, finished_at, continues, report';

interface RunRow extends Omit<RunSummary, 'report'> {
  readonly report: string | null;
}

export async function readRuns(
  tx: Tx,
  { connector, kind, limit }: Parameters<LedgerReader['runs']>[0],
): Promise<readonly RunSummary[]> {
  const which = [
    ...(connector === undefined ? [] : ['connector = :connector']),
    ...(kind === undefined ? [] : ['kind = :kind']),
  ];
  const where = which.length === 0 ? '' : `WHERE ${which.join(' AND ')}`;
  const runs = await tx.rows<RunRow>(
    `SELECT ${runColumns} FROM _sync_runs ${where} ORDER BY number DESC LIMIT :limit`,
    { connector: connector ?? null, kind: kind ?? null, limit },
  );
  return runs.map(toSummary);
}

export async function readRun(tx: Tx, run: RunId): Promise<RunSummary | null> {
  const found = await tx.first<RunRow>(`SELECT ${runColumns} FROM _sync_runs WHERE run = :run`, { run });
  return found === undefined ? null : toSummary(found);
}

function toSummary({ report, ...run }: RunRow): RunSummary {
  return { ...run, report: report === null ? null : parseReport(report) };
}

export async function isCancelRequested(tx: Tx, run: RunId): Promise<boolean> {
  const sql = `SELECT 1 FROM _sync_runs WHERE run = :run AND cancel_requested IS NOT NULL`;
  return (await tx.first(sql, { run })) !== undefined;
}

interface FailedRow {
  readonly entity: EntityName;
  readonly params: string;
  readonly failure: string;
}

export async function readFailures(
  tx: Tx,
  connector: ConnectorName,
  limit: number,
): Promise<readonly PartitionFailure[]> {
  const failed = await tx.rows<FailedRow>(
    `SELECT entity, params, failure FROM _sync_partitions
     WHERE connector = :connector AND due_since IS NOT NULL AND failure IS NOT NULL
     ORDER BY failed_at DESC, id DESC LIMIT :limit`,
    { connector, limit },
  );
  return failed.map(({ entity, params, failure }) => ({
    entity,
    params: parseParams(params),
    failure: parseFailure(failure),
  }));
}

export async function readFileFailures(
  tx: Tx,
  connector: ConnectorName,
  limit: number,
): Promise<readonly FailedFile[]> {
  const failed = await tx.rows<FailedRow>(
    `SELECT entity, params, failure FROM _sync_downloads
     WHERE connector = :connector AND is_wanted = 1 AND failure IS NOT NULL ORDER BY failed_at DESC, id LIMIT :limit`,
    { connector, limit },
  );
  return failed.map(({ entity, params, failure }) => ({
    entity,
    params: parseParams(params),
    failure: parseFileFailure(failure),
  }));
}

export async function readQuarantine(
  tx: Tx,
  connector: ConnectorName,
  limit: number,
): Promise<readonly QuarantineRow[]> {
  return await tx.rows<QuarantineRow>(
    `SELECT entity, reason, detail, record, first_seen_at
     FROM _sync_quarantine WHERE connector = :connector ORDER BY last_seen_at DESC, id DESC LIMIT :limit`,
    { connector, limit },
  );
}

export async function readPauses(tx: Tx): Promise<readonly PausedConnector[]> {
  return await tx.rows<PausedConnector>(
    `SELECT connector, since, reason FROM _sync_pauses ORDER BY connector`,
  );
}

export async function readPause(tx: Tx, connector: ConnectorName): Promise<PausedConnector | null> {
  const found = await tx.first<PausedConnector>(
    `SELECT connector, since, reason FROM _sync_pauses WHERE connector = :connector`,
    { connector },
  );
  return found ?? null;
}

export async function readFreshness(tx: Tx, connector: ConnectorName): Promise<readonly EntityFreshness[]> {
  return await tx.rows<{ entity: EntityName; asOf: Instant | null }>(
    `SELECT entity, as_of FROM _sync_tables WHERE connector = :connector ORDER BY entity`,
    { connector },
  );
}

export async function readFinishedWindows(
  tx: Tx,
  connector: ConnectorName,
  backfill: string,
): Promise<readonly string[]> {
  return await columnOf(
    tx,
    `SELECT "window" FROM _sync_windows WHERE connector = :connector AND backfill = :backfill ORDER BY "window"`,
    { connector, backfill },
  );
}
