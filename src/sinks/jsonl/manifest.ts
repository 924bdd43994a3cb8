import { hash } from 'node:crypto';
import { statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { hasCode } from '../../files/private-file.ts';
import type { Tx } from '../../sql/database.ts';
import type { DamagedFile, CheckedFiles, ClosedFiles, ComparedContents } from '../closed-files.ts';
import { type LedgerFormat, toSinkError } from '../sqlite/open-database.ts';
import { sqliteMigrations, tablesSql } from '../sqlite/schema.ts';
import { explained } from '../../sql/explained.ts';
import { openToRead } from '../sqlite/readers.ts';

/**
 * The manifest: a row for each file of lines. A file has the lines of changes from `first_seq`, which is its name, up
 * to `last_seq`; changes above the highest `last_seq` of an entity are in no file yet. A file with `is_dropped` is to
 * be removed.
 */
const filesSql = `
CREATE TABLE _sync_files (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  length INTEGER NOT NULL,
  hash TEXT NOT NULL,
  is_dropped INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (connector, entity, first_seq)
) STRICT, WITHOUT ROWID;
`;

/** The ledger of a JSONL sink. Version 1 listed files that grew. */
export const jsonlFormat: LedgerFormat = {
  kind: 'jsonl',
  sql: `${tablesSql}${filesSql}`,
  firstVersion: 2,
  migrations: sqliteMigrations,
};

export interface ListedFile {
  readonly entity: EntityName;
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** In bytes. */
  readonly length: number;
  /** SHA-256, in hex. */
  readonly hash: string;
}

export interface KnownFile extends ListedFile {
  readonly isDropped: boolean;
}

/** Its name sorts as its lines do: by their change numbers. */
export function closedName({ firstSeq }: Pick<ListedFile, 'firstSeq'>): string {
  return `${String(firstSeq).padStart(12, '0')}.jsonl`;
}

/** The name of a whole file until the manifest has it, and of one that is being written. */
export const temporaryEndings = { whole: '.next', partial: '.part' } as const;
/** The ending of a file that no row knows: its ledger was lost, or replaced by an older one. */
export const unlistedEnding = '.unlisted';

/**
 * Names of this sink: `closed` is the name that the file has, or is to have. Null for another name: files of other
 * programs are not touched.
 */
export function readFileName(name: string): { readonly closed: string; readonly ending: string } | null {
  const [, closed, ending = ''] = /^(\d{12,16}\.jsonl)(\.next|\.part|\.unlisted)?$/.exec(name) ?? [];
  return closed === undefined ? null : { closed, ending };
}

export function entityDirectory(directory: string, connector: ConnectorName, entity: EntityName): string {
  return join(directory, connector, entity);
}

export async function knownFiles(tx: Tx, connector: ConnectorName): Promise<readonly KnownFile[]> {
  return await tx.rows<KnownFile>(
    `SELECT entity, first_seq, last_seq, length, hash, is_dropped FROM _sync_files
     WHERE connector = :connector ORDER BY entity, first_seq`,
    { connector },
  );
}

/** Files that are part of the sink, in the order of their lines. */
export async function listedFiles(tx: Tx, connector: ConnectorName): Promise<readonly ListedFile[]> {
  return (await knownFiles(tx, connector)).filter(({ isDropped }) => !isDropped);
}

/** Lists a file, or what it holds since it was written again. */
export function listFile(tx: Tx, connector: ConnectorName, file: ListedFile): void {
  tx.put(
    `INSERT INTO _sync_files (connector, entity, first_seq, last_seq, length, hash)
     VALUES (:connector, :entity, :firstSeq, :lastSeq, :length, :hash)
     ON CONFLICT (connector, entity, first_seq) DO UPDATE SET
       last_seq = excluded.last_seq, length = excluded.length, hash = excluded.hash, is_dropped = 0`,
    { ...file, connector },
  );
}

/* A file against what the manifest says of it. */

/**
 * Between the commit that lists a file and its renaming, the file has its temporary name; another process may rename it
 * between the attempts.
 */
function pathsOf(directory: string, file: ListedFile): readonly [string, ...string[]] {
  const closed = join(directory, closedName(file));
  return [closed, `${closed}${temporaryEndings.whole}`, closed];
}

function sizeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.size ?? null;
}

/** For a file that does not hold what it should. */
export function damageOf(directory: string, file: ListedFile): DamagedFile {
  const [path] = pathsOf(directory, file);
  return { entity: file.entity, path, length: file.length, found: sizeOf(path) };
}

/** By its length alone; null where it is the right one. `directory`: of the file's entity. */
export function findWrongLength(directory: string, file: ListedFile): DamagedFile | null {
  const isThere = pathsOf(directory, file).some((path) => sizeOf(path) === file.length);
  return isThere ? null : damageOf(directory, file);
}

/** By its hash. */
export async function findOtherContent(directory: string, file: ListedFile): Promise<DamagedFile | null> {
  return (await readListed(directory, file)) === null ? damageOf(directory, file) : null;
}

/** All that a file holds; null where that is not what the manifest says. */
export async function readListed(directory: string, file: ListedFile): Promise<Buffer | null> {
  for (const path of pathsOf(directory, file)) {
    if (sizeOf(path) !== file.length) continue;
    const bytes = await readFile(path).catch((error: unknown) => {
      if (hasCode(error, 'ENOENT')) return null;
      throw error;
    });
    if (bytes !== null && hash('sha256', bytes, 'hex') === file.hash) return bytes;
  }
  return null;
}

/**
 * The files that a JSONL sink has closed: what the manifest says of them, against what lies in `directory`. Read only,
 * without a lease, beside a process that writes. Throws when there is no sink yet.
 */
export function openJsonlClosedFiles(directory: string, ledger: string): ClosedFiles {
  const { db } = openToRead({ file: ledger, format: jsonlFormat });

  const list = async (connector: ConnectorName): Promise<readonly ListedFile[]> =>
    await db.read(async (tx) => await listedFiles(tx, connector));

  const check = async (
    connector: ConnectorName,
    how: ComparedContents | undefined,
  ): Promise<CheckedFiles> => {
    const files = await list(connector);
    const found: { readonly file: ListedFile; readonly damage: DamagedFile }[] = [];
    const allBytes = files.reduce((sum, { length }) => sum + length, 0);
    let bytes = 0;
    for (const [index, file] of files.entries()) {
      how?.signal.throwIfAborted();
      const folder = entityDirectory(directory, connector, file.entity);
      const damage = await (how === undefined ? findWrongLength : findOtherContent)(folder, file);
      if (damage !== null) found.push({ file, damage });
      bytes += file.length;
      how?.onProgress({ files: index + 1, allFiles: files.length, bytes, allBytes });
    }
    // Without the files that another process has removed or written again since they were listed.
    const now = found.length === 0 ? new Set() : new Set((await list(connector)).map(identityOf));
    const damaged = found.filter(({ file }) => now.has(identityOf(file))).map(({ damage }) => damage);
    return { files: files.length, damaged };
  };

  return {
    check: async (connector, how) =>
      await explained(
        (error) => (how?.signal.aborted === true ? error : toSinkError(error, ledger)),
        async () => await check(connector, how),
      ),
    [Symbol.asyncDispose]: async () => await db[Symbol.asyncDispose](),
  };
}

function identityOf({ entity, firstSeq, length, hash }: ListedFile): string {
  return JSON.stringify([entity, firstSeq, length, hash]);
}
