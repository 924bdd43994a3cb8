import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { FieldDrift } from '../../../core/records.ts';
import {
  mergeDrift,
  newsOf,
  rememberDrift,
  type DriftMemory,
  type NotedDrift,
  type SeenDrift,
} from '../../decisions/drift-columns.ts';
import type { DriftRow } from '../../drift.ts';
import { has } from '../read-runs.ts';
import { readFlags, type Flagged } from '../statement.ts';
import type { WriteStamp } from '../record-store.ts';

/** `_sync_drift`: fields that no definition declares and values that do not fit their column, by name and type. Never a value. */
export type DriftRows = ReturnType<typeof prepareDriftRows>;

function prepareDriftRows(db: Database.Database) {
  const of = db.prepare<[string, string], Flagged<NotedDrift>>(
    `SELECT field, kind, type, is_refused AS isRefused FROM _sync_drift WHERE connector = ? AND entity = ?
     ORDER BY field, kind, first_seen_at, type`,
  );
  const add = db.prepare<[string, string, string, string, string, string, string, number]>(
    `INSERT INTO _sync_drift (connector, entity, field, kind, type, first_seen_at, first_run, is_refused)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET is_refused = min(is_refused, excluded.is_refused)`,
  );
  return {
    of: (connector: ConnectorName, entity: EntityName): readonly NotedDrift[] =>
      of.all(connector, entity).map((one) => readFlags(one, 'isRefused')),
    add: (
      connector: ConnectorName,
      entity: EntityName,
      { field, kind, type, isRefused }: NotedDrift,
      { now, run }: WriteStamp,
    ): void => void add.run(connector, entity, field, kind, type, now, run, isRefused ? 1 : 0),
  };
}

/** What is noted of one entity, as the newest transactions left it. */
interface Noted extends DriftMemory {
  /** The run that looked: another one looks again, because the entity may have been reset between them. */
  readonly run: string;
  /** The transaction that added to it; whether it was committed is not known here. */
  addedBy: WriteStamp | null;
}

/** Notes a page's drift in the page's transaction. No statement where nothing is new, save one look at each entity in a run and after news. */
export function driftNoting(
  rows: DriftRows,
): (connector: ConnectorName, drift: readonly FieldDrift[], stamp: WriteStamp) => void {
  const notedByTable = new Map<string, Noted>();

  function notedOf(connector: ConnectorName, entity: EntityName, stamp: WriteStamp): Noted {
    const table = `${connector}/${entity}`;
    const known = notedByTable.get(table);
    if (known?.run === stamp.run && (known.addedBy === null || known.addedBy === stamp)) return known;
    const noted = { ...rememberDrift(rows.of(connector, entity)), run: stamp.run, addedBy: null };
    notedByTable.set(table, noted);
    return noted;
  }

  return (connector, drift, stamp) => {
    for (const one of drift) {
      const noted = notedOf(connector, one.entity, stamp);
      const news = newsOf(noted, one);
      if (news === null) continue;
      noted.addedBy = stamp;
      rows.add(connector, one.entity, news, stamp);
    }
  };
}

/** `_sync_drift`, with a memory of what it holds. */
export function prepareDrift(db: Database.Database) {
  const rows = prepareDriftRows(db);
  return { of: rows.of, note: driftNoting(rows) };
}

/** A definition that has come to declare a field ends its drift. */
export function readDrift(db: Database.Database, connector: ConnectorName): readonly DriftRow[] {
  if (!has(db, 'deletes')) return [];
  const rows = db.prepare<[ConnectorName], Flagged<SeenDrift>>(seenSql).all(connector);
  return mergeDrift(rows.map((row) => readFlags(row, 'isRefused', 'isEvolved')));
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
