import type Database from 'better-sqlite3';
import * as next from '../sqlite-next/open-database.ts';
import { catalogSql } from './catalog-sql.ts';
import { migrations } from './migrations.ts';
import { schemaSql, schemaVersion } from './schema.ts';

export interface DatabaseOptions extends Omit<next.DatabaseOptions, 'format'> {
  readonly kind: next.LedgerFormat['kind'];
}

/** Opens (or creates, 0600) a sink's ledger and migrates it. Throws SINK_INCOMPATIBLE, with the file untouched, for another program's or a newer one. */
export function openDatabase({ kind, ...options }: DatabaseOptions): Database.Database {
  return next.openDatabase({ ...options, format: formatOf(kind) });
}

/** Whether a sink has a database at `file`. Throws `SyncError` where that cannot be known, or where something else is there. */
export function isSinkThere(file: string): boolean {
  return next.isSinkThere(file);
}

/** Opens an existing sink's database for reading, of any version up to this one. Throws `SyncError` SINK_FAILED when there is none. */
export function openReadonlyDatabase({
  kind,
  ...options
}: Omit<DatabaseOptions, 'durability' | 'now'>): Database.Database {
  return next.openReadonlyDatabase({ ...options, format: formatOf(kind) });
}

export function storedId(db: Database.Database): string {
  return next.storedId(db);
}

function formatOf(kind: next.LedgerFormat['kind']): next.LedgerFormat {
  return {
    kind,
    version: schemaVersion,
    oldest: 1,
    sql: kind === 'sqlite' ? `${schemaSql}${catalogSql}` : schemaSql,
    migrate: (db, version) => {
      for (const migration of migrations.slice(version - 1)) migration(db);
    },
  };
}
