import type { Column, FieldType } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { sqliteTx, type Prepared } from '../../../sql/sqlite/sqlite-tx.ts';
import type { Stamp } from '../../ledger/record-table.ts';

/** Rows held at once. */
const batchRows = 1_000;

/**
 * Moves values of these columns out of `_extra`, each row as one change; those that do not fit (beyond 64 bits, lone
 * surrogates) stay. A tombstoned row keeps the number, time and run of its deletion: it is by them that it can be taken
 * back.
 */
export async function fillFromExtra(
  tx: Tx,
  table: string,
  columns: readonly Column[],
  stamp: Stamp,
): Promise<void> {
  if (columns.length === 0) return;
  const name = quoted(table);
  const sqlite = sqliteTx(tx);
  const names = JSON.stringify(columns.map((column) => column.name));
  for (let last = 0; ;) {
    // One look into each row, however many columns there are.
    const holding = await sqlite.prepared(
      `SELECT _row, _deleted_at IS NULL FROM ${name} WHERE _row > ? AND _extra IS NOT NULL
         AND EXISTS (SELECT 1 FROM json_each(_extra) AS e WHERE e.key IN (SELECT value FROM json_each(?)))
       ORDER BY _row LIMIT ?`,
      { isRaw: true },
    );
    const batch = holding.all(last, names, batchRows) as readonly (readonly [row: number, isLive: 0 | 1])[];
    const moves: Prepared[] = [];
    for (const column of columns) moves.push(await sqlite.prepared(moveSql(name, column)));
    const moved = batch.filter(([row]) => moves.filter((move) => move.run(row).changes > 0).length > 0);
    await stampRows(
      tx,
      name,
      moved.flatMap(([row, isLive]) => (isLive === 1 ? [row] : [])),
      stamp,
    );
    last = batch.at(-1)?.[0] ?? last;
    if (batch.length < batchRows) return;
  }
}

function moveSql(name: string, column: Column): string {
  const { path, isThere, fits, value } = fillingOf(column);
  return `UPDATE ${name} SET ${quoted(column.name)} = ${value}, _extra = nullif(json_remove(_extra, ${path}), '{}')
    WHERE _row = ? AND _extra IS NOT NULL AND ${isThere} AND (${fits})`;
}

async function stampRows(tx: Tx, name: string, rows: readonly number[], stamp: Stamp): Promise<void> {
  if (rows.length === 0) return;
  let seq = await stamp.takeSeqs(rows.length);
  const statement = await sqliteTx(tx).prepared(
    `UPDATE ${name} SET _changed_at = ?, _run_id = ?, _seq = ? WHERE _row = ?`,
  );
  for (const row of rows) {
    statement.run(stamp.now, stamp.run, seq, row);
    seq += 1;
  }
}

/** Those of the columns that every value which `_extra` holds for them would fit. */
export async function fittingColumns(
  tx: Tx,
  table: string,
  columns: readonly Column[],
): Promise<readonly Column[]> {
  const fitting: Column[] = [];
  for (const column of columns) {
    const { isThere, fits } = fillingOf(column);
    const misfit = await tx.first(
      `SELECT 1 AS found FROM ${quoted(table)} WHERE _extra IS NOT NULL AND ${isThere} AND NOT (${fits}) LIMIT 1`,
    );
    if (misfit === undefined) fitting.push(column);
  }
  return fitting;
}

/** How a member of `_extra` becomes the value of a column, as expressions over its row. */
interface Filling {
  /** Of the member in `_extra`, quoted. */
  readonly path: string;
  /** Whether the member is there. */
  readonly isThere: string;
  /** Whether the column holds the member without loss. Only of one that is there. */
  readonly fits: string;
  /** What the column holds of it. */
  readonly value: string;
}

/**
 * An added column takes null too: what a record says leaves `_extra` whole, as when it comes again. For a declared one
 * the next sync does that.
 */
function fillingOf({ name, type, isEvolved }: Column): Filling {
  // A declared name holds nothing that would need an escape in SQL or in a path.
  const path = `'$."${name}"'`;
  const isThere = `json_type(_extra, ${path}) IS NOT NULL`;
  const { fits, value } = fillingOfType(type, path);
  if (isEvolved !== true) return { path, isThere, fits, value };
  const isNull = `json_type(_extra, ${path}) = 'null'`;
  return {
    path,
    isThere,
    fits: `${isNull} OR ${fits}`,
    value: `CASE WHEN ${isNull} THEN NULL ELSE ${value} END`,
  };
}

/** The largest integer up to which every integer is a double: 2^53. */
const exact = 9_007_199_254_740_992;

function fillingOfType(type: FieldType, path: string): Pick<Filling, 'fits' | 'value'> {
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
        // 1e400 would be infinite.
        fits: `(${jsonType} = 'real' AND abs(${scalar}) <= ${Number.MAX_VALUE} OR ${jsonType} = 'integer' AND ${scalar} BETWEEN -${exact} AND ${exact})`,
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
