import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../../core/names.ts';
import { mergeDrift, type SeenDrift } from '../../decisions/drift-columns.ts';
import type { DriftRow } from '../../drift.ts';
import { versionOf } from '../read-operations.ts';

interface DriftColumns extends Omit<SeenDrift, 'isRefused' | 'isEvolved'> {
  readonly isRefused: 0 | 1;
  readonly isEvolved: 0 | 1;
}

/** The first version of the ledger that notes drift. */
const firstVersion = 3;

/** A definition that has come to declare a field ends its drift. */
export function readDrift(db: Database.Database, connector: ConnectorName): readonly DriftRow[] {
  if (versionOf(db) < firstVersion) return [];
  const rows = db.prepare<[ConnectorName], DriftColumns>(seenSql).all(connector);
  return mergeDrift(
    rows.map((row) => ({ ...row, isRefused: row.isRefused === 1, isEvolved: row.isEvolved === 1 })),
  );
}

const seenSql = `
SELECT drift.connector, drift.entity, field, kind, type, first_seen_at AS firstSeenAt, first_run AS firstRun,
  is_refused AS isRefused,
  EXISTS (SELECT 1 FROM json_each(evolved) WHERE value ->> 'name' = field) AS isEvolved
FROM _sync_drift AS drift LEFT JOIN _sync_tables USING (connector, entity)
WHERE drift.connector = ? AND NOT (kind = 'undeclared'
  AND EXISTS (SELECT 1 FROM json_each(declared) WHERE value ->> 'name' = field)
  AND NOT EXISTS (SELECT 1 FROM json_each(evolved) WHERE value ->> 'name' = field))
ORDER BY drift.entity, field, kind DESC, first_seen_at, type`;
