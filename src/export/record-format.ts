import { writeNumber } from '../core/json.ts';
import { type Column, type ColumnValue, type EntityTable, keyTextOf } from '../core/records.ts';
import { lineWriters } from '../sinks/jsonl/line.ts';
import type { StoredRecord } from '../sinks/readings.ts';

/** The text form of records. */
export interface RecordFormat {
  /** Before the first record; '' where nothing stands there. */
  readonly head: string;
  /** One record, with its line end. */
  readonly text: (record: StoredRecord) => string;
}

/** A record per line as JSON, in the shape that the files of a JSONL sink have; of a deleted one the key alone. */
export function jsonlFormat(table: EntityTable): RecordFormat {
  const write = lineWriters(table);
  const keyIndexes = table.key.map((name) => table.columns.findIndex((column) => column.name === name));
  return {
    head: '',
    text: (record) => {
      const { seq, changedAt: now, run, values, extra } = record;
      const stamp = { now, run };
      const keyText = keyTextOf(keyIndexes.map((index) => values[index] ?? null));
      return record.isDeleted
        ? write.deletion(keyText, seq, stamp)
        : write.upsert({ values, extra }, seq, stamp);
    },
  };
}

interface CsvOptions {
  /**
   * Texts that a spreadsheet would take for a formula get a `'` in front. Off unless asked for: it changes the value,
   * and a program that loads the file would store another one than the source has.
   */
  readonly isSafeForSpreadsheets: boolean;
}

const lineEnd = '\r\n';
const needsQuotes = /[",\r\n]/;
const startsFormula = /^[=+\-@\t\r\n]/;

/**
 * RFC 4180: a heading, then a record per line; commas, CRLF, quotes where they are needed. An absent value is empty, an
 * empty text is `""`. Objects and arrays are JSON, booleans `true` and `false`, numbers have all their digits. Of a
 * deleted record the key alone. Columns: the record's own, then `_extra`, `_op`, `_seq`, `_changed_at`, `_run_id`.
 */
export function csvFormat(table: EntityTable, { isSafeForSpreadsheets }: CsvOptions): RecordFormat {
  const { columns, key } = table;
  return csvLines({
    columns,
    isKey: columns.map(({ name }) => key.includes(name)),
    own: ['_op', '_seq', '_changed_at', '_run_id'],
    ownCells: ({ isDeleted, seq, changedAt, run }) => [isDeleted ? 'delete' : 'upsert', seq, changedAt, run],
    text: isSafeForSpreadsheets ? safeText : quotedText,
  });
}

interface CsvLines {
  readonly columns: readonly Pick<Column, 'name' | 'type'>[];
  /** In the order of the columns. */
  readonly isKey: readonly boolean[];
  /** The columns behind `_extra`. */
  readonly own: readonly string[];
  readonly ownCells: (record: StoredRecord) => readonly (string | number | boolean)[];
  /** Writes a string. */
  readonly text?: (value: string) => string;
}

/** A heading and lines: the columns, `_extra` and its own columns; of a deleted record the key and the own ones. */
export function csvLines({ columns, isKey, own, ownCells, text = quotedText }: CsvLines): RecordFormat {
  const writers = columns.map((column) => cellWriter(column, text));
  return {
    head: [...columns.map(({ name }) => name), '_extra', ...own].map(quotedText).join(',') + lineEnd,
    text: (record) => {
      const { isDeleted, values, extra } = record;
      const cells = writers.map((write, index) => {
        const value = isDeleted && isKey[index] !== true ? null : (values[index] ?? null);
        return value === null ? '' : write(value);
      });
      const extraCell = isDeleted || extra === null ? '' : quotedText(extra);
      return [...cells, extraCell, ...ownCells(record)].join(',') + lineEnd;
    },
  };
}

type WriteCell = (value: Exclude<ColumnValue, null>) => string;

/** One cell; `text` writes a string. */
function cellWriter({ type }: Pick<Column, 'type'>, text: (value: string) => string): WriteCell {
  switch (type) {
    case 'string':
      return (value) => text(String(value));
    case 'boolean':
      return (value) => (Number(value) === 0 ? 'false' : 'true');
    case 'integer':
    case 'number':
      return (value) => (typeof value === 'number' ? writeNumber(value) : String(value));
    case 'object':
    case 'array':
    case 'any':
      return (value) => quotedText(String(value));
  }
}

function quotedText(text: string): string {
  return text === '' || needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function safeText(text: string): string {
  return quotedText(startsFormula.test(text) ? `'${text}` : text);
}
