import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { type SyncError, usage } from '../../core/errors.ts';
import { expectedKey, keyBytes, readKey } from '../../core/secret.ts';
import { openSqlite } from '../../sql/sqlite/open-sqlite.ts';
import { createPrivateDirectory, hasCode, openPrivateFile, syncDirectory } from '../../files/private-file.ts';
import { createSealer, type Sealer } from '../../files/sealer.ts';
import { toStateError } from './open-state-file.ts';

const maxFileBytes = 256;

/**
 * The 32 bytes that protect every secret of the service: from `text` (base64 or hex) where it is given, else from
 * `<folder>/service.key`, which is made where there is none and nothing was sealed with one; without a folder generated
 * for this process. Throws `SyncError` USAGE for a text that is no key, for a file that is none, is no regular file, or
 * that others may read, and where the file that credentials were sealed with is missing.
 */
export function loadServiceKey(folder: string | null, text: string | undefined): Buffer {
  if (text !== undefined && text !== '') return parseKey(text, 'CONNECTOR_SYNC_SERVICE_KEY');
  if (folder === null) return randomBytes(keyBytes);
  const file = join(folder, 'service.key');
  try {
    const key = readKeyFile(file);
    if (key !== null) return key;
    if (hasSealedCredentials(join(folder, 'service.db'))) throw missing(file);
    return makeKeyFile(folder, file);
  } catch (error) {
    throw toStateError(error, file);
  }
}

function hasSealedCredentials(file: string): boolean {
  if (!existsSync(file)) return false;
  const db = openSqlite(file, { readonly: true });
  try {
    const tables = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'connectors'";
    if (db.prepare(tables).get() === undefined) return false;
    return db.prepare('SELECT 1 FROM connectors WHERE credentials IS NOT NULL').get() !== undefined;
  } finally {
    db.close();
  }
}

function missing(file: string): SyncError {
  return usage(
    `${file} is missing, and service.db beside it holds credentials that were sealed with it; no new key was made. ` +
      'Put the key back, from a backup of the folder or in CONNECTOR_SYNC_SERVICE_KEY, or serve another folder with --data.',
  );
}

/** Null where there is no file. */
function readKeyFile(file: string): Buffer | null {
  let descriptor: number;
  try {
    // A pipe must not make us wait for a writer.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    if (hasCode(error, 'ELOOP')) {
      throw usage(`${file} is a link; expected the key itself, as a regular file.`);
    }
    throw error;
  }
  try {
    // Checked on the opened file, so that it cannot be replaced in between.
    const stats = fstatSync(descriptor);
    if (!stats.isFile() || stats.size > maxFileBytes) {
      throw usage(`${file} was expected to be a file with a key.`);
    }
    if (process.platform !== 'win32' && (stats.mode & 0o077) !== 0) {
      throw usage(
        `Others may read or change the key in ${file}: chmod 600 it, and think about who has read it.`,
      );
    }
    return parseKey(readFileSync(descriptor, 'utf8').trim(), file);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Written beside and then linked: a reader never finds half a key, and two processes that create one both use the
 * first.
 */
function makeKeyFile(folder: string, file: string): Buffer {
  createPrivateDirectory(folder);
  const key = randomBytes(keyBytes);
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  const descriptor = openPrivateFile(draft);
  try {
    writeSync(descriptor, `${key.toString('base64')}\n`);
    fsyncSync(descriptor);
    linkSync(draft, file);
  } catch (error) {
    const theirs = hasCode(error, 'EEXIST') ? readKeyFile(file) : null;
    if (theirs === null) throw error;
    return theirs;
  } finally {
    closeSync(descriptor);
    rmSync(draft, { force: true });
  }
  syncDirectory(folder);
  return key;
}

function parseKey(text: string, place: string): Buffer {
  const key = readKey(text);
  if (key !== null) return key;
  throw usage(`${place}: ${expectedKey}, got something else.`);
}

/** Seals the credentials of the service's connectors. */
export function openServiceSealer(key: Buffer | null): Sealer {
  return createSealer(key, {
    purpose: 'credentials',
    otherKey:
      'The stored credentials were sealed with another key. Start with the key they were sealed with: in ' +
      'CONNECTOR_SYNC_SERVICE_KEY, or as service.key beside service.db.',
    damaged:
      'Stored credentials are damaged or belong to another connector. Give the connector its credentials again.',
  });
}
