import type Database from 'better-sqlite3';
import type { ConnectorName, RunId } from '../../core/names.ts';
import type { EntityFreshness, PausedConnector } from '../ledger-reader.ts';
import { asOfByReports } from './migrations.ts';

/*
 * What an operator and a worker ask the ledger. Statements are made for each question, because a file that is open for
 * reading may be of an older version now and be migrated by another process a moment later.
 */

export function readPauses(db: Database.Database): readonly PausedConnector[] {
  return versionOf(db) < 2
    ? []
    : db
        .prepare<[], PausedConnector>('SELECT connector, since, reason FROM _sync_pauses ORDER BY connector')
        .all();
}

export function readPause(db: Database.Database, connector: ConnectorName): PausedConnector | null {
  const found =
    versionOf(db) < 2
      ? undefined
      : db
          .prepare<[ConnectorName], PausedConnector>(
            'SELECT connector, since, reason FROM _sync_pauses WHERE connector = ?',
          )
          .get(connector);
  return found ?? null;
}

export function isCancelRequested(db: Database.Database, run: RunId): boolean {
  return (
    versionOf(db) >= 2 &&
    db
      .prepare<[string], number>('SELECT 1 FROM _sync_runs WHERE run = ? AND cancel_requested IS NOT NULL')
      .get(run) !== undefined
  );
}

export function readFreshness(db: Database.Database, connector: ConnectorName): readonly EntityFreshness[] {
  return db
    .prepare<[ConnectorName], EntityFreshness>(
      `SELECT entity, ${versionOf(db) < 2 ? asOfByReports : 'as_of'} AS asOf FROM _sync_tables
       WHERE connector = ? ORDER BY entity`,
    )
    .all(connector);
}

export function readFinishedWindows(
  db: Database.Database,
  connector: ConnectorName,
  backfill: string,
): readonly string[] {
  return versionOf(db) < 3
    ? []
    : db
        .prepare<[string, string], string>(
          'SELECT window FROM _sync_windows WHERE connector = ? AND backfill = ? ORDER BY window',
        )
        .pluck()
        .all(connector, backfill);
}

/** Of the ledger's schema. */
export function versionOf(db: Database.Database): number {
  return Number(db.pragma('user_version', { simple: true }));
}
