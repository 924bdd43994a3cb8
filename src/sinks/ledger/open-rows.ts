import type Database from 'better-sqlite3';
import { openJsonlRows } from '../jsonl/read-row.ts';
import { openSqliteRows } from '../sqlite/read-row.ts';
import type { RowReader } from './record-store.ts';
import { versionOf } from './read-operations.ts';

/** The rows of whatever kind of sink the ledger belongs to. */
export function openRows(db: Database.Database): RowReader {
  const kind = db.prepare<[], string>('SELECT kind FROM _sync_meta').pluck().get();
  return kind === 'jsonl' ? openJsonlRows(db) : openSqliteRows(db);
}

/** Files of older versions say nothing of homes and missing rows. */
export function knowsRows(db: Database.Database): boolean {
  return versionOf(db) >= 3;
}
