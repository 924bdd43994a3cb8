import type { ColumnValue } from '../../core/records.ts';
import { openReadonlyDatabase } from './open-database.ts';
import { sqliteFormat } from './schema.ts';

/** The rows of one reading statement over a SQLite sink's tables. Throws SINK_FAILED when there is no sink, SQLite's own error for a refused statement. */
export function querySqliteSink(file: string, sql: string): readonly Readonly<Record<string, ColumnValue>>[] {
  const db = openReadonlyDatabase({ file, format: sqliteFormat });
  try {
    return db.prepare<[], Record<string, ColumnValue>>(sql).all();
  } finally {
    db.close();
  }
}
