import { existsSync, rmSync, rmdirSync, readdirSync, renameSync, statSync, unlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ConnectorName, EntityName, OfEntity } from '../../core/names.ts';
import { syncDirectory, syncFile } from '../../files/private-file.ts';
import { grouped } from '../../core/grouped.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { ChangeFile } from './change-file.ts';
import {
  closedName,
  entityDirectory,
  growingName,
  prepareFileList,
  type FileList,
  readFileName,
  type ListedFile,
} from './file-list.ts';
import { knownOrMade } from '../../core/known-or-made.ts';
import { takeRewritten } from './rewritten-file.ts';

type RewrittenFile = Pick<ListedFile, 'length' | 'lastSeq' | 'hash'>;

interface ChangeFilesOptions {
  readonly directory: string;
  /** Lines reach the disk before the ledger commits. */
  readonly isDurable: boolean;
}

/**
 * The change files of the connectors that a sink holds, one for each entity that is written. Called inside the
 * transactions of the ledger in `db`; `flush`, `settle` and `discard` as of `ChangeFile`.
 */
export type ChangeFiles = ReturnType<typeof openChangeFiles>;

export function openChangeFiles(db: Connection, { directory, isDurable }: ChangeFilesOptions) {
  const files = prepareFileList(db);
  const held = new Map<
    ConnectorName,
    { readonly epoch: number; readonly ofEntity: Map<EntityName, ChangeFile> }
  >();
  let toTidy: ConnectorName | null = null;
  let dropped: ConnectorName | null = null;
  const rewritten: string[] = [];

  const each = (act: (file: ChangeFile) => void): void => {
    for (const { ofEntity } of held.values()) for (const file of ofEntity.values()) act(file);
  };
  const release = (connector: ConnectorName): void => {
    for (const file of held.get(connector)?.ofEntity.values() ?? []) file.close();
    held.delete(connector);
  };

  /**
   * With durability `normal` a power loss may undo a commit: neither a closed file's final name nor a removed file may
   * come before its commit is on the disk.
   */
  const syncLedgerBeforeNames = (): void => {
    let isNaming = toTidy !== null || dropped !== null || rewritten.length > 0;
    each((file) => (isNaming ||= file.isEnding));
    try {
      if (isNaming) syncFile(`${db.name}-wal`);
    } catch {
      // A disk that cannot sync is not durable; the next commit reports what is wrong with it.
    }
  };

  return {
    files,
    directory,
    /** From now on the connector's lines are those of this epoch. */
    begin: (connector: ConnectorName, epoch: number): void => {
      release(connector);
      held.set(connector, { epoch, ofEntity: new Map() });
    },
    release,
    of: (connector: ConnectorName, entity: EntityName): ChangeFile => {
      const holder = held.get(connector);
      if (holder === undefined) throw new TypeError(`${connector} is written while no process holds it`);
      const { epoch, ofEntity } = holder;
      return knownOrMade(ofEntity, entity, () => {
        const folder = entityDirectory(directory, connector, entity);
        return new ChangeFile({ files, directory: folder, connector, entity, epoch, isDurable });
      });
    },
    /** This transaction ends the connector's run: its files are closed. */
    endRun: (connector: ConnectorName): void => {
      for (const file of held.get(connector)?.ofEntity.values() ?? []) file.end();
    },
    /** After this transaction the connector's folders are made to match the list. */
    tidy: (connector: ConnectorName): void => void (toTidy = connector),
    /**
     * After this transaction the file at `path` is the one that was written beside it (`rewrittenName`); null: none of
     * its lines is left, and it is removed.
     */
    replace: (owner: OfEntity, file: ListedFile, path: string, kept: RewrittenFile | null): void => {
      if (kept === null) {
        files.doomOne(owner, file);
        dropped = owner.connector;
      } else {
        files.cut(owner, file, kept);
        rewritten.push(path);
      }
    },
    /** After this transaction the entity's files are removed. */
    drop: (connector: ConnectorName, entity: EntityName): void => {
      files.doom({ connector, entity });
      dropped = connector;
    },
    flush: (): void => each((file) => file.flush()),
    settle: (): void => {
      if (!isDurable) syncLedgerBeforeNames();
      each((file) => file.settle());
      for (const path of rewritten.splice(0)) takeRewritten(path);
      if (toTidy !== null) tidyDirectory(files, directory, toTidy);
      for (const connector of [toTidy, dropped]) {
        if (connector !== null) removeDoomedFiles(files, directory, connector);
      }
      toTidy = null;
      dropped = null;
    },
    discard: (): void => {
      rewritten.length = 0;
      each((file) => file.discard());
      toTidy = null;
      dropped = null;
    },
  };
}

/**
 * Removes files after the commit that dropped them, then forgets them: what a kill or a failure leaves is found at the
 * next acquire.
 */
function removeDoomedFiles(files: FileList, directory: string, connector: ConnectorName): void {
  for (const [entity, ofEntity] of grouped(files.doomed(connector), (file) => file.entity)) {
    const folder = entityDirectory(directory, connector, entity);
    try {
      for (const file of ofEntity) {
        rmSync(join(folder, closedName(file)), { force: true });
        rmSync(join(folder, growingName(file)), { force: true });
      }
      // A file that a power loss brought back after it was forgotten would be read forever.
      if (existsSync(folder)) syncDirectory(folder);
      for (const file of ofEntity) files.drop({ connector, entity }, file);
      rmdirSync(folder);
      rmdirSync(dirname(folder));
    } catch {
      // A folder that holds other files stays; the next acquire tries again to remove a file that could not be removed.
    }
  }
}

/**
 * After acquire's commit: files whose transaction never ended are removed, closed ones get their final name. Other
 * names stay. What fails is done at the next acquire.
 */
function tidyDirectory(files: FileList, directory: string, connector: ConnectorName): void {
  const listed = new Map(files.all(connector).map((file) => [`${file.entity}/${closedName(file)}`, file]));
  try {
    for (const entity of readNames(join(directory, connector))) {
      tidyEntity(join(directory, connector, entity), (name) => listed.get(`${entity}/${name}`));
    }
  } catch {
    // Leftover files change nothing: readers use closed names only, and the ledger decides what counts.
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
