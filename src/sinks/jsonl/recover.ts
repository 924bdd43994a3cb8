import { closeSync, existsSync, fdatasyncSync, ftruncateSync, openSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName, OfEntity } from '../../core/names.ts';
import { syncDirectory } from '../../files/private-file.ts';
import type { Tx } from '../../sql/database.ts';
import { damageAdvice, damageText } from '../closed-files.ts';
import type { ChangeFiles } from './change-files.ts';
import { entityDirectory, type ListedFile } from './file-list.ts';
import { findFile, findOtherContent, findWrongLength, readKept, type KeptLines } from './find-damage.ts';
import { finishRewritten } from './rewritten-file.ts';
import { appendStoredLines } from './stored-lines.ts';

/**
 * Inside acquire's transaction: cuts every growing file to its committed length and closes it. What a file that holds
 * less, or something else, has lost (a power loss without durability, a person's hand) is written again. Throws
 * `SyncError` SINK_DAMAGED for a closed file of another length.
 */
export async function recoverFiles(tx: Tx, changes: ChangeFiles, connector: ConnectorName): Promise<void> {
  checkClosed(changes, connector);
  changes.tidy(connector);
  for (const file of changes.files.all(connector)) {
    if (file.isClosed !== 1) await mendFile(tx, changes, connector, file);
  }
}

/** Of closed files only the length is checked: that costs microseconds each. */
function checkClosed({ files, directory }: ChangeFiles, connector: ConnectorName): void {
  const damaged = files.all(connector).flatMap((file) => {
    if (file.isClosed !== 1) return [];
    const folder = entityDirectory(directory, connector, file.entity);
    const wrong = findWrongLength(folder, file);
    if (wrong === null) return [];
    finishRewritten(wrong.path, file);
    return findWrongLength(folder, file) ?? [];
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

/**
 * Reads the closed files of these entities (null: of all) whole. The function that it returns repairs those that no
 * longer hold what was closed.
 */
export async function findDamagedFiles(
  changes: ChangeFiles,
  connector: ConnectorName,
  entities: readonly EntityName[] | null,
  signal?: AbortSignal,
): Promise<(tx: Tx) => Promise<void>> {
  const { files, directory } = changes;
  const damaged: ListedFile[] = [];
  for (const file of files.all(connector)) {
    if (file.isClosed !== 1 || entities?.includes(file.entity) === false) continue;
    const folder = entityDirectory(directory, connector, file.entity);
    if ((await findOtherContent(folder, file, { signal })) !== null) damaged.push(file);
  }
  return async (tx) => {
    for (const file of damaged) await mendFile(tx, changes, connector, file);
  };
}

/**
 * Closes a file with the committed lines that can be relied on; a new one gets the newest line of each key that the
 * others were about. A file with other bytes than were written, or a closed one without a whole line, is put aside as
 * `<name>.damaged`.
 */
async function mendFile(
  tx: Tx,
  changes: ChangeFiles,
  connector: ConnectorName,
  file: ListedFile,
): Promise<void> {
  const { files, directory } = changes;
  const owner = { connector, entity: file.entity };
  const { path } = findFile(entityDirectory(directory, connector, file.entity), file);
  const kept = readKept(path, file);
  if (kept === null || kept.length > 0) {
    cutFile(path, kept?.length ?? file.length);
    if (kept !== null) files.cut(owner, file, kept);
    files.close(owner, file);
  } else {
    // Under its final name a file that the ledger forgets would be read forever; one that grew is removed after the
    // commit.
    if (existsSync(path) && (kept.isToKeepAside || file.isClosed === 1)) {
      renameSync(path, `${path}.damaged`);
      syncDirectory(dirname(path));
    }
    files.drop(owner, file);
  }
  if (kept !== null) await replaceLines(tx, changes, owner, file, kept);
}

/** Change numbers rise from line to line, except in a copy: there, a key may come twice, which does no harm. */
async function replaceLines(
  tx: Tx,
  changes: ChangeFiles,
  owner: OfEntity,
  file: ListedFile,
  kept: KeptLines,
): Promise<void> {
  const from = kept.length === 0 ? file.firstSeq : kept.lastSeq + 1;
  const changeFile = changes.of(owner.connector, owner.entity);
  await appendStoredLines(tx, owner, { from, to: file.lastSeq }, changeFile);
  changeFile.endAsPartial();
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
