import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { RecordFile } from '../../../core/records.ts';
import type { FailedFile, FileStatus } from '../../ledger-reader.ts';
import { parseFileFailure, parseParams } from '../../stored-json.ts';
import { has } from '../read-runs.ts';
import { writeJson } from '../../../core/json-text.ts';

interface Noted {
  readonly params: string;
  readonly version: string;
  readonly name: string | null;
  readonly contentType: string | null;
  readonly size: number | null;
  readonly gone: string | null;
}

interface Written extends Omit<Noted, 'gone'> {
  readonly connector: string;
  readonly entity: string;
  readonly keyText: string;
}

/** Which files are wanted, noted in the transaction that stores or tombstones their records. */
export function prepareDownloadNotes(db: Database.Database) {
  const ofRecord = 'connector = ? AND entity = ? AND key = ?';
  const known = db.prepare<[string, string, string], Noted>(
    `SELECT params, version, name, content_type AS contentType, size, gone
     FROM _sync_downloads WHERE ${ofRecord}`,
  );
  // Another version has not failed yet. Once it is wanted its bytes may lie under the stored one's name, of which a killed run has noted nothing.
  const write = db.prepare<Written>(
    `INSERT INTO _sync_downloads (connector, entity, key, params, version, name, content_type, size, is_wanted)
     VALUES (:connector, :entity, :keyText, :params, :version, :name, :contentType, :size, 1)
     ON CONFLICT (connector, entity, key) DO UPDATE SET params = excluded.params, name = excluded.name,
       content_type = excluded.content_type, size = excluded.size, gone = NULL,
       is_wanted = stored_version IS NOT excluded.version,
       stored_version = iif(stored_version = excluded.version, stored_version, NULL),
       failure = iif(version = excluded.version, failure, NULL),
       failed_at = iif(version = excluded.version, failed_at, NULL),
       failed_run = iif(version = excluded.version, failed_run, NULL), version = excluded.version`,
  );
  const isNoMore = 'is_wanted = 0, failure = NULL, failed_at = NULL, failed_run = NULL';
  const leave = db.prepare<[string, string, string]>(
    `UPDATE _sync_downloads SET gone = 'unsaid', ${isNoMore} WHERE ${ofRecord} AND gone IS NOT 'unsaid'`,
  );
  const end = db.prepare<[string, string, string]>(
    `UPDATE _sync_downloads SET gone = 'tombstoned', ${isNoMore} WHERE ${ofRecord} AND gone IS NULL`,
  );
  const begin = db.prepare<[string, string, string]>(
    `UPDATE _sync_downloads SET gone = NULL, is_wanted = stored_version IS NOT version
     WHERE ${ofRecord} AND gone = 'tombstoned'`,
  );
  return {
    /** The record is stored, and says this of its file (null: it has none). Writes nothing where that is known. */
    note: (connector: ConnectorName, entity: EntityName, keyText: string, file: RecordFile | null): void => {
      if (file === null) {
        leave.run(connector, entity, keyText);
        return;
      }
      const { version, name, contentType, size } = file;
      const told = { params: writeJson(file.params), version, name, contentType, size };
      const before = known.get(connector, entity, keyText);
      if (before !== undefined && before.gone === null && isSame(before, told)) return;
      write.run({ connector, entity, keyText, ...told });
    },
    end: (connector: ConnectorName, entity: EntityName, keyText: string): void =>
      void end.run(connector, entity, keyText),
    begin: (connector: ConnectorName, entity: EntityName, keyText: string): void =>
      void begin.run(connector, entity, keyText),
  };
}

function isSame(before: Noted, told: Omit<Noted, 'gone'>): boolean {
  const names = ['version', 'params', 'name', 'contentType', 'size'] as const;
  return names.every((name) => before[name] === told[name]);
}

export interface EntityFiles extends FileStatus {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
}

export function readFileStatus(
  db: Database.Database,
  connector: ConnectorName | null,
): readonly EntityFiles[] {
  if (!has(db, 'files')) return [];
  return db
    .prepare<Readonly<Record<'connector', ConnectorName | null>>, EntityFiles>(
      `SELECT connector, entity, count(file) AS stored, coalesce(sum(bytes), 0) AS bytes,
         sum(is_wanted) AS wanted, sum(is_wanted = 1 AND failure IS NOT NULL) AS failed
       FROM _sync_downloads ${connector === null ? 'WHERE :connector IS NULL' : 'WHERE connector = :connector'} GROUP BY connector, entity`,
    )
    .all({ connector });
}

export function readFileFailures(
  db: Database.Database,
  connector: ConnectorName,
  limit: number,
): readonly FailedFile[] {
  if (!has(db, 'files')) return [];
  return db
    .prepare<[ConnectorName, number], FailedRow>(
      `SELECT entity, params, failure FROM _sync_downloads
       WHERE connector = ? AND is_wanted = 1 AND failure IS NOT NULL ORDER BY failed_at DESC, id LIMIT ?`,
    )
    .all(connector, limit)
    .map(({ entity, params, failure }) => ({
      entity,
      params: parseParams(params),
      failure: parseFileFailure(failure),
    }));
}

interface FailedRow {
  readonly entity: EntityName;
  readonly params: string;
  readonly failure: string;
}
