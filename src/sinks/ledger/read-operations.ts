import type Database from 'better-sqlite3';
import type { ConnectorName, RunId } from '../../core/names.ts';
import type { EntityFreshness, PausedConnector } from '../ledger-reader.ts';
import { asOfByReports } from './migrations.ts';

/*
 * What an operator and a worker ask the ledger. Statements are made for each question, because a file that is open for
 * reading may be of an older version now and be migrated by another process a moment later.
 */

/** The version of the schema that came with each of these; `deletes` with homes, kinds of runs, windows and drift. */
const cameWith = { pauses: 2, deletes: 3, files: 4 } as const;

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
