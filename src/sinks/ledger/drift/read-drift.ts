import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import type { DriftRow } from '../../drift.ts';
import type { StoredDrift } from '../../decisions/choose-columns.ts';
import { versionOf } from '../read-operations.ts';

interface SeenDrift extends StoredDrift {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly firstSeenAt: Instant;
  readonly firstRun: RunId;
  readonly isEvolved: 0 | 1;
}

/** The first version of the ledger that notes drift. */
const firstVersion = 3;

/**
 * A definition that has come to declare a field ends its drift. The statement is made for each question, because a file that
 * is open for reading may be of an older version now and be migrated by another process a moment later.
 */
export function readDrift(db: Database.Database, connector: ConnectorName): readonly DriftRow[] {
  const version = versionOf(db);
  return version < firstVersion ? [] : merged(db.prepare<[ConnectorName], SeenDrift>(seenSql).all(connector));
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

/** One row per field and kind: the first of them says when, all of them which types. */
function merged(seen: readonly SeenDrift[]): readonly DriftRow[] {
  const rows = new Map<string, { first: SeenDrift; all: SeenDrift[] }>();
  for (const one of seen) {
    const key = JSON.stringify([one.entity, one.field, one.kind]);
    const row = rows.get(key) ?? { first: one, all: [] };
    row.all.push(one);
    rows.set(key, row);
  }
  return [...rows.values()].map(({ first, all }) => {
    const { connector, entity, field, kind, firstSeenAt, firstRun } = first;
    const types = all.map(({ type }) => type);
    return { connector, entity, field, types, kind, firstSeenAt, firstRun, place: placeOf(all) };
  });
}

/** A value that does not fit its column lies beside it, whoever added the column. */
function placeOf(all: readonly SeenDrift[]): DriftRow['place'] {
  if (all.every(({ isRefused }) => isRefused === 1)) return 'quarantine';
  return all.some(({ kind, isEvolved }) => kind === 'undeclared' && isEvolved === 1) ? 'column' : 'extra';
}
