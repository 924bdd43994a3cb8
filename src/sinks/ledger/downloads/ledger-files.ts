import { writeJson } from '../../../core/json.ts';
import type { EntityName, OfEntity } from '../../../core/names.ts';
import type { RecordFile } from '../../../core/records.ts';
import { type Tx, textHash } from '../../../sql/database.ts';
import type { FileFailure, LeftFiles, ReplacedFile, StoredFile, WantedFile } from '../../files.ts';
import { parseParams } from '../../stored-json.ts';
import type { InLease } from '../ledger.ts';

/**
 * The account of records' files. A wanted file is noted with its record, whether files are fetched or not; the file of
 * a tombstoned record is no longer wanted, and its stored file stays. Every call may be repeated after a kill.
 */
export function ledgerFiles(inLease: InLease) {
  return {
    /**
     * Returns up to `limit` wanted files of the entity, first those never tried, then those that failed longest ago.
     * Leaves out files that failed in this run.
     */
    next: inLease(async ({ connector, stamp: { run }, tx }, entity: EntityName, limit: number) => {
      const wanted = await tx.rows<WantedRow>(
        `SELECT id, entity, key AS key_text, params, version, name, content_type, size
           FROM _sync_downloads {index _sync_downloads_wanted}
           WHERE connector = :connector AND entity = :entity AND is_wanted = 1 AND failed_run IS DISTINCT FROM :run
           ORDER BY failed_at NULLS FIRST, id LIMIT :limit`,
        { connector, entity, run, limit },
      );
      return wanted.map(({ params, ...row }): WantedFile => ({ ...row, params: parseParams(params) }));
    }),
    /**
     * Notes a file that is durable in the connector's folder. A file of the record's earlier version under another name
     * is noted as replaced.
     */
    stored: inLease(
      async ({ connector, stamp: { run, now }, tx }, { id, version }: WantedFile, file: StoredFile) => {
        await tx.run(
          `UPDATE _sync_downloads SET replaced = CASE WHEN file <> :file THEN file ELSE nullif(replaced, :file) END, file = :file,
             bytes = :bytes, sha256 = :sha256, stored_type = :contentType, stored_version = :version, stored_at = :now,
             stored_run = :run, is_wanted = CASE WHEN gone IS NULL AND version <> :version THEN 1 ELSE 0 END, failure = NULL,
             failed_at = NULL, failed_run = NULL
           WHERE connector = :connector AND id = :id`,
          { ...file, connector, id, version, run, now },
        );
      },
    ),
    /** Sets a file aside; it stays wanted, for a later run. */
    setAside: inLease(
      async ({ connector, stamp: { run }, tx }, { id, version }: WantedFile, failure: FileFailure) => {
        await tx.run(
          `UPDATE _sync_downloads SET failure = :failure, failed_at = :failedAt, failed_run = :run
           WHERE connector = :connector AND id = :id AND version = :version AND is_wanted = 1`,
          { connector, id, version, run, failedAt: failure.at, failure: writeJson(failure) },
        );
      },
    ),
    /** Number of files of each of these entities that are still wanted; entities without any are left out. */
    left: inLease(({ connector, tx }, entities: readonly EntityName[]) =>
      tx.rows<LeftFiles>(
        `SELECT entity, count(*) AS files FROM _sync_downloads
             WHERE connector = :connector AND entity IN {entities text} AND is_wanted = 1 GROUP BY entity ORDER BY entity`,
        { connector, entities },
      ),
    ),
    /** Returns up to `limit` files that another version has replaced, to be removed. */
    replaced: inLease(({ connector, tx }, limit: number) =>
      tx.rows<ReplacedFile>(
        `SELECT id, entity, replaced AS file, file AS current FROM _sync_downloads
             WHERE connector = :connector AND replaced IS NOT NULL ORDER BY id LIMIT :limit`,
        { connector, limit },
      ),
    ),
    removed: inLease(async ({ connector, tx }, files: readonly ReplacedFile[]) => {
      await tx.run(
        `UPDATE _sync_downloads AS d SET replaced = NULL FROM {removed: id bigint, file text}
           WHERE d.connector = :connector AND d.id = removed.id AND d.replaced = removed.file`,
        { connector, removed: files },
      );
    }),
    /** Names that belong to no file of the entity, stored or replaced: a killed run wrote them and noted nothing. */
    unknown: inLease(async ({ connector, tx }, entity: EntityName, files: readonly string[]) => {
      const known = await tx.rows<{ file: string | null; replaced: string | null }>(
        `SELECT file, replaced FROM _sync_downloads WHERE connector = :connector AND entity = :entity
             AND (file IN {files text} OR replaced IN {files text})`,
        { connector, entity, files },
      );
      const names = new Set(known.flatMap(({ file, replaced }) => [file, replaced]));
      return files.filter((file) => !names.has(file));
    }),
  };
}

