import type Database from 'better-sqlite3';
import { openSqlite } from './open-sqlite.ts';
import { createPrivateFile } from '../../files/private-file.ts';
import { isBusy } from './sqlite-error.ts';

export interface Lock {
  release(): void;
}

/**
 * Locks held by this process. Without this reference, garbage collection of a connection would free its lock, while the
 * holder believed that it still held it.
 */
const held = new Set<Database.Database>();

/**
 * Takes the exclusive lock that `file` stands for; null when another process holds it. Never waits. The lock is an
 * empty SQLite database in an exclusive transaction: the kernel frees it when the process dies, so no lock is stale.
 * The file stays: without it two processes could lock two files of one name.
 */
export function takeLock(file: string): Lock | null {
  createPrivateFile(file);
  const db = openSqlite(file, { timeout: 0 });
  try {
    // Nothing is ever written; a journal in a file would be synced.
    db.pragma('journal_mode = MEMORY');
    db.pragma('locking_mode = EXCLUSIVE');
    db.exec('BEGIN EXCLUSIVE');
    held.add(db);
    return {
      release: () => {
        held.delete(db);
        db.close();
      },
    };
  } catch (error) {
    db.close();
    if (isBusy(error)) return null;
    throw error;
  }
}
