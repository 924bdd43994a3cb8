import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { FieldDrift, JsonType } from '../../../core/records.ts';
import type { WriteStamp } from '../record-store.ts';

/** One row of `_sync_drift`. */
export interface StoredDrift {
  readonly field: string;
  readonly kind: FieldDrift['kind'];
  readonly type: JsonType;
  /** 1: only in quarantined records so far. */
  readonly isRefused: 0 | 1;
}

/** `_sync_drift`: fields that no definition declares and values that do not fit their column, by name and type. Never a value. */
export interface DriftRows {
  of(connector: ConnectorName, entity: EntityName): readonly StoredDrift[];
  /** Notes one; accepted once, it is never a refused one again. */
  add(connector: ConnectorName, entity: EntityName, drift: StoredDrift, stamp: WriteStamp): void;
}

export function prepareDriftRows(db: Database.Database): DriftRows {
  const of = db.prepare<[string, string], StoredDrift>(
    `SELECT field, kind, type, is_refused AS isRefused FROM _sync_drift WHERE connector = ? AND entity = ?
     ORDER BY field, kind, first_seen_at, type`,
  );
  const add = db.prepare<[string, string, string, string, string, string, string, number]>(
    `INSERT INTO _sync_drift (connector, entity, field, kind, type, first_seen_at, first_run, is_refused)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET is_refused = min(is_refused, excluded.is_refused)`,
  );
  return {
    of: (connector, entity) => of.all(connector, entity),
    add: (connector, entity, { field, kind, type, isRefused }, { now, run }) =>
      void add.run(connector, entity, field, kind, type, now, run, isRefused),
  };
}
