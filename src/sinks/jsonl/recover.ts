import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  unlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type Database from 'better-sqlite3';
import * as z from 'zod';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { damageAdvice, damageText } from '../closed-files.ts';
import { syncDirectory } from '../../files/private-file.ts';
import { type FileList, type ListedFile, closedName, entityDirectory, readFileName } from './file-list.ts';
import { findFile, findOtherContent, findWrongLength } from './find-damage.ts';
import { lostHash } from '../decisions/meet-record.ts';
import { keyTableName } from './key-table.ts';

/**
 * Inside acquire's transaction: cuts every growing file to its committed length and closes it. What a file that holds less, or something else,
 * has lost (a power loss without durability, a person's hand) is forgotten, so that it is written again.
 */
export function cutTails(
  db: Database.Database,
  files: FileList,
  directory: string,
  connector: ConnectorName,
): { readonly hasLostRows: boolean } {
  checkClosed(files, directory, connector);
  let hasLostRows = false;
  for (const file of files.all(connector)) {
    if (file.isClosed === 1) continue;
    const hasLost = mendFile({ db, files, directory, connector }, file);
    hasLostRows ||= hasLost;
  }
  return { hasLostRows };
}

/** Of closed files only the length is looked at: that costs microseconds each. Throws `SyncError` SINK_DAMAGED. */
function checkClosed(files: FileList, directory: string, connector: ConnectorName): void {
  const damaged = files.all(connector).flatMap((file) => {
    if (file.isClosed !== 1) return [];
    return findWrongLength(entityDirectory(directory, connector, file.entity), file) ?? [];
  });
  const [first] = damaged;
  if (first === undefined) return;
  const others =
    damaged.length === 1 ? '' : ` (and ${damaged.length - 1} more files of this connector are damaged)`;
  throw new SyncError(`${damageText(first)}${others}. ${damageAdvice(connector, 'connector-sync')}`, {
    code: 'SINK_DAMAGED',
    recovery: 'stop',
    context: { file: first.path, files: damaged.length },
  });
}

/** The closed files of these entities (null: of all) that do not hold what was closed. Reads them whole. */
export async function findDamagedFiles(
  { files, directory, connector }: Omit<MendedSink, 'db'>,
  entities: readonly EntityName[] | null,
  signal?: AbortSignal,
): Promise<readonly ListedFile[]> {
  const damaged: ListedFile[] = [];
  for (const file of files.all(connector)) {
    if (file.isClosed !== 1 || entities?.includes(file.entity) === false) continue;
    const folder = entityDirectory(directory, connector, file.entity);
    if ((await findOtherContent(folder, file, { signal })) !== null) damaged.push(file);
  }
  return damaged;
}

interface MendedSink {
  readonly db: Database.Database;
  readonly files: FileList;
  readonly directory: string;
  readonly connector: ConnectorName;
}

/**
 * Closes a file with the committed lines that can be relied on, and forgets the others; true when there were any. A file with other bytes than were
 * written, or a closed one without a whole line, is put aside as `<name>.damaged`.
 */
export function mendFile({ db, files, directory, connector }: MendedSink, file: ListedFile): boolean {
  const owner = { connector, entity: file.entity };
  const { path } = findFile(entityDirectory(directory, connector, file.entity), file);
  const kept = readKept(path, file);
  if (kept === null) {
    cutFile(path, file.length);
    files.close(owner, file);
    return false;
  }
  forgetRows(db, connector, file, kept.lastSeq);
  if (kept.length > 0) {
    cutFile(path, kept.length);
    files.cut(owner, file, kept);
    files.close(owner, file);
  } else {
    // Under its final name a file that the ledger forgets would be read for ever; one that grew is removed after the commit.
    if (existsSync(path) && (kept.isToKeepAside || file.isClosed === 1)) {
      renameSync(path, `${path}.damaged`);
      syncDirectory(dirname(path));
    }
    files.drop(owner, file);
  }
  return true;
}

/** Synced, because the ledger counts a closed file as whole. */
function cutFile(path: string, length: number): void {
  const descriptor = openSync(path, 'r+');
  try {
    ftruncateSync(descriptor, length);
    fdatasyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** After acquire's commit: files whose transaction never ended go, closed ones get their final name. Other names stay. What fails is done at the next acquire. */
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
    if (file === null) continue;
    if (find(closedName(file)) === undefined) {
      // Only a growing file can be of a transaction that never ended; a closed one was committed.
      if (file.isGrowing) unlinkSync(join(directory, name));
    } else if (file.isGrowing) {
      renameSync(join(directory, name), join(directory, closedName(file)));
    }
  }
  if (names.length > 0) syncDirectory(directory);
}

function readNames(directory: string): readonly string[] {
  return existsSync(directory) && statSync(directory).isDirectory() ? readdirSync(directory) : [];
}

interface KeptLines extends Pick<ListedFile, 'length' | 'lastSeq' | 'hash'> {
  readonly isToKeepAside: boolean;
}

const nothing: KeptLines = { length: 0, lastSeq: 0, hash: null, isToKeepAside: false };

/**
 * Null when the committed bytes are there. Else the whole lines in front of what is missing: blocks that did not reach the disk are behind the end
 * or full of zeros, which no line holds. Where neither explains the difference no line can be relied on.
 */
function readKept(path: string, file: ListedFile): KeptLines | null {
  const bytes = existsSync(path) ? readFileSync(path).subarray(0, file.length) : Buffer.alloc(0);
  const hole = bytes.indexOf(0);
  const isWhole = bytes.length === file.length && hole < 0;
  if (isWhole && (file.hash === null || file.hash === hashOf(bytes))) return null;
  if (isWhole) return { ...nothing, isToKeepAside: true };
  const good = hole < 0 ? bytes : bytes.subarray(0, hole);
  const length = good.lastIndexOf(10) + 1;
  if (length === 0) return nothing;
  const lastStart = length < 2 ? 0 : good.lastIndexOf(10, length - 2) + 1;
  const lastSeq = readSeq(good.toString('utf8', lastStart, length));
  const isOurs = lastSeq !== null && lastSeq >= file.firstSeq && lastSeq <= file.lastSeq;
  return isOurs
    ? { length, lastSeq, hash: hashOf(good.subarray(0, length)), isToKeepAside: false }
    : { ...nothing, isToKeepAside: true };
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
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

/** Rows whose last line is lost are written again as soon as they are met (deletions: when the table is opened next). */
function forgetRows(
  db: Database.Database,
  connector: ConnectorName,
  file: ListedFile,
  lastSeq: number,
): void {
  db.prepare<[number, number]>(
    `UPDATE ${keyTableName(connector, file.entity)} SET hash = '${lostHash}' WHERE seq BETWEEN ? AND ?`,
  ).run(Math.max(file.firstSeq, lastSeq + 1), file.lastSeq);
}
