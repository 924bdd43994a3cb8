import type Database from 'better-sqlite3';
import type { Column, FieldType } from '../../core/records.ts';
import type { WriteStamp } from '../ledger/record-store.ts';
import { quoted } from './quoted.ts';

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
 * Moves a column's values out of `_extra`, each as a change of its row; those that do not fit stay. An integer beyond 64 bits
 * does not fit, nor does a text with a lone surrogate (JSON writes it as an escape; a column could not hold it). A tombstoned
 * row keeps the number, time and run of its deletion: it is by them that it can be taken back.
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
