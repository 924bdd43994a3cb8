import type Database from 'better-sqlite3';
import type { ConnectorName, RunId } from '../../core/names.ts';
import type { LedgerReader, RunFacts, RunSummary } from '../ledger-reader.ts';
import { parseReport } from '../stored-json.ts';
import { has } from './read-operations.ts';

export function readRuns(
  db: Database.Database,
  { connector, kind, limit }: Parameters<LedgerReader['runs']>[0],
): readonly RunSummary[] {
  const ofConnector = connector === undefined ? ':connector IS NULL' : 'connector = :connector';
  return db
    .prepare<[object], RunRow>(
      `SELECT ${runColumns(db)}, report FROM _sync_runs
       WHERE ${ofConnector} AND (:kind IS NULL OR ${kindSql(db)} = :kind) ORDER BY number DESC LIMIT :limit`,
    )
    .all({ connector: connector ?? null, kind: kind ?? null, limit })
    .map(toSummary);
}

export function readRun(db: Database.Database, id: RunId): RunSummary | null {
  const sql = `SELECT ${runColumns(db)}, report FROM _sync_runs WHERE run = ?`;
  const row = db.prepare<[RunId], RunRow>(sql).get(id);
  return row === undefined ? null : toSummary(row);
}

/** The newest of kind `sync`, or with `which` the newest of those that it chooses; null where there was none. */
export function readLastRun(db: Database.Database, connector: ConnectorName, which = ''): RunFacts | null {
  const sql = `SELECT ${runColumns(db)} FROM _sync_runs WHERE number = (${newestNumberSql(db, '?', which)})`;
  return db.prepare<[ConnectorName], RunFacts>(sql).get(connector) ?? null;
}

/** The number of a connector's newest run of kind `sync`: a search in the index, as thousands of runs may be kept. */
export function newestNumberSql(db: Database.Database, connector: string, which = ''): string {
  const ofKind = has(db, 'deletes') ? "AND kind = 'sync'" : '';
  return `SELECT number FROM _sync_runs WHERE connector = ${connector} ${ofKind} ${which} ORDER BY number DESC LIMIT 1`;
}

/** As `RunFacts` has them. */
export function runColumns(db: Database.Database): string {
  return `run, ${kindSql(db)} AS kind, connector, state, started_at AS startedAt, finished_at AS finishedAt, continues`;
}

/** Versions before know of syncs alone. */
function kindSql(db: Database.Database): string {
  return has(db, 'deletes') ? 'kind' : "'sync'";
}

interface RunRow extends RunFacts {
  readonly report: string | null;
}

function toSummary({ report, ...run }: RunRow): RunSummary {
  return { ...run, report: report === null ? null : parseReport(report) };
}