interface WantedRow extends Omit<WantedFile, 'params'> {
  readonly params: string;
}

/* Wanted files, noted in the transaction that stores or tombstones their records. */

export interface FileNote {
  readonly keyText: string;
  /** File that the record describes; null: it has none. */
  readonly file: RecordFile | null;
}

type Told = ReturnType<typeof toldOf>;

interface Noted extends Omit<Told, 'keyText'> {
  readonly gone: string | null;
}

const ofKeys = 'd.connector = :connector AND d.entity = :entity AND d.key_hash IN {keyHashes bytea}';
const isNoMore = 'is_wanted = 0, failure = NULL, failed_at = NULL, failed_run = NULL';

/** Notes the files of stored records. The last note of a key counts. Writes only changes. */
export async function noteFiles(tx: Tx, of: OfEntity, given: readonly FileNote[]): Promise<void> {
  const notes = [...new Map(given.map((note) => [note.keyText, note])).values()];
  const without = notes.filter(({ file }) => file === null);
  if (without.length > 0) {
    await tx.run(
      `UPDATE _sync_downloads AS d SET gone = 'unsaid', ${isNoMore}
       WHERE ${ofKeys} AND d.gone IS DISTINCT FROM 'unsaid'`,
      { ...of, keyHashes: without.map(({ keyText }) => textHash(keyText)) },
    );
  }
  const told = notes.flatMap(({ keyText, file }) => (file === null ? [] : [toldOf(keyText, file)]));
  if (told.length === 0) return;
  const keyHashes = told.map(({ keyHash }) => keyHash);
  const known = await tx.rows<Noted>(
    `SELECT d.key_hash, d.params, d.version, d.name, d.content_type, d.size, d.gone FROM _sync_downloads AS d WHERE ${ofKeys}`,
    { ...of, keyHashes },
  );
  const before = new Map(known.map((one) => [one.keyHash.toString('hex'), one]));
  const changed = told.filter((one) => {
    const stored = before.get(one.keyHash.toString('hex'));
    return stored === undefined || stored.gone !== null || !isSame(stored, one);
  });
  if (changed.length > 0) await write(tx, of, changed);
}

function toldOf(keyText: string, { params, version, name, contentType, size }: RecordFile) {
  return { keyText, keyHash: textHash(keyText), params: writeJson(params), version, name, contentType, size };
}

function isSame(before: Noted, told: Told): boolean {
  const names = ['version', 'params', 'name', 'contentType', 'size'] as const;
  return names.every((name) => before[name] === told[name]);
}

/**
 * Another version has not failed yet. Once it is wanted, its bytes may be under the stored one's name, if a killed run
 * noted nothing of them.
 */
async function write(tx: Tx, of: OfEntity, told: readonly Told[]): Promise<void> {
  const ifSame = (column: string): string =>
    `${column} = CASE WHEN d.version = excluded.version THEN d.${column} END`;
  await tx.run(
    `INSERT INTO _sync_downloads AS d (connector, entity, key, key_hash, params, version, name, content_type, size, is_wanted)
     SELECT CAST(:connector AS text), CAST(:entity AS text), told.key_text, told.key_hash, told.params, told.version, told.name,
       told.content_type, told.size, 1
     FROM {told: key_text text, key_hash bytea, params text, version text, name text, content_type text, size bigint, n}
     ORDER BY told.n
     ON CONFLICT (connector, entity, key_hash) DO UPDATE SET params = excluded.params, name = excluded.name,
       content_type = excluded.content_type, size = excluded.size, gone = NULL,
       is_wanted = CASE WHEN d.stored_version IS DISTINCT FROM excluded.version THEN 1 ELSE 0 END,
       stored_version = CASE WHEN d.stored_version = excluded.version THEN d.stored_version END,
       ${['failure', 'failed_at', 'failed_run'].map(ifSame).join(', ')}, version = excluded.version`,
    { ...of, told },
  );
}

/** The records are tombstoned. */
export async function endFiles(tx: Tx, of: OfEntity, keyTexts: readonly string[]): Promise<void> {
  await tx.run(
    `UPDATE _sync_downloads AS d SET gone = 'tombstoned', ${isNoMore} WHERE ${ofKeys} AND d.gone IS NULL`,
    { ...of, keyHashes: keyTexts.map(textHash) },
  );
}

/** Their tombstones are taken back. */
export async function beginFiles(tx: Tx, of: OfEntity, keyTexts: readonly string[]): Promise<void> {
  await tx.run(
    `UPDATE _sync_downloads AS d SET gone = NULL,
       is_wanted = CASE WHEN d.stored_version IS DISTINCT FROM d.version THEN 1 ELSE 0 END
     WHERE ${ofKeys} AND d.gone = 'tombstoned'`,
    { ...of, keyHashes: keyTexts.map(textHash) },
  );
}
