import { join } from 'node:path';
import type { ConnectorName, EntityName, OfEntity } from '../../core/names.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';

/**
 * Every change file with its committed length. `is_closed` 2 says that the file is to be removed; `is_partial`: it
 * stands in for lines that were damaged, and has only the newest one of each key.
 */
export const filesSql = `
CREATE TABLE _sync_files (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  number INTEGER NOT NULL,
  length INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  is_closed INTEGER NOT NULL,
  hash TEXT,
  is_partial INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (connector, entity, epoch, number)
) STRICT, WITHOUT ROWID;
`;

/** `<epoch>-<number>.jsonl`, with `.open` appended while it grows. No two epochs share a file. */
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

/** Null for a name that this sink never gives, so that files of other programs are not touched. */
export function readFileName(name: string): (FileNumber & { readonly isGrowing: boolean }) | null {
  const match = pattern.exec(name);
  return match === null
    ? null
    : { epoch: Number(match[1]), number: Number(match[2]), isGrowing: match[3] !== undefined };
}

export function entityDirectory(directory: string, connector: ConnectorName, entity: EntityName): string {
  return join(directory, connector, entity);
}

export interface ListedFile extends FileNumber {
  readonly entity: EntityName;
  /** Bytes that are committed; what follows them was never acknowledged. */
  readonly length: number;
  /** The lowest and highest change number of the committed lines. */
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly isClosed: number;
  /**
   * SHA-256 of the committed bytes, in hex; null of what an earlier version has closed: nothing proves that it is still
   * what was written.
   */
  readonly hash: string | null;
  /** It stands in for lines that were damaged: of those that a key had, only the newest is here. */
  readonly isPartial: number;
}

type GrownTo = Pick<ListedFile, 'length' | 'firstSeq' | 'lastSeq' | 'hash' | 'isPartial'>;
type CutTo = Pick<ListedFile, 'length' | 'lastSeq' | 'hash'>;

const columns = `entity, epoch, number, length, first_seq AS firstSeq, last_seq AS lastSeq, is_closed AS isClosed, hash,
  is_partial AS isPartial`;

/** Files that are closed, for a connection that may only read. */
export function listClosedFiles(db: Connection, connector: ConnectorName): readonly ListedFile[] {
  // An older version's list has no such column, until another process migrates it.
  const isOlder =
    db.prepare("SELECT 1 FROM pragma_table_info('_sync_files') WHERE name = 'is_partial'").get() ===
    undefined;
  return db
    .prepare<[string], ListedFile>(
      `SELECT ${isOlder ? columns.replace('is_partial', '0') : columns} FROM _sync_files
       WHERE connector = ? AND is_closed = 1 ORDER BY entity, epoch, number`,
    )
    .all(connector);
}

export type FileList = ReturnType<typeof prepareFileList>;

/** The list for the connection that writes, inside its transactions. */
export function prepareFileList(db: Connection) {
  const byKey = 'WHERE connector = @connector AND entity = @entity AND epoch = @epoch AND number = @number';
  const all = db.prepare<[string], ListedFile>(
    `SELECT ${columns} FROM _sync_files WHERE connector = ? AND is_closed < 2 ORDER BY first_seq`,
  );
  const doomed = db.prepare<[string], FileNumber & { readonly entity: EntityName }>(
    'SELECT entity, epoch, number FROM _sync_files WHERE connector = ? AND is_closed = 2',
  );
  const lastNumber = db
    .prepare<[string, string, number], number | null>(
      'SELECT max(number) FROM _sync_files WHERE connector = ? AND entity = ? AND epoch = ?',
    )
    .pluck();
  const doom = db.prepare<[OfEntity]>(
    'UPDATE _sync_files SET is_closed = 2 WHERE connector = @connector AND entity = @entity',
  );
  /** Of one file; `more`: other values of the statement. */
  const ofFile = (sql: string) => {
    const statement = db.prepare<[OfEntity & FileNumber]>(sql);
    return ({ connector, entity }: OfEntity, { epoch, number }: FileNumber, more: object = {}): void =>
      void statement.run({ ...more, connector, entity, epoch, number });
  };
  const grow: (owner: OfEntity, file: FileNumber, grown: GrownTo) => void = ofFile(
    `INSERT INTO _sync_files (connector, entity, epoch, number, length, first_seq, last_seq, hash, is_partial, is_closed)
     VALUES (@connector, @entity, @epoch, @number, @length, @firstSeq, @lastSeq, @hash, @isPartial, 0)
     ON CONFLICT (connector, entity, epoch, number) DO UPDATE SET
       length = excluded.length, first_seq = min(first_seq, excluded.first_seq),
       last_seq = max(last_seq, excluded.last_seq), hash = excluded.hash`,
  );
  const cut: (owner: OfEntity, file: FileNumber, to: CutTo) => void = ofFile(
    `UPDATE _sync_files SET length = @length, last_seq = @lastSeq, hash = @hash ${byKey}`,
  );
  return {
    all: (connector: ConnectorName) => all.all(connector),
    lastNumber: ({ connector, entity }: OfEntity, epoch: number) =>
      lastNumber.get(connector, entity, epoch) ?? 0,
    grow,
    cut,
    close: ofFile(`UPDATE _sync_files SET is_closed = 1 ${byKey}`),
    drop: ofFile(`DELETE FROM _sync_files ${byKey}`),
    /** The same of one file. */
    doomOne: ofFile(`UPDATE _sync_files SET is_closed = 2 ${byKey}`),
    /** The entity's records are dropped: its files are no part of the sink from now on, and are to be removed. */
    doom: (owner: OfEntity): void => void doom.run(owner),
    doomed: (connector: ConnectorName) => doomed.all(connector),
  };
}
