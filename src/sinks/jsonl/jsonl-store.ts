import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../core/names.ts';
import type { RecordStore } from '../ledger/record-store.ts';
import { ChangeFile } from './change-file.ts';
import { entityDirectory } from './file-name.ts';
import { prepareFileList } from './file-list.ts';
import { openKeyTable } from './key-table.ts';
import { lineWriter } from './line.ts';
import { cutTails, tidyDirectory } from './recover.ts';

export interface JsonlStoreOptions {
  readonly directory: string;
  /** Lines reach the disk before the ledger commits. */
  readonly isDurable: boolean;
}

/** A change file per connector and entity that is being written, and a table of keys per entity in the ledger. */
export function openJsonlStore(db: Database.Database, options: JsonlStoreOptions): RecordStore {
  const files = prepareFileList(db);
  const openFiles = new Map<ConnectorName, Map<string, ChangeFile>>();
  let toTidy: ConnectorName | null = null;

  const each = (act: (file: ChangeFile) => void): void => {
    for (const ofConnector of openFiles.values()) {
      for (const file of ofConnector.values()) {
        act(file);
      }
    }
  };

  return {
    recover: (connector) => {
      toTidy = connector;
      return cutTails(db, files, options.directory, connector);
    },
    ensure: (place) => {
      const { connector, epoch, table } = place;
      const ofConnector = openFiles.get(connector) ?? new Map<string, ChangeFile>();
      openFiles.set(connector, ofConnector);
      const directory = entityDirectory(options.directory, connector, table.entity);
      const changes =
        ofConnector.get(table.entity) ??
        new ChangeFile({
          files,
          directory,
          connector,
          entity: table.entity,
          epoch,
          isDurable: options.isDurable,
        });
      ofConnector.set(table.entity, changes);
      return openKeyTable(db, place, changes, lineWriter(table));
    },
    flush: () => each((file) => file.flush()),
    endRun: (connector) => {
      for (const file of openFiles.get(connector)?.values() ?? []) {
        file.end();
      }
    },
    settle: () => {
      each((file) => file.settle());
      if (toTidy !== null) {
        tidyDirectory(files, options.directory, toTidy);
        toTidy = null;
      }
    },
    discard: () => {
      each((file) => file.discard());
      toTidy = null;
    },
    release: (connector) => {
      for (const file of openFiles.get(connector)?.values() ?? []) {
        file.close();
      }
      openFiles.delete(connector);
    },
  };
}
