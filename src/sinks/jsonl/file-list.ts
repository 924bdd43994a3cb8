import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { FileNumber } from './file-name.ts';

export interface FileOwner {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
}

export interface ListedFile extends FileNumber {
  readonly entity: EntityName;
  /** Bytes that are committed; what lies behind them was never acknowledged. */
  readonly length: number;
  /** Change numbers of the first and last committed line. */
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly isClosed: number;
}

/** `_sync_files`: every change file, with its committed length; `is_closed` 2 says that the file is to be removed. */
export interface FileList {
  all(connector: ConnectorName): readonly ListedFile[];
  /** Adds the file, or notes how far it has grown. */
  grow(owner: FileOwner, file: FileNumber, size: GrownFile): void;
  cut(owner: FileOwner, file: FileNumber, length: number): void;
  close(owner: FileOwner, file: FileNumber): void;
  drop(owner: FileOwner, file: FileNumber): void;
  /** The entity's records are dropped: its files are no part of the sink any more, and are to be removed. */
  doom(owner: FileOwner): void;
  /** What is still to be removed. */
  doomed(connector: ConnectorName): readonly (FileNumber & { readonly entity: EntityName })[];
}

export interface GrownFile {
  readonly length: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
}

type FileKey = [string, string, number, number];

export function prepareFileList(db: Database.Database): FileList {
  const byKey = 'WHERE connector = ? AND entity = ? AND epoch = ? AND number = ?';
  const all = db.prepare<[string], ListedFile>(
    `SELECT entity, epoch, number, length, first_seq AS firstSeq, last_seq AS lastSeq, is_closed AS isClosed
     FROM _sync_files WHERE connector = ? AND is_closed < 2`,
  );
  const grow = db.prepare<[...FileKey, number, number, number]>(
    `INSERT INTO _sync_files (connector, entity, epoch, number, length, first_seq, last_seq, is_closed)
     VALUES (?, ?, ?, ?, ?, ?, ?, 0)
     ON CONFLICT (connector, entity, epoch, number) DO UPDATE SET
       length = excluded.length, last_seq = excluded.last_seq`,
  );
  const cut = db.prepare<[number, ...FileKey]>(`UPDATE _sync_files SET length = ? ${byKey}`);
  const close = db.prepare<FileKey>(`UPDATE _sync_files SET is_closed = 1 ${byKey}`);
  const drop = db.prepare<FileKey>(`DELETE FROM _sync_files ${byKey}`);
  const doom = db.prepare<[string, string]>(
    'UPDATE _sync_files SET is_closed = 2 WHERE connector = ? AND entity = ?',
  );
  const doomed = db.prepare<[string], FileNumber & { readonly entity: EntityName }>(
    'SELECT entity, epoch, number FROM _sync_files WHERE connector = ? AND is_closed = 2',
  );
  const key = ({ connector, entity }: FileOwner, { epoch, number }: FileNumber): FileKey => [
    connector,
    entity,
    epoch,
    number,
  ];
  return {
    all: (connector) => all.all(connector),
    grow: (owner, file, { length, firstSeq, lastSeq }) =>
      void grow.run(...key(owner, file), length, firstSeq, lastSeq),
    cut: (owner, file, length) => void cut.run(length, ...key(owner, file)),
    close: (owner, file) => void close.run(...key(owner, file)),
    drop: (owner, file) => void drop.run(...key(owner, file)),
    doom: ({ connector, entity }) => void doom.run(connector, entity),
    doomed: (connector) => doomed.all(connector),
  };
}
