import type Database from 'better-sqlite3';
import type { ConnectorName, RunId } from '../../core/names.ts';
import type {
  LedgerReader,
  RunFacts,
  RunSummary,
  EntityFreshness,
  PausedConnector,
} from '../ledger-reader.ts';
import { parseReport } from '../stored-json.ts';
import { asOfByReports } from './migrations.ts';

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

/*
 * What an operator and a worker ask the ledger. Statements are made for each question, because a file that is open for
 * reading may be of an older version now and be migrated by another process a moment later.
 */

/** The version of the schema that came with each of these; `deletes` with homes, kinds of runs, windows and drift. */
const cameWith = { pauses: 2, deletes: 3, files: 4, copies: 6, tableIds: 7 } as const;

/** Whether the file's version has them. */
export function has(db: Database.Database, what: keyof typeof cameWith): boolean {
  return Number(db.pragma('user_version', { simple: true })) >= cameWith[what];
}

export function readPauses(db: Database.Database): readonly PausedConnector[] {
  if (!has(db, 'pauses')) return [];
  return db
    .prepare<[], PausedConnector>('SELECT connector, since, reason FROM _sync_pauses ORDER BY connector')
    .all();
}

export function readPause(db: Database.Database, connector: ConnectorName): PausedConnector | null {
  if (!has(db, 'pauses')) return null;
  const sql = 'SELECT connector, since, reason FROM _sync_pauses WHERE connector = ?';
  return db.prepare<[ConnectorName], PausedConnector>(sql).get(connector) ?? null;
}

export function isCancelRequested(db: Database.Database, run: RunId): boolean {
  if (!has(db, 'pauses')) return false;
  const sql = 'SELECT 1 FROM _sync_runs WHERE run = ? AND cancel_requested IS NOT NULL';
  return db.prepare<[string], number>(sql).get(run) !== undefined;
}

/** When the newest chain began that read all of an entity, as SQL. */
export function asOfSql(db: Database.Database): string {
  return has(db, 'pauses') ? 'as_of' : asOfByReports;
}

export function readFreshness(db: Database.Database, connector: ConnectorName): readonly EntityFreshness[] {
  const sql = `SELECT entity, ${asOfSql(db)} AS asOf FROM _sync_tables WHERE connector = ? ORDER BY entity`;
  return db.prepare<[ConnectorName], EntityFreshness>(sql).all(connector);
}

export function readFinishedWindows(
  db: Database.Database,
  connector: ConnectorName,
  backfill: string,
): readonly string[] {
  if (!has(db, 'deletes')) return [];
  const sql = 'SELECT window FROM _sync_windows WHERE connector = ? AND backfill = ? ORDER BY window';
  return db.prepare<[string, string], string>(sql).pluck().all(connector, backfill);
}
