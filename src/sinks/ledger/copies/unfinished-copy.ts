import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../../core/names.ts';
import type { UnfinishedCopy } from '../../copies.ts';
import { has } from '../read-runs.ts';

/** The copy that would have to be completed before the connector may be used; null where there is none. */
export function readUnfinishedCopy(db: Database.Database, connector: ConnectorName): UnfinishedCopy | null {
  if (!has(db, 'copies')) return null;
  const sql = `SELECT connector, source_name AS "from", target_name AS "to", since FROM _sync_copies
    WHERE connector = ? AND finished_at IS NULL`;
  return db.prepare<[ConnectorName], UnfinishedCopy>(sql).get(connector) ?? null;
}
