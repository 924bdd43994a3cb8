import type Database from 'better-sqlite3';
import { openJsonlRows } from '../jsonl/key-table.ts';
import { openSqliteRows } from '../sqlite/sqlite-table.ts';
import type { RowReader } from './record-store.ts';

/** The rows of whatever kind of sink the ledger belongs to. */
export function openRows(db: Database.Database): RowReader {
  const kind = db.prepare<[], string>('SELECT kind FROM _sync_meta').pluck().get();
  return kind === 'jsonl' ? openJsonlRows(db) : openSqliteRows(db);
}
