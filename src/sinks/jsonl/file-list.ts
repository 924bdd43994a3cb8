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

/** `_sync_files`: every change file, with its committed length. */
export interface FileList {
  all(connector: ConnectorName): readonly ListedFile[];
  /** Adds the file, or notes how far it has grown. */
  grow(owner: FileOwner, file: FileNumber, size: GrownFile): void;
  cut(owner: FileOwner, file: FileNumber, length: number): void;
  close(owner: FileOwner, file: FileNumber): void;
  drop(owner: FileOwner, file: FileNumber): void;
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
     FROM _sync_files WHERE connector = ?`,
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
  };
}
