import type Database from 'better-sqlite3';
import type { ConnectorName, RunId } from '../../core/names.ts';
import type { LedgerReader, RunSummary } from '../ledger-reader.ts';
import type { RunKind } from '../run-report.ts';
import { parseReport } from '../stored-json.ts';
import { versionOf } from './read-operations.ts';

export function readRuns(
  db: Database.Database,
  { connector, kind, limit }: Parameters<LedgerReader['runs']>[0],
): readonly RunSummary[] {
  const { columns, ofKind } = runSql(db);
  const asked = { connector: connector ?? null, kind: kind ?? null, limit };
  const ofConnector = connector === undefined ? ':connector IS NULL' : 'connector = :connector';
  return db
    .prepare<AskedRuns, RunRow>(
      `SELECT ${columns} FROM _sync_runs WHERE ${ofConnector} AND (:kind IS NULL OR ${ofKind} = :kind)
       ORDER BY number DESC LIMIT :limit`,
    )
    .all(asked)
    .map(toSummary);
}

export function readRun(db: Database.Database, id: RunId): RunSummary | null {
  const { columns } = runSql(db);
  const row = db.prepare<[RunId], RunRow>(`SELECT ${columns} FROM _sync_runs WHERE run = ?`).get(id);
  return row === undefined ? null : toSummary(row);
}

interface AskedRuns {
  readonly connector: ConnectorName | null;
  readonly kind: RunKind | null;
  readonly limit: number;
}

interface RunRow extends Omit<RunSummary, 'report'> {
  readonly report: string | null;
}

/** Where versions 1 and 2 know of syncs alone. */
const firstWithKinds = 3;

function runSql(db: Database.Database): { readonly columns: string; readonly ofKind: string } {
  const ofKind = versionOf(db) < firstWithKinds ? "'sync'" : 'kind';
  const columns = `run, ${ofKind} AS kind, connector, state, started_at AS startedAt, finished_at AS finishedAt, continues, report`;
  return { columns, ofKind };
}

function toSummary({ report, ...run }: RunRow): RunSummary {
  return { ...run, report: report === null ? null : parseReport(report) };
}
