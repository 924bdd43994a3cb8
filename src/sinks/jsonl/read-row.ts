import type Database from 'better-sqlite3';
import type { HomedRow, ReadRow, RowReader } from '../ledger/record-store.ts';
import { keyTableName, liveKeysSql } from './key-table.ts';

/** Rows as the key tables say, for a connection that may only read. */
export function openJsonlRows(db: Database.Database): RowReader {
  return {
    keyOf: (connector, { entity }, row) =>
      db
        .prepare<[number], string>(`SELECT key FROM ${keyTableName(connector, entity)} WHERE row = ?`)
        .pluck()
        .get(row),
    row: (connector, { entity }, keyText) =>
      db
        .prepare<[string], ReadRow>(
          `SELECT row, first_seen_at AS firstSeenAt, changed_at AS changedAt, run, deleted_at AS deletedAt, seq,
             partition AS home
           FROM ${keyTableName(connector, entity)} WHERE key = ?`,
        )
        .get(keyText),
    liveRows: (connector, entity, home, after, limit) =>
      db
        .prepare<[number, number, number], HomedRow>(liveKeysSql(keyTableName(connector, entity)))
        .all(home, after, limit),
  };
}
