import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../core/names.ts';
import type { EntityFreshness, LedgerReader, PausedConnector } from '../ledger-reader.ts';
import { asOfByReports } from './migrations.ts';

/**
 * What an operator and a worker ask the ledger. Statements are made for each question, because a file that is open for
 * reading may be of an older version now and be migrated by another process a moment later.
 */
export function readOperations(
  db: Database.Database,
): Pick<LedgerReader, 'pauses' | 'pause' | 'isCancelRequested' | 'freshness' | 'finishedWindows'> {
  const version = (): number => Number(db.pragma('user_version', { simple: true }));
  const isVersion1 = (): boolean => version() === 1;
  return {
    pauses: () =>
      isVersion1()
        ? []
        : db
            .prepare<[], PausedConnector>(
              'SELECT connector, since, reason FROM _sync_pauses ORDER BY connector',
            )
            .all(),
    pause: (connector) =>
      isVersion1()
        ? null
        : (db
            .prepare<[ConnectorName], PausedConnector>(
              'SELECT connector, since, reason FROM _sync_pauses WHERE connector = ?',
            )
            .get(connector) ?? null),
    isCancelRequested: (run) =>
      !isVersion1() &&
      db
        .prepare<[string], number>('SELECT 1 FROM _sync_runs WHERE run = ? AND cancel_requested IS NOT NULL')
        .get(run) !== undefined,
    freshness: (connector) =>
      db
        .prepare<[ConnectorName], EntityFreshness>(
          `SELECT entity, ${isVersion1() ? asOfByReports : 'as_of'} AS asOf FROM _sync_tables
           WHERE connector = ? ORDER BY entity`,
        )
        .all(connector),
    finishedWindows: (connector, backfill) =>
      version() < 3
        ? []
        : db
            .prepare<[string, string], string>(
              'SELECT window FROM _sync_windows WHERE connector = ? AND backfill = ? ORDER BY window',
            )
            .pluck()
            .all(connector, backfill),
  };
}
