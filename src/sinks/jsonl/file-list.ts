import type Database from 'better-sqlite3';
import { join } from 'node:path';
import type { ConnectorName, EntityName } from '../../core/names.ts';

/** `<epoch>-<number>.jsonl`, with `.open` behind it while it grows. Each epoch has files of its own. */
export interface FileNumber {
  readonly epoch: number;
  readonly number: number;
}

const pattern = /^(\d{1,15})-(\d{1,15})\.jsonl(\.open)?$/;

export function closedName({ epoch, number }: FileNumber): string {
  return `${epoch}-${number}.jsonl`;
}

export function growingName(file: FileNumber): string {
  return `${closedName(file)}.open`;
}

/** Null for a name that this sink never gives, so that other people's files are left alone. */
export function readFileName(name: string): (FileNumber & { readonly isGrowing: boolean }) | null {
  const match = pattern.exec(name);
  return match === null
    ? null
    : { epoch: Number(match[1]), number: Number(match[2]), isGrowing: match[3] !== undefined };
}

export function entityDirectory(directory: string, connector: ConnectorName, entity: EntityName): string {
  return join(directory, connector, entity);
}

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
  /** SHA-256 of the committed bytes, in hex; null of what an earlier version has closed: nothing proves today that it is still what was written. */
  readonly hash: string | null;
}

type FileKey = [string, string, number, number];

/** As `ListedFile` has them; versions before 5 have no column for the hash. */
export function listedColumns(hash: 'hash' | 'NULL'): string {
  return `entity, epoch, number, length, first_seq AS firstSeq, last_seq AS lastSeq, is_closed AS isClosed, ${hash} AS hash`;
}

export type FileList = ReturnType<typeof prepareFileList>;

/** `_sync_files`: every change file, with its committed length; `is_closed` 2 says that the file is to be removed. */
export function prepareFileList(db: Database.Database) {
  const byKey = 'WHERE connector = ? AND entity = ? AND epoch = ? AND number = ?';
  const all = db.prepare<[string], ListedFile>(
    `SELECT ${listedColumns('hash')} FROM _sync_files WHERE connector = ? AND is_closed < 2`,
  );
  const grow = db.prepare<[...FileKey, number, number, number, string | null]>(
    `INSERT INTO _sync_files (connector, entity, epoch, number, length, first_seq, last_seq, hash, is_closed)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)
     ON CONFLICT (connector, entity, epoch, number) DO UPDATE SET
       length = excluded.length, last_seq = excluded.last_seq, hash = excluded.hash`,
  );
  const cut = db.prepare<[number, number, string | null, ...FileKey]>(
    `UPDATE _sync_files SET length = ?, last_seq = ?, hash = ? ${byKey}`,
  );
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
    all: (connector: ConnectorName): readonly ListedFile[] => all.all(connector),
    grow: (
      owner: FileOwner,
      file: FileNumber,
      size: Pick<ListedFile, 'length' | 'firstSeq' | 'lastSeq' | 'hash'>,
    ): void => void grow.run(...key(owner, file), size.length, size.firstSeq, size.lastSeq, size.hash),
    cut: (owner: FileOwner, file: FileNumber, kept: Pick<ListedFile, 'length' | 'lastSeq' | 'hash'>): void =>
      void cut.run(kept.length, kept.lastSeq, kept.hash, ...key(owner, file)),
    close: (owner: FileOwner, file: FileNumber): void => void close.run(...key(owner, file)),
    drop: (owner: FileOwner, file: FileNumber): void => void drop.run(...key(owner, file)),
    /** The entity's records are dropped: its files are no part of the sink any more, and are to be removed. */
    doom: ({ connector, entity }: FileOwner): void => void doom.run(connector, entity),
    doomed: (connector: ConnectorName): readonly (FileNumber & { readonly entity: EntityName })[] =>
      doomed.all(connector),
  };
}
