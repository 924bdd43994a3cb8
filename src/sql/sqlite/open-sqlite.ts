import { createRequire } from 'node:module';
import Database from 'better-sqlite3';
import { SyncError } from '../../core/errors.ts';

/** A connection of better-sqlite3, which answers at once. */
export type Connection = Database.Database;

/** better-sqlite3 13 calls functions of this Node-API version; an older Node.js ends in a segmentation fault. */
const nodeApiOf13 = 10;
/** better-sqlite3 12, compiled for this Node.js or a later one, ends the process when memory is collected. */
const firstNodeWithout12 = 24;

/**
 * Opens a database. Throws `SyncError` SQLITE_UNUSABLE where the installed version does not fit this Node.js; otherwise
 * the error of better-sqlite3.
 */
export function openSqlite(file: string, options: Database.Options = {}): Database.Database {
  checkVersions();
  try {
    return new Database(file, options);
  } catch (error) {
    throw isBinaryMissing(error) ? unusable('holds no binary for', error) : error;
  }
}

const { version } = createRequire(import.meta.url)('better-sqlite3/package.json') as { version: string };

function checkVersions(): void {
  const major = Number.parseInt(version, 10);
  const isTooNew = major >= 13 && Number(process.versions.napi) < nodeApiOf13;
  const isTooOld = major <= 12 && Number.parseInt(process.versions.node, 10) >= firstNodeWithout12;
  if (isTooNew || isTooOld) throw unusable('does not work on');
}

/** Compiled for another Node.js, or never compiled because install scripts were switched off. */
function isBinaryMissing(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? error.code : undefined;
  return (
    code === 'ERR_DLOPEN_FAILED' ||
    code === 'MODULE_NOT_FOUND' ||
    error.message.startsWith('Could not locate the bindings file')
  );
}

function unusable(why: string, cause?: unknown): SyncError {
  return new SyncError(
    `The installed better-sqlite3 ${version} ${why} this Node.js (${process.version}, ${process.platform}-${process.arch}). ` +
      'With this Node.js, run `npm ci` in a checkout of connector-sync, or `npm update better-sqlite3` where connector-sync is a dependency.',
    { code: 'SQLITE_UNUSABLE', recovery: 'stop', context: { version, node: process.version }, cause },
  );
}
