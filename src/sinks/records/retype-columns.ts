import { readJson, writeJson } from '../../core/json-text.ts';
import type { Column, ColumnValue } from '../../core/records.ts';
import type { Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import { isJsonColumn } from '../decisions/stored-table.ts';
import { columnValue } from './mark-rows.ts';
import { versionsName } from './own-names.ts';

/** Rows held at once. */
const batchRows = 1_000;

interface RetypedTable {
  /** Not quoted. */
  readonly name: string;
  readonly number: '_row' | '_seq_to';
}

/**
 * Makes texts of columns of these types, or numbers of integers, in the rows of a table and in their closed versions
 * where there are some. No view may stand on them. Change numbers stay: rows mean what they meant. `type`: the new one
 * as the database names it.
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
