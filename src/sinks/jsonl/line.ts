import {
  type Column,
  type ColumnValue,
  type EntityTable,
  type PreparedRecord,
  keyPartsOf,
} from '../../core/records.ts';
import type { Stamp } from '../ledger/driver.ts';
import { writeNumber } from '../../core/json.ts';
import { quoted } from '../../sql/database.ts';
import { isJsonColumn } from '../decisions/stored-table.ts';

type LinedRecord = Pick<PreparedRecord, 'values' | 'extra'>;
type WrittenBy = Pick<Stamp, 'now' | 'run'>;

/** Writers of a change as one JSON object on one line. The last line of a key is its current state. */
export function lineWriters(table: EntityTable) {
  const writers = table.columns.map(columnWriter);
  const keyWriters = table.key
    .flatMap((name) => table.columns.filter((column) => column.name === name))
    .map(columnWriter);
  return {
    /**
     * Every declared field (absent ones as null), `_extra` where there is one, then `_op`, `_seq`, `_changed_at` and
     * `_run_id`.
     */
    upsert: (record: LinedRecord, seq: number, by: WrittenBy): string => {
      let line = '{';
      let index = 0;
      for (const write of writers) {
        line += write(record.values[index] ?? null);
        index += 1;
      }
      if (record.extra !== null) line += `"_extra":${onOneLine(record.extra)},`;
      return line + ending('upsert', seq, by);
    },
    /** The fields of the key, then the same four. */
    deletion: (keyText: string, seq: number, by: WrittenBy): string => {
      const parts = keyPartsOf(keyText, keyWriters.length) ?? [];
      const fields = keyWriters.map((write, index) => write(parts[index] ?? null));
      return `{${fields.join('')}${ending('delete', seq, by)}`;
    },
  };
}

function ending(op: 'upsert' | 'delete', seq: number, { now, run }: WrittenBy): string {
  return `"_op":"${op}","_seq":${seq},"_changed_at":"${now}","_run_id":${JSON.stringify(run)}}\n`;
}

/** Writes one member and the comma after it; another member always follows. */
export function columnWriter({ name, type }: Column): (value: ColumnValue) => string {
  const start = `${JSON.stringify(name)}:`;
  const write = valueWriter(type);
  return (value) => (value === null ? `${start}null,` : `${start}${write(value)},`);
}

function valueWriter(type: Column['type']): (value: string | number | bigint) => string {
  if (isJsonColumn(type)) return (value) => (typeof value === 'string' ? onOneLine(value) : scalar(value));
  if (type === 'boolean') return (value) => (Number(value) === 0 ? 'false' : 'true');
  return scalar;
}

function scalar(value: string | number | bigint): string {
  if (typeof value === 'string') return JSON.stringify(value);
  return typeof value === 'number' ? writeNumber(value) : value.toString();
}

/** In JSON text a raw line break can only be white space between tokens. */
export function onOneLine(json: string): string {
  return json.includes('\n') || json.includes('\r') ? json.replace(/[\n\r]+/g, ' ') : json;
}

/** Fewer than SQLite takes for a function. */
const mostArguments = 100;

/**
 * The line of a row as a BLOB of SQLite: the same as of `lineWriters`, in less than half of the time, because no cell
 * becomes a value of JavaScript. Line breaks between tokens stay in it. `json_number` is `writeNumber`.
 */
export function lineSql({ columns, key }: EntityTable): string {
  const members = (of: readonly Column[]): readonly string[] =>
    of.flatMap((column, index) => [
      literal(`${index === 0 ? '{' : ','}${JSON.stringify(column.name)}:`),
      valueSql(column),
    ]);
  const keyColumns = key.flatMap((name) => columns.filter((column) => column.name === name));
  const upsert = [...members(columns), `',"_extra":' || _extra`, `',"_op":"upsert"'`];
  const deletion = [...members(keyColumns), `',"_op":"delete"'`];
  const ending = concat([
    `',"_seq":'`,
    '_seq',
    `',"_changed_at":"'`,
    '_changed_at',
    `'","_run_id":'`,
    'json_quote(_run_id)',
    `'}' || char(10)`,
  ]);
  return `CAST(iif(_deleted_at IS NULL, ${concat([...upsert, ending])}, ${concat([...deletion, ending])}) AS BLOB)`;
}

function valueSql({ name, type }: Column): string {
  const cell = quoted(name);
  if (type === 'string') return `json_quote(${cell})`;
  if (type === 'boolean') return `CASE WHEN ${cell} = 0 THEN 'false' ELSE iif(${cell}, 'true', 'null') END`;
  return `coalesce(${type === 'number' ? `json_number(${cell})` : cell}, 'null')`;
}

/** A null is an empty text. */
function concat(texts: readonly string[]): string {
  if (texts.length <= mostArguments) return `concat(${texts.join(', ')})`;
  const groups = Array.from({ length: Math.ceil(texts.length / mostArguments) }, (_, index) =>
    concat(texts.slice(index * mostArguments, (index + 1) * mostArguments)),
  );
  return concat(groups);
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
