import { canonicalJson, toColumnValue } from '../../core/canonical-json.ts';
import { memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import { readFields, readJson, writeJson } from '../../core/json-text.ts';
import type { Column, ColumnValue } from '../../core/records.ts';
import { type Cells, type Tx, quoted } from '../../sql/database.ts';
import type { RecordTables, Stamp, TablePlace } from '../ledger/driver.ts';
import { closeVersionsOf, columnValue } from './mark-rows.ts';
import { rowsTable, selectCells, versionsName } from './own-names.ts';
import { columnsMissingIn, isJsonColumn } from '../decisions/stored-table.ts';

/** Rows held at once. */
const batchRows = 250;

/**
 * Moves values of these columns out of `_extra`, each row as one change; those that do not fit stay. Outside of the
 * database: PostgreSQL's functions refuse whole documents for one odd text in them. A tombstoned row keeps the number,
 * time and run of its deletion, by which it can be taken back.
 */
export async function fillFromExtra(
  tx: Tx,
  records: Pick<RecordTables, 'tableName' | 'insertRows'>,
  place: TablePlace,
  columns: readonly Column[],
  { now, run, takeSeqs }: Stamp,
): Promise<void> {
  const { connector, table, stored, versions } = place;
  const rowsOf = rowsTable(records, connector, {
    ...table,
    // A column that has just got another type is stored with its old one.
    stored: [...table.columns, ...columnsMissingIn(stored, table.columns)],
    hasVersions: versions !== undefined,
  });
  const name = quoted(rowsOf.name);
  const close = closeVersionsOf(name, quoted(versionsName(rowsOf.name)), place);
  for await (const rows of rowsWithExtra(tx, name, columns)) {
    const moved = rows.flatMap(({ row, members, isLive }) => {
      const fitting = columns.flatMap((column) => {
        const value = fittedValue(column, memberOf(members, column.name));
        return value === undefined ? [] : [[column.name, value] as const];
      });
      if (fitting.length === 0) return [];
      const names = new Set<string>(fitting.map(([name]) => name));
      const left = Object.entries(members).filter(([name]) => !names.has(name));
      const extra = left.length === 0 ? null : canonicalJson(Object.fromEntries(left));
      return [{ row, isLive, changed: new Map<string, ColumnValue>([...fitting, ['_extra', extra]]) }];
    });
    if (moved.length === 0) continue;
    const live = moved.filter(({ isLive }) => isLive);
    const first = live.length === 0 ? 0 : await takeSeqs(live.length);
    const seqs = live.map(({ row }, index) => ({ row, seq: first + index, hash: null }));
    close(tx, seqs, now);
    for (const [index, { changed }] of live.entries()) {
      changed
        .set('_seq', first + index)
        .set('_changed_at', now)
        .set('_run_id', run);
    }
    const numbers = moved.map(({ row }) => row);
    const found = await tx.rows(selectCells(rowsOf, '_row IN {numbers bigint}'), { numbers });
    await tx.run(`DELETE FROM ${name} WHERE _row IN {numbers bigint}`, { numbers });
    const changedOf = new Map(moved.map(({ row, changed }) => [row, changed]));
    const filled = found.map((cells): Cells => {
      const values = Object.values(cells).map(columnValue);
      const changed = changedOf.get(Number(values[0]));
      return rowsOf.columns.map((column, index) => {
        const value = changed?.get(column.name);
        return value === undefined ? values[index] : value;
      });
    });
    await records.insertRows(tx, rowsOf, filled);
  }
}

/** Columns whose type fits every value that `_extra` holds for them. */
export async function fittingColumns(
  tx: Tx,
  name: string,
  columns: readonly Column[],
): Promise<readonly Column[]> {
  let fitting = columns;
  for await (const rows of rowsWithExtra(tx, name, columns)) {
    fitting = fitting.filter((column) =>
      rows.every(({ members }) => {
        const value = memberOf(members, column.name);
        return value === undefined || fittedValue(column, value) !== undefined;
      }),
    );
    if (fitting.length === 0) return [];
  }
  return fitting;
}

interface ExtraRow {
  readonly row: number;
  readonly members: JsonObject;
  readonly isLive: boolean;
}

/** Rows whose `_extra` may hold any of the columns, by row number. */
async function* rowsWithExtra(
  tx: Tx,
  name: string,
  columns: readonly Column[],
): AsyncGenerator<readonly ExtraRow[]> {
  if (columns.length === 0) return;
  // Declared names are always written without an escape. The condition also finds texts that only look like a name.
  const holds = columns.map((_, index) => `CAST(_extra AS TEXT) LIKE :name${index}`).join(' OR ');
  const names = Object.fromEntries(columns.map((column, index) => [`name${index}`, `%"${column.name}"%`]));
  for (let after = 0; ;) {
    const found = await tx.rows<{ row: number; extra: string; isLive: boolean }>(
      `SELECT _row AS row, _extra AS extra, _deleted_at IS NULL AS is_live FROM ${name}
       WHERE _row > :after AND _extra IS NOT NULL AND (${holds}) ORDER BY _row LIMIT :limit`,
      { ...names, after, limit: batchRows },
    );
    // `as`: objects are stored there.
    yield found.map(({ row, extra, isLive }) => ({ row, members: readFields(extra) as JsonObject, isLive }));
    const last = found.at(-1);
    if (last === undefined || found.length < batchRows) return;
    after = last.row;
  }
}

/**
 * Converts a value for the column; undefined where there is none, or it does not fit. A column that was added for an
 * undeclared field also takes null, so that the value leaves `_extra` entirely, as it does when the record comes again.
 * For a declared column the next sync does that, since its hash counts the column.
 */
function fittedValue(column: Column, value: JsonValue | undefined): ColumnValue | undefined {
  if (value === undefined || (value === null && column.isEvolved !== true)) return undefined;
  return toColumnValue(column, value);
}

interface RetypedTable {
  /** Name without quotes. */
  readonly name: string;
  readonly number: '_row' | '_seq_to';
}

/**
 * Turns columns of these types into texts, or integers into numbers, in the rows of a table and in its closed versions
 * if there are any. No view may depend on them. Change numbers stay, because rows keep their meaning. `type`: the new
 * type as the database names it.
 */
export async function retypeColumns(
  tx: Tx,
  { name, isVersioned }: { readonly name: string; readonly isVersioned: boolean },
  columns: readonly Column[],
  type: string,
): Promise<void> {
  const rows: RetypedTable = { name, number: '_row' };
  const closed: RetypedTable = { name: versionsName(name), number: '_seq_to' };
  for (const table of isVersioned ? [rows, closed] : [rows]) {
    for (const [index] of columns.entries()) {
      tx.put(`ALTER TABLE ${quoted(table.name)} ADD COLUMN _text${index} ${type}`);
    }
    await writeTexts(tx, table, columns, type);
    for (const [index, { name }] of columns.entries()) {
      tx.put(`ALTER TABLE ${quoted(table.name)} DROP COLUMN ${quoted(name)}`);
      tx.put(`ALTER TABLE ${quoted(table.name)} RENAME COLUMN _text${index} TO ${quoted(name)}`);
    }
  }
}

async function writeTexts(
  tx: Tx,
  { name, number }: RetypedTable,
  columns: readonly Column[],
  type: string,
): Promise<void> {
  const table = quoted(name);
  const cells = columns.map((column, index) => `, ${quoted(column.name)} AS c${index}`).join('');
  const isAny = columns.map((column) => `${quoted(column.name)} IS NOT NULL`).join(' OR ');
  const sets = columns
    .map((_, index) => `_text${index} = CAST(v.c${index} AS ${type.replace(/ COLLATE.*/, '')})`)
    .join(', ');
  const given = columns.map((_, index) => `, c${index} text`).join('');
  for (let after = 0; ;) {
    const rows = await tx.rows<Readonly<Record<string, unknown>>>(
      `SELECT ${number} AS number${cells} FROM ${table}
       WHERE ${number} > :after AND (${isAny}) ORDER BY ${number} LIMIT :limit`,
      { after, limit: batchRows },
    );
    const v = rows.map((row) => ({
      ...Object.fromEntries(
        columns.map((column, index) => [`c${index}`, textOf(column, columnValue(row[`c${index}`]))]),
      ),
      number: Number(row['number']),
    }));
    if (v.length > 0) {
      await tx.run(`UPDATE ${table} SET ${sets} FROM {v: number bigint${given}} WHERE ${number} = v.number`, {
        v,
      });
    }
    const last = v.at(-1);
    if (last === undefined || rows.length < batchRows) return;
    after = last.number;
  }
}

function textOf({ type }: Column, value: ColumnValue): string | null {
  if (value === null) return null;
  if (type === 'boolean') return Number(value) === 0 ? 'false' : 'true';
  if (type === 'number') return writeJson(Number(value));
  const text = String(value);
  const read = isJsonColumn(type) ? readJson(text) : null;
  return typeof read === 'string' ? read.toWellFormed() : text;
}
