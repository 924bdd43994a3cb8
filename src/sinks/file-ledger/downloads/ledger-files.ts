import type Database from 'better-sqlite3';
import type { EntityName, RunId } from '../../../core/names.ts';
import type { Files, LeftFiles, ReplacedFile, StoredFile, WantedFile } from '../../files.ts';
import { writeJson } from '../../../core/json-text.ts';
import { parseParams } from '../../stored-json.ts';
import type { Ledger } from '../ledger.ts';
import type { InLease } from '../transact.ts';

export function ledgerFiles(ledger: Ledger, inLease: InLease): Files {
  const rows = prepareDownloadRows(ledger.db);
  return {
    next: async (lease, run, entity, limit) =>
      inLease(lease, run, ({ held: { connector } }) =>
        rows.next
          .all({ connector, entity, run, limit })
          .map(({ params, ...wanted }) => ({ ...wanted, params: parseParams(params) })),
      ),
    stored: async (lease, run, { id, version }, file) =>
      inLease(lease, run, ({ held: { connector }, stamp: { now } }) => {
        rows.stored.run({ ...file, connector, id, version, run, now });
      }),
    setAside: async (lease, run, { id, version }, failure) =>
      inLease(lease, run, ({ held: { connector } }) => {
        rows.failed.run({ connector, id, version, run, at: failure.at, failure: writeJson(failure) });
      }),
    left: async (lease, run, entities) =>
      inLease(lease, run, ({ held }) => rows.left.all(held.connector, JSON.stringify(entities))),
    replaced: async (lease, run, limit) =>
      inLease(lease, run, ({ held }) => rows.replaced.all(held.connector, limit)),
    removed: async (lease, run, files) =>
      inLease(lease, run, ({ held }) => {
        for (const { id, file } of files) rows.removed.run(held.connector, id, file);
      }),
    unknown: async (lease, run, entity, files) =>
      inLease(lease, run, ({ held }) => rows.unknown.all(JSON.stringify(files), held.connector, entity)),
  };
}

interface Outcome {
  readonly connector: string;
  readonly id: number;
  readonly version: string;
  readonly run: RunId;
}

function prepareDownloadRows(db: Database.Database) {
  return {
    next: db.prepare<
      { connector: string; entity: EntityName; run: RunId; limit: number },
      Omit<WantedFile, 'params'> & { readonly params: string }
    >(
      `SELECT id, entity, key AS keyText, params, version, name, content_type AS contentType, size
       FROM _sync_downloads INDEXED BY _sync_downloads_wanted
       WHERE connector = :connector AND entity = :entity AND is_wanted = 1 AND failed_run IS NOT :run
       ORDER BY failed_at, id LIMIT :limit`,
    ),
    stored: db.prepare<Outcome & StoredFile & { readonly now: string }>(
      `UPDATE _sync_downloads SET replaced = iif(file <> :file, file, nullif(replaced, :file)), file = :file, bytes = :bytes, sha256 = :sha256,
         stored_type = :contentType, stored_version = :version, stored_at = :now, stored_run = :run,
         is_wanted = gone IS NULL AND version <> :version, failure = NULL, failed_at = NULL, failed_run = NULL
       WHERE connector = :connector AND id = :id`,
    ),
    failed: db.prepare<Outcome & { readonly failure: string; readonly at: string }>(
      `UPDATE _sync_downloads SET failure = :failure, failed_at = :at, failed_run = :run
       WHERE connector = :connector AND id = :id AND version = :version AND is_wanted = 1`,
    ),
    left: db.prepare<[string, string], LeftFiles>(
      `SELECT entity, count(*) AS files FROM _sync_downloads
       WHERE connector = ? AND entity IN (SELECT value FROM json_each(?)) AND is_wanted = 1 GROUP BY entity`,
    ),
    replaced: db.prepare<[string, number], ReplacedFile>(
      `SELECT id, entity, replaced AS file, file AS current FROM _sync_downloads
       WHERE connector = ? AND replaced IS NOT NULL ORDER BY id LIMIT ?`,
    ),
    unknown: db
      .prepare<[string, string, EntityName], string>(
        `SELECT value FROM json_each(?) AS named WHERE NOT EXISTS (
           SELECT 1 FROM _sync_downloads WHERE connector = ? AND entity = ? AND (file = named.value OR replaced = named.value))`,
      )
      .pluck(),
    removed: db.prepare<[string, number, string]>(
      'UPDATE _sync_downloads SET replaced = NULL WHERE connector = ? AND id = ? AND replaced = ?',
    ),
  };
}
