import type { Column, ColumnValue, EntityTable } from '../core/records.ts';
import { writeNumber } from '../core/json-text.ts';
import type { RecordFormat } from './record-format.ts';

interface CsvOptions {
  /**
   * Texts that a spreadsheet would take for a formula get a `'` in front. Off unless asked for: it changes the value,
   * and a program that loads the file would store another one than the source has.
   */
  readonly isSafeForSpreadsheets: boolean;
}

export const lineEnd = '\r\n';
const needsQuotes = /[",\r\n]/;
const startsFormula = /^[=+\-@\t\r\n]/;

/**
 * RFC 4180: a heading, then a record per line; commas, CRLF, quotes where they are needed. An absent value is empty, an
 * empty text is `""`. Objects and arrays are JSON, booleans `true` and `false`, numbers have all their digits. Of a
 * deleted record the key alone. Columns: the record's own, then `_extra`, `_op`, `_seq`, `_changed_at`, `_run_id`.
 */
export function csvFormat(table: EntityTable, { isSafeForSpreadsheets }: CsvOptions): RecordFormat {
  const { columns, key } = table;
  const text = isSafeForSpreadsheets ? safeText : quotedText;
  const writers = columns.map((column) => cellWriter(column, text));
  const isKey = columns.map(({ name }) => key.includes(name));
  const names = [...columns.map(({ name }) => name), '_extra', '_op', '_seq', '_changed_at', '_run_id'];
  return {
    head: names.map(quotedText).join(',') + lineEnd,
    text: ({ isDeleted, values, extra, seq, changedAt, run }) => {
      const cells = writers.map((write, index) => {
        const value = isDeleted && isKey[index] !== true ? null : (values[index] ?? null);
        return value === null ? '' : write(value);
      });
      const more = [isDeleted || extra === null ? '' : quotedText(extra), isDeleted ? 'delete' : 'upsert'];
      return [...cells, ...more, seq, changedAt, run].join(',') + lineEnd;
    },
  };
}

type WriteCell = (value: Exclude<ColumnValue, null>) => string;

/** One cell; `text` writes a string. */
export function cellWriter(
  { type }: Pick<Column, 'type'>,
  text: (value: string) => string = quotedText,
): WriteCell {
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

export function quotedText(text: string): string {
  return text === '' || needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function safeText(text: string): string {
  return quotedText(startsFormula.test(text) ? `'${text}` : text);
}
