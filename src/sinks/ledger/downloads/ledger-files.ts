import type { EntityName } from '../../../core/names.ts';
import type { InLease } from '../ledger.ts';
import type { FileFailure, LeftFiles, ReplacedFile, StoredFile, WantedFile } from '../../files.ts';
import { writeJson } from '../../../core/json-text.ts';
import { parseParams } from '../../stored-json.ts';

/**
 * `_sync_downloads`: the files of records, one row per record that has or had one, found by the hash of its key, which
 * may be long. `params` to `size` is what its record says, `version` 32 hex digits; `gone`: `tombstoned` as its record
 * is, or `unsaid` where the record no longer names a file; `is_wanted`: `gone` is null, and `stored_version` is another
 * one than `version`. `file` to `stored_run` is what the folder has; `stored_version` is null again as soon as another
 * version is wanted. `replaced`: a name to be removed, which an earlier version had.
 */
export const downloadsSql = `
CREATE TABLE _sync_downloads (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  key TEXT NOT NULL,
  key_hash BYTEA NOT NULL,
  params TEXT NOT NULL,
  version TEXT NOT NULL,
  name TEXT,
  content_type TEXT,
  size BIGINT,
  gone TEXT,
  is_wanted INTEGER NOT NULL,
  file TEXT,
  bytes BIGINT,
  sha256 TEXT,
  stored_type TEXT,
  stored_version TEXT,
  stored_at TEXT,
  stored_run TEXT,
  replaced TEXT,
  failure TEXT,
  failed_at TEXT,
  failed_run TEXT,
  UNIQUE (connector, entity, key_hash)
);
CREATE INDEX _sync_downloads_wanted ON _sync_downloads (connector, entity, failed_at NULLS FIRST, id) WHERE is_wanted = 1;
CREATE INDEX _sync_downloads_replaced ON _sync_downloads (connector) WHERE replaced IS NOT NULL;
`;

/**
 * The account of records' files. That a file is wanted is noted with its record, whether files are fetched or not; a
 * tombstoned record's file is no longer wanted, and what is stored stays. Every call may be repeated after a kill.
 */
export function ledgerFiles(inLease: InLease) {
  return {
    /**
     * Up to `limit` wanted files of the entity: those never tried before those that failed longest ago. Not those that
     * failed in this run.
     */
    next: inLease(async ({ held: { connector }, stamp: { run }, tx }, entity: EntityName, limit: number) => {
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
     * The file is durable in the connector's folder. What the record's earlier version left under another name is noted
     * as replaced.
     */
    stored: inLease(
      async (
        { held: { connector }, stamp: { run, now }, tx },
        { id, version }: WantedFile,
        file: StoredFile,
      ) => {
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
    /** It stays wanted, for a later run. */
    setAside: inLease(
      async (
        { held: { connector }, stamp: { run }, tx },
        { id, version }: WantedFile,
        failure: FileFailure,
      ) => {
        await tx.run(
          `UPDATE _sync_downloads SET failure = :failure, failed_at = :failedAt, failed_run = :run
           WHERE connector = :connector AND id = :id AND version = :version AND is_wanted = 1`,
          { connector, id, version, run, failedAt: failure.at, failure: writeJson(failure) },
        );
      },
    ),
    /** How many files of each of these entities are wanted still; those of none are left out. */
    left: inLease(
      async ({ held: { connector }, tx }, entities: readonly EntityName[]) =>
        await tx.rows<LeftFiles>(
          `SELECT entity, count(*) AS files FROM _sync_downloads
             WHERE connector = :connector AND entity IN {entities text} AND is_wanted = 1 GROUP BY entity ORDER BY entity`,
          { connector, entities },
        ),
    ),
    /** Up to `limit` files that another version of them has replaced, and that are to be removed. */
    replaced: inLease(
      async ({ held: { connector }, tx }, limit: number) =>
        await tx.rows<ReplacedFile>(
          `SELECT id, entity, replaced AS file, file AS current FROM _sync_downloads
             WHERE connector = :connector AND replaced IS NOT NULL ORDER BY id LIMIT :limit`,
          { connector, limit },
        ),
    ),
    removed: inLease(async ({ held: { connector }, tx }, files: readonly ReplacedFile[]) => {
      await tx.run(
        `UPDATE _sync_downloads AS d SET replaced = NULL FROM {removed: id bigint, file text}
           WHERE d.connector = :connector AND d.id = removed.id AND d.replaced = removed.file`,
        { connector, removed: files },
      );
    }),
    /**
     * Those of the names that belong to no file of the entity, stored or replaced: a killed run wrote them and noted
     * nothing.
     */
    unknown: inLease(async ({ held: { connector }, tx }, entity: EntityName, files: readonly string[]) => {
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
