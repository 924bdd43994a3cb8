import Database from 'better-sqlite3';
import { openSqlite } from '../../sinks/ledger/open-sqlite.ts';

/** Whether SQLite finds nothing wrong with a file. Reads all of it. False also where it cannot be opened. */
export function isSound(file: string): boolean {
  try {
    const db = openSqlite(file, { readonly: true, fileMustExist: true });
    try {
      return db.pragma('quick_check(1)', { simple: true }) === 'ok';
    } finally {
      db.close();
    }
  } catch (error) {
    // What SQLite cannot even check is not sound; anything else is a fault of the program.
    if (error instanceof Database.SqliteError) return false;
    throw error;
  }
}
