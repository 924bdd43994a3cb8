import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { FieldDrift } from '../../../core/records.ts';
import type { StoredDrift } from '../../decisions/choose-columns.ts';
import type { WriteStamp } from '../record-store.ts';

/** `_sync_drift`: fields that no definition declares and values that do not fit their column, by name and type. Never a value. */
export type DriftRows = ReturnType<typeof prepareDriftRows>;

export function prepareDriftRows(db: Database.Database) {
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
    of: (connector: ConnectorName, entity: EntityName): readonly StoredDrift[] => of.all(connector, entity),
    /** Notes one; accepted once, it is never a refused one again. */
    add: (
      connector: ConnectorName,
      entity: EntityName,
      { field, kind, type, isRefused }: StoredDrift,
      { now, run }: WriteStamp,
    ): void => void add.run(connector, entity, field, kind, type, now, run, isRefused),
  };
}

/** Fields of an entity that are noted by name; what is beyond goes by `otherFields`, so that a hostile service fills no ledger. */
export const maxFields = 200;
export const otherFields = '*';

/** What is noted of one entity, as the newest transactions left it. */
interface Noted {
  /** Text of field, kind and type -> whether it was only refused so far. */
  readonly isRefusedByKey: Map<string, boolean>;
  readonly fields: Set<string>;
  /** The run that looked: another one looks again, because the entity may have been reset between them. */
  readonly run: string;
  /** The transaction that added to it; whether it was committed is not known here. */
  addedBy: WriteStamp | null;
}

/**
 * Makes the function that notes a page's drift inside the page's transaction. A page with nothing new costs no statement, save
 * for one look at each entity in a run and after a page that had something new.
 */
export function driftNoting(
  rows: DriftRows,
): (connector: ConnectorName, drift: readonly FieldDrift[], stamp: WriteStamp) => void {
  const notedByTable = new Map<string, Noted>();

  function notedOf(connector: ConnectorName, entity: EntityName, stamp: WriteStamp): Noted {
    const table = `${connector}/${entity}`;
    const known = notedByTable.get(table);
    const isCurrent =
      known?.run === stamp.run && (known.addedBy === null || known.addedBy === stamp) ? known : null;
    if (isCurrent !== null) return isCurrent;
    const stored = rows.of(connector, entity);
    const noted: Noted = {
      isRefusedByKey: new Map(stored.map((one) => [keyOf(one), one.isRefused === 1])),
      fields: new Set(stored.map(({ field }) => field)),
      run: stamp.run,
      addedBy: null,
    };
    notedByTable.set(table, noted);
    return noted;
  }

  return (connector, drift, stamp) => {
    for (const one of drift) {
      const noted = notedOf(connector, one.entity, stamp);
      const isNamed = noted.fields.has(one.field) || noted.fields.size < maxFields;
      const named: StoredDrift = {
        field: isNamed ? one.field : otherFields,
        kind: one.kind,
        type: one.type,
        isRefused: one.isRefused === true ? 1 : 0,
      };
      const key = keyOf(named);
      const wasRefused = noted.isRefusedByKey.get(key);
      if (wasRefused === false || (wasRefused === true && named.isRefused === 1)) continue;
      rows.add(connector, one.entity, named, stamp);
      noted.isRefusedByKey.set(key, named.isRefused === 1);
      noted.fields.add(named.field);
      noted.addedBy = stamp;
    }
  };
}

export function keyOf({ field, kind, type }: Pick<StoredDrift, 'field' | 'kind' | 'type'>): string {
  return `${kind} ${type} ${field}`;
}

/** `_sync_drift`, with a memory of what it holds. */
export interface DriftNotes extends Pick<DriftRows, 'of'> {
  /** Notes a page's drift, inside the transaction that stores the page. */
  note(connector: ConnectorName, drift: readonly FieldDrift[], stamp: WriteStamp): void;
}

export function prepareDrift(db: Database.Database): DriftNotes {
  const rows = prepareDriftRows(db);
  return { of: (connector, entity) => rows.of(connector, entity), note: driftNoting(rows) };
}
