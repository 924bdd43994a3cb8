import {
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import type Database from 'better-sqlite3';
import { z } from 'zod';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { syncDirectory } from '../ledger/private-file.ts';
import type { FileList, ListedFile } from './file-list.ts';
import { closedName, entityDirectory, growingName, readFileName } from './file-name.ts';
import { keyTableName } from './key-table.ts';

/**
 * Inside acquire's transaction: brings every file that was growing to its committed length and marks it closed (the new
 * holder writes files of its own). A file shorter than that has lost acknowledged lines (a power loss without
 * durability, or a person's hand): what they said is forgotten, so that it is written again.
 */
export function cutTails(
  db: Database.Database,
  files: FileList,
  directory: string,
  connector: ConnectorName,
): { readonly hasLostRows: boolean } {
  let hasLostRows = false;
  for (const file of files.all(connector)) {
    if (file.isClosed === 1) {
      continue;
    }
    const owner = { connector, entity: file.entity };
    const path = join(entityDirectory(directory, connector, file.entity), growingName(file));
    const size = existsSync(path) ? statSync(path).size : 0;
    let length = file.length;
    if (size < length) {
      hasLostRows = true;
      const kept = readKept(path, size);
      length = kept.length;
      forgetRows(db, connector, file, kept.lastSeq);
      files.cut(owner, file, length);
    }
    if (size > length) {
      truncateSync(path, length);
    }
    if (length === 0) {
      files.drop(owner, file);
    } else {
      files.close(owner, file);
    }
  }
  return { hasLostRows };
}

/**
 * After acquire's commit: files that the ledger does not know (their transaction never ended) go, closed ones get their
 * final name. Other names are not ours and stay. What fails here is done at the next acquire.
 */
export function tidyDirectory(files: FileList, directory: string, connector: ConnectorName): void {
  const listed = new Map(files.all(connector).map((file) => [`${file.entity}/${closedName(file)}`, file]));
  try {
    for (const entity of readNames(join(directory, connector))) {
      tidyEntity(join(directory, connector, entity), (name) => listed.get(`${entity}/${name}`));
    }
  } catch {
    // Untidy files change nothing: readers are told to take closed names only, and the ledger says what counts.
  }
}

function tidyEntity(directory: string, find: (name: string) => ListedFile | undefined): void {
  const names = readNames(directory);
  for (const name of names) {
    const file = readFileName(name);
    if (file === null) {
      continue;
    }
    if (find(closedName(file)) === undefined) {
      // Only a growing file can be of a transaction that never ended; a closed one was committed by somebody.
      if (file.isGrowing) unlinkSync(join(directory, name));
    } else if (file.isGrowing) {
      renameSync(join(directory, name), join(directory, closedName(file)));
    }
  }
  if (names.length > 0) {
    syncDirectory(directory);
  }
}

function readNames(directory: string): readonly string[] {
  return existsSync(directory) && statSync(directory).isDirectory() ? readdirSync(directory) : [];
}

/** The whole lines left in a file that is too short. */
function readKept(path: string, size: number): { readonly length: number; readonly lastSeq: number } {
  if (size === 0) {
    return { length: 0, lastSeq: 0 };
  }
  const bytes = readFileSync(path);
  const length = bytes.lastIndexOf(10) + 1;
  const lastStart = length < 2 ? 0 : bytes.lastIndexOf(10, length - 2) + 1;
  const lastSeq = readSeq(bytes.toString('utf8', lastStart, length));
  return lastSeq === null ? { length: 0, lastSeq: 0 } : { length, lastSeq };
}

const sequenced = z.object({ _seq: z.number().int() });

function readSeq(line: string): number | null {
  try {
    return sequenced.parse(JSON.parse(line))._seq;
  } catch {
    // Not one of our lines (zeros after a power loss, say): nothing in the file can be trusted.
    return null;
  }
}

/**
 * Rows whose last line is lost are written again as soon as they are met: hashes are forgotten, tombstones undone. Every
 * walk begins anew and in full, because one from a position or a watermark on would not meet them; what lies below vanished
 * records is met by none, and is looked through again.
 */
function forgetRows(
  db: Database.Database,
  connector: ConnectorName,
  file: ListedFile & { readonly entity: EntityName },
  lastSeq: number,
): void {
  const table = keyTableName(connector, file.entity);
  const lost = [Math.max(file.firstSeq, lastSeq + 1), file.lastSeq] as const;
  db.prepare<[number, number, string, string]>(
    `UPDATE _sync_tables SET deleted = deleted -
       (SELECT count(*) FROM ${table} WHERE seq BETWEEN ? AND ? AND deleted_at IS NOT NULL)
     WHERE connector = ? AND entity = ?`,
  ).run(...lost, connector, file.entity);
  db.prepare<[number, number]>(
    `UPDATE ${table} SET hash = '', deleted_at = NULL WHERE seq BETWEEN ? AND ?`,
  ).run(...lost);
  db.prepare<[string]>(
    `UPDATE _sync_partitions SET position = NULL, watermark = NULL, marker = NULL, full_at = NULL, sweep_origin = NULL,
       gone = iif(gone = 2, 1, gone)
     WHERE connector = ?`,
  ).run(connector);
}
