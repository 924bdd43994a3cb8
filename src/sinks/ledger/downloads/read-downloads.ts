import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { FailedFile, FileStatus } from '../../ledger-reader.ts';
import { parseFileFailure, parseParams } from '../../stored-json.ts';
import { versionOf } from '../read-operations.ts';

export interface EntityFiles extends FileStatus {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
}

/** Versions before it know of no files. */
const firstWithFiles = 4;

/** Of all connectors, or of one. */
export function readFileStatus(
  db: Database.Database,
  connector: ConnectorName | null,
): readonly EntityFiles[] {
  if (versionOf(db) < firstWithFiles) return [];
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
  if (versionOf(db) < firstWithFiles) return [];
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
