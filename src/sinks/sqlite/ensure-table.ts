import type Database from 'better-sqlite3';
import type { Column, FieldType } from '../../core/records.ts';
import { tableName, type TablePlace } from '../ledger/record-store.ts';
import { columnsMissingIn } from '../ledger/tables.ts';
import { quoted } from './quoted.ts';

/** Columns beside the declared ones. A declared name never starts with `_`. `_row` is the row number in the seen bitmap. */
const ownColumns = `
  _extra TEXT,
  _first_seen_at TEXT NOT NULL,
  _changed_at TEXT NOT NULL,
  _run_id TEXT NOT NULL,
  _seq INTEGER NOT NULL,
  _hash TEXT NOT NULL,
  _volatile_hash TEXT,
  _deleted_at TEXT`;

/** Creates the entity's table, or adds the columns it lacks and moves into them what `_extra` holds for them. */
export function ensureTable(db: Database.Database, place: TablePlace): void {
  const name = tableName(place.connector, place.table.entity);
  if (place.stored.length === 0) {
    createTable(db, name, place);
    return;
  }
  for (const column of columnsMissingIn(place.table.columns, place.stored)) {
    db.exec(`ALTER TABLE ${quoted(name)} ADD COLUMN ${quoted(column.name)} ${sqlType[column.type]}`);
  }
  for (const column of place.filled) {
    fillFromExtra(db, name, column, place);
  }
}

const sqlType: Readonly<Record<FieldType, string>> = {
  string: 'TEXT',
  integer: 'INTEGER',
  number: 'REAL',
  boolean: 'INTEGER',
  object: 'TEXT',
  array: 'TEXT',
  any: 'TEXT',
};

function createTable(db: Database.Database, name: string, { table }: TablePlace): void {
  const key = new Set(table.key);
  const columns = table.columns.map(
    (column) => `${quoted(column.name)} ${sqlType[column.type]}${key.has(column.name) ? ' NOT NULL' : ''}`,
  );
  const keyColumns = table.key.map(quoted).join(', ');
  db.exec(
    `CREATE TABLE ${quoted(name)} (_row INTEGER PRIMARY KEY, ${columns.join(', ')}, ${ownColumns}) STRICT;
     CREATE UNIQUE INDEX ${quoted(`${name}__key`)} ON ${quoted(name)} (${keyColumns});
     CREATE INDEX ${quoted(`${name}__seq`)} ON ${quoted(name)} (_seq);`,
  );
}

/**
 * Values that fit the new column leave `_extra` for it, as a change of the row; others stay. An integer beyond 64 bits
 * does not fit, nor does a text with a lone surrogate (JSON writes it as an escape; a column could not hold it).
 */
function fillFromExtra(db: Database.Database, table: string, column: Column, { stamp }: TablePlace): void {
  const path = `'$."${column.name}"'`;
  const { fits, value } = filling(column.type, path);
  const rows = db
    .prepare<[], number>(
      `SELECT _row FROM ${quoted(table)} WHERE _extra IS NOT NULL AND json_type(_extra, ${path}) IS NOT NULL AND ${fits}`,
    )
    .pluck();
  const move = db.prepare<[string, string, number, number]>(
    `UPDATE ${quoted(table)} SET ${quoted(column.name)} = ${value},
       _extra = nullif(json_remove(_extra, ${path}), '{}'), _changed_at = ?, _run_id = ?, _seq = ?
     WHERE _row = ?`,
  );
  for (const row of rows.all()) {
    move.run(stamp.now, stamp.run, stamp.nextSeq(), row);
  }
}

/** The largest integer up to which every integer is a double: 2^53. */
const exact = 9_007_199_254_740_992;

function filling(type: FieldType, path: string): { readonly fits: string; readonly value: string } {
  const text = `_extra -> ${path}`;
  const scalar = `_extra ->> ${path}`;
  const jsonType = `json_type(_extra, ${path})`;
  switch (type) {
    case 'string':
      return { fits: `${jsonType} = 'text' AND instr(${text}, '\\ud') = 0`, value: scalar };
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
