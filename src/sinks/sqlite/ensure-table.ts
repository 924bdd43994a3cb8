import type Database from 'better-sqlite3';
import type { Column, EntityTable, FieldType } from '../../core/records.ts';
import type { TablePlace, WriteStamp } from '../file-ledger/record-store.ts';
import { tableName, columnsMissingIn } from '../decisions/stored-table.ts';
import { dropOwnView } from './current-views.ts';
import { quoted } from '../../sql/quoted.ts';

/** Columns beside the declared ones, none of which starts with `_`. `_row`: number in the seen bitmap; `_partition`: home. */
const ownColumns = `
  _extra TEXT,
  _first_seen_at TEXT NOT NULL,
  _changed_at TEXT NOT NULL,
  _run_id TEXT NOT NULL,
  _seq INTEGER NOT NULL,
  _hash TEXT NOT NULL,
  _volatile_hash TEXT,
  _deleted_at TEXT,
  _partition INTEGER`;

/** Creates the entity's table, or adds the columns it lacks and moves into them what `_extra` holds for them. */
export function ensureTable(db: Database.Database, place: TablePlace): void {
  const name = tableName(place.connector, place.table.entity);
  if (place.stored.length === 0) createTable(db, name, place.table);
  else widenTable(db, place, place.table.columns);
}

/** Adds those of the columns that the entity's table lacks, and moves into `place.filled` what `_extra` holds. */
export function widenTable(db: Database.Database, place: TablePlace, columns: readonly Column[]): void {
  const name = tableName(place.connector, place.table.entity);
  for (const column of columnsMissingIn(columns, place.stored)) {
    db.exec(`ALTER TABLE ${quoted(name)} ADD COLUMN ${quoted(column.name)} ${sqlType[column.type]}`);
  }
  for (const column of place.filled) fillFromExtra(db, name, column, place.stamp);
}

export function homeIndexName(table: string): string {
  return `${table}__partition`;
}

export function createTable(
  db: Database.Database,
  name: string,
  table: Pick<EntityTable, 'columns' | 'key'>,
): void {
  const key = new Set(table.key);
  const columns = table.columns.map(
    (column) => `${quoted(column.name)} ${sqlType[column.type]}${key.has(column.name) ? ' NOT NULL' : ''}`,
  );
  const keyColumns = table.key.map(quoted).join(', ');
  dropOwnView(db, name);
  db.exec(
    `CREATE TABLE ${quoted(name)} (_row INTEGER PRIMARY KEY, ${columns.join(', ')}, ${ownColumns}) STRICT;
     CREATE UNIQUE INDEX ${quoted(`${name}__key`)} ON ${quoted(name)} (${keyColumns});
     CREATE INDEX ${quoted(`${name}__seq`)} ON ${quoted(name)} (_seq);
     CREATE INDEX ${quoted(homeIndexName(name))} ON ${quoted(name)} (_partition, _row);`,
  );
}

export const sqlType: Readonly<Record<FieldType, string>> = {
  string: 'TEXT',
  integer: 'INTEGER',
  number: 'REAL',
  boolean: 'INTEGER',
  object: 'TEXT',
  array: 'TEXT',
  any: 'TEXT',
};

/** Rows moved with one look for more: what is held of a table stays small, however long it is. */
const batchRows = 1_000;

/**
 * Moves a column's values out of `_extra`, each as a change of its row; those that do not fit (beyond 64 bits, lone surrogates) stay.
 * A tombstoned row keeps the number, time and run of its deletion: it is by them that it can be taken back.
 */
export function fillFromExtra(db: Database.Database, table: string, column: Column, stamp: WriteStamp): void {
  const path = pathOf(column);
  const { fits, value } = filling(column, path);
  const rows = db
    .prepare<[number, number], number>(
      `SELECT _row FROM ${quoted(table)} WHERE _row > ? AND _extra IS NOT NULL
         AND json_type(_extra, ${path}) IS NOT NULL AND (${fits}) ORDER BY _row LIMIT ?`,
    )
    .pluck();
  const move = db.prepare<[string, string, number, number]>(
    `UPDATE ${quoted(table)} SET ${quoted(column.name)} = ${value},
       _extra = nullif(json_remove(_extra, ${path}), '{}'), _changed_at = iif(_deleted_at IS NULL, ?, _changed_at),
       _run_id = iif(_deleted_at IS NULL, ?, _run_id), _seq = iif(_deleted_at IS NULL, ?, _seq)
     WHERE _row = ?`,
  );
  for (let last = 0; ;) {
    const batch = rows.all(last, batchRows);
    for (const row of batch) {
      move.run(stamp.now, stamp.run, stamp.nextSeq(), row);
      last = row;
    }
    if (batch.length < batchRows) return;
  }
}

/** True when every value that `_extra` holds for this column would fit it. */
export function wouldFit(db: Database.Database, table: string, column: Column): boolean {
  const path = pathOf(column);
  const misfit = db
    .prepare(
      `SELECT 1 FROM ${quoted(table)} WHERE _extra IS NOT NULL
         AND json_type(_extra, ${path}) IS NOT NULL AND NOT (${filling(column, path).fits}) LIMIT 1`,
    )
    .get();
  return misfit === undefined;
}

/** A declared name holds nothing that would need an escape in SQL or in a path. */
function pathOf({ name }: Column): string {
  return `'$."${name}"'`;
}

/** The largest integer up to which every integer is a double: 2^53. */
const exact = 9_007_199_254_740_992;

/** An added column takes null too: what a record says leaves `_extra` whole, as when it comes again. For a declared one the next sync does that. */
function filling(column: Column, path: string): { readonly fits: string; readonly value: string } {
  const { fits, value } = fillingOfType(column.type, path);
  if (column.isEvolved !== true) return { fits, value };
  const isNull = `json_type(_extra, ${path}) = 'null'`;
  return { fits: `${isNull} OR ${fits}`, value: `CASE WHEN ${isNull} THEN NULL ELSE ${value} END` };
}

function fillingOfType(type: FieldType, path: string): { readonly fits: string; readonly value: string } {
  const text = `_extra -> ${path}`;
  const scalar = `_extra ->> ${path}`;
  const jsonType = `json_type(_extra, ${path})`;
  switch (type) {
    case 'string':
      // Without its escaped backslashes, so that the text of a path such as \\udata is not taken for an escape.
      return {
        fits: `${jsonType} = 'text' AND instr(replace(${text}, '\\\\', ''), '\\ud') = 0`,
        value: scalar,
      };
    case 'integer':
      return { fits: `${jsonType} = 'integer' AND typeof(${scalar}) = 'integer'`, value: scalar };
    case 'number':
      return {
        fits: `(${jsonType} = 'real' OR ${jsonType} = 'integer' AND ${scalar} BETWEEN -${exact} AND ${exact})`,
        value: scalar,
      };
    case 'boolean':
      return { fits: `${jsonType} IN ('true', 'false')`, value: `(${jsonType} = 'true')` };
    case 'object':
    case 'array':
      return { fits: `${jsonType} = '${type}'`, value: text };
    case 'any':
      return { fits: 'true', value: text };
  }
}
