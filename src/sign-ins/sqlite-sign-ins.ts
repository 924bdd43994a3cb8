import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Clock } from '../core/clock.ts';
import { createPrivateFile } from '../files/private-file.ts';
import { toSinkError } from '../sinks/sqlite/sink-error.ts';
import { openSqliteDatabase, type SqliteDatabase } from '../sql/sqlite/open-sqlite-database.ts';
import { openSqlite, type Connection } from '../sql/sqlite/open-sqlite.ts';
import { takeLock } from '../sql/sqlite/lock.ts';
import { blockingMs, whenUnlocked } from '../sql/sqlite/sqlite-error.ts';
import { signInsSql } from './sign-in-rows.ts';
import type { SignInDriver } from './sign-in.ts';

const lockTimeoutMs = 30_000;

/** A file for each connector, which only its owner can read. */
export function sqliteSignIns(folder: string, connector: string, clock: Clock): SignInDriver {
  const file = path.join(folder, `${connector}.db`);
  const wait = { clock, lockTimeoutMs };
  const explain = (error: unknown): unknown => toSinkError(error, file);
  const open = async (): Promise<SqliteDatabase> => {
    const writer = await whenUnlocked(wait, () => openWriter(file));
    const openReader = (): Connection => openSqlite(file, { readonly: true, timeout: blockingMs });
    return openSqliteDatabase({ ...wait, file, writer, openReader, explain });
  };
  let opening: Promise<SqliteDatabase> | null = null;
  return {
    open: async (makes) => {
      if (opening === null && !makes && !existsSync(file)) return null;
      try {
        return await (opening ??= open());
      } catch (error) {
        opening = null;
        throw explain(error);
      }
    },
    now: async () => clock.now(),
    lock: () => {
      try {
        return takeLock(path.join(folder, `${connector}.lock`));
      } catch (error) {
        throw explain(error);
      }
    },
    [Symbol.asyncDispose]: async () => {
      const opened = await opening?.catch(() => null);
      await opened?.[Symbol.asyncDispose]();
    },
  };
}

function openWriter(file: string): Connection {
  createPrivateFile(file);
  const db = openSqlite(file, { timeout: blockingMs });
  try {
    db.pragma('journal_mode = WAL');
    db.pragma('synchronous = FULL');
    db.pragma('trusted_schema = OFF');
    // Tokens that were replaced or removed are overwritten.
    db.pragma('secure_delete = ON');
    db.exec(signInsSql);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}
