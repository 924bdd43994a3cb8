import type Database from 'better-sqlite3';
import { existsSync, rmSync, rmdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ConnectorName } from '../../core/names.ts';
import { openFileSink } from '../file-ledger/file-sink.ts';
import { syncDirectory, syncFile } from '../../files/private-file.ts';
import type { RecordStore, RecordTable, TablePlace } from '../file-ledger/record-store.ts';
import type { OpenHow } from '../sink-access.ts';
import type { Sink } from '../sink.ts';
import { ChangeFile } from './change-file.ts';
import { prepareFileList, type FileList, closedName, entityDirectory, growingName } from './file-list.ts';
import { keyTableName, openKeyTable } from './key-table.ts';
import { lineWriters } from './line.ts';
import { cutTails, findDamagedFiles, mendFile, tidyDirectory } from './recover.ts';

/** Changes as lines of files below `directory`; the ledger in `file` there knows every key and every file's length. */
export async function openJsonlSink(
  options: OpenHow & { readonly directory: string; readonly file: string },
): Promise<Sink> {
  const { directory, durability } = options;
  return await openFileSink({
    ...options,
    kind: 'jsonl',
    openStore: (db) => openJsonlStore(db, { directory, isDurable: durability === 'full' }),
  });
}

interface JsonlStoreOptions {
  readonly directory: string;
  /** Lines reach the disk before the ledger commits. */
  readonly isDurable: boolean;
}

/** A change file per connector and entity that is being written, and a table of keys per entity in the ledger. */
function openJsonlStore(db: Database.Database, options: JsonlStoreOptions): RecordStore {
  const files = prepareFileList(db);
  const openFiles = new Map<ConnectorName, Map<string, ChangeFile>>();
  let toTidy: ConnectorName | null = null;
  let dropped: ConnectorName | null = null;

  const each = (act: (file: ChangeFile) => void): void => {
    for (const ofConnector of openFiles.values()) {
      for (const file of ofConnector.values()) act(file);
    }
  };

  /** With durability `normal` a power loss may undo a commit: neither a closed file's final name nor a removed file may come before its commit is on the disk. */
  const syncLedgerBeforeNames = (): void => {
    let isNaming = toTidy !== null || dropped !== null;
    each((file) => (isNaming ||= file.isEnding));
    try {
      if (isNaming) syncFile(`${db.name}-wal`);
    } catch {
      // A disk that cannot sync has no durability to offer; the next commit says what it thinks of it.
    }
  };

  const open = (place: TablePlace): RecordTable => {
    const { connector, epoch, table } = place;
    const ofConnector = openFiles.get(connector) ?? new Map<string, ChangeFile>();
    openFiles.set(connector, ofConnector);
    const directory = entityDirectory(options.directory, connector, table.entity);
    const { isDurable } = options;
    const changes =
      ofConnector.get(table.entity) ??
      new ChangeFile({ files, directory, connector, entity: table.entity, epoch, isDurable });
    ofConnector.set(table.entity, changes);
    return openKeyTable(db, place, changes, lineWriters(table));
  };

  return {
    recover: (connector) => {
      toTidy = connector;
      return cutTails(db, files, options.directory, connector);
    },
    findDamage: async (connector, entities, signal) => {
      const sink = { db, files, directory: options.directory, connector };
      const damaged = await findDamagedFiles(sink, entities, signal);
      return () => ({ hasLostRows: damaged.filter((file) => mendFile(sink, file)).length > 0 });
    },
    ensure: open,
    flush: () => each((file) => file.flush()),
    endRun: (connector) => {
      for (const file of openFiles.get(connector)?.values() ?? []) file.end();
    },
    settle: () => {
      if (!options.isDurable) syncLedgerBeforeNames();
      each((file) => file.settle());
      if (toTidy !== null) {
        tidyDirectory(files, options.directory, toTidy);
        removeDoomedFiles(files, options.directory, toTidy);
        toTidy = null;
      }
      if (dropped !== null) {
        removeDoomedFiles(files, options.directory, dropped);
        dropped = null;
      }
    },
    discard: () => {
      each((file) => file.discard());
      toTidy = null;
      dropped = null;
    },
    canUndelete: false,
    // Nothing is moved, so nothing has to fit: a later value that does not is kept in `_extra`.
    fitting: (_connector, _entity, columns) => columns,
    // Lines are never written anew: a field of its own from now on, in `_extra` of older lines.
    evolve: open,
    renewViews: () => undefined,
    drop: (connector, entity) => {
      db.exec(`DROP TABLE IF EXISTS ${keyTableName(connector, entity)}`);
      files.doom({ connector, entity });
      dropped = connector;
    },
    // A deleted record's fields are in older lines alone, and every line is a change of its own: neither can be moved as it is.
    copies: null,
    release: (connector) => {
      for (const file of openFiles.get(connector)?.values() ?? []) file.close();
      openFiles.delete(connector);
    },
  };
}

/** Removes files after the commit that dropped them, then forgets them: what a kill or a failure leaves is found at the next acquire. */
function removeDoomedFiles(files: FileList, directory: string, connector: ConnectorName): void {
  const doomed = files.doomed(connector);
  for (const entity of new Set(doomed.map((file) => file.entity))) {
    const folder = entityDirectory(directory, connector, entity);
    const ofEntity = doomed.filter((file) => file.entity === entity);
    try {
      for (const file of ofEntity) {
        rmSync(join(folder, closedName(file)), { force: true });
        rmSync(join(folder, growingName(file)), { force: true });
      }
      // A file that a power loss brought back after it was forgotten would be read for ever.
      if (existsSync(folder)) syncDirectory(folder);
      for (const file of ofEntity) files.drop({ connector, entity }, file);
      rmdirSync(folder);
      rmdirSync(dirname(folder));
    } catch {
      // A folder that holds other files stays; a file that could not be removed is tried again at the next acquire.
    }
  }
}
