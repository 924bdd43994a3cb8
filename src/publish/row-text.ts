import { cellWriter, lineEnd, quotedText } from '../export/csv-format.ts';
import { columnWriter, onOneLine } from '../sinks/jsonl/line.ts';
import type { StoredRecord } from '../sinks/record-reader.ts';
import type { RowFilesOptions } from './row-files.ts';

/** How rows become the text of a file. */
export interface RowText {
  /** Before the first row; '' where nothing stands there. */
  readonly head: string;
  /** One row, with its line end. */
  readonly text: (record: StoredRecord) => string;
}

/** Behind the columns of the record, in every format. `_deleted_at` is an instant, or null. */
export const ownColumns = ['_extra', '_seq', '_changed_at', '_run_id', '_deleted', '_deleted_at'] as const;

type Shape = Pick<RowFilesOptions, 'table' | 'columns'>;

/**
 * A JSON object on a line, every column in it; of a deleted record those of the key alone. Half of a surrogate pair,
 * which has no UTF-8 form, is U+FFFD: many readers refuse a whole file for its escape.
 */
export function jsonlText({ table, columns }: Shape): RowText {
  const isKey = keyColumns({ table, columns });
  const writers = columns.map(({ name, type }) => columnWriter({ name, type }));
  return {
    head: '',
    text: ({ isDeleted, seq, changedAt, run, values, extra }) => {
      let line = '{';
      let index = 0;
      for (const write of writers) {
        if (!isDeleted || isKey[index] === true) line += write(values[index] ?? null);
        index += 1;
      }
      if (!isDeleted) line += `"_extra":${extra === null ? 'null' : onOneLine(extra)},`;
      const deletedAt = isDeleted ? `"${changedAt}"` : 'null';
      line += `"_seq":${seq},"_changed_at":"${changedAt}","_run_id":${JSON.stringify(run)},"_deleted":${isDeleted},"_deleted_at":${deletedAt}}\n`;
      return line.includes('\\ud') ? withoutHalves(line) : line;
    },
  };
}

// Every escape, so that the second backslash of two begins none; a pair of halves before a half alone.
const escape = /\\(?:ud[89ab]..\\ud[c-f]..|ud[89a-f]..|.)/gi;

function withoutHalves(json: string): string {
  return json.replace(escape, (found) =>
    found.length === 6 && /^\\ud[89a-f]/i.test(found) ? '\ufffd' : found,
  );
}

/** RFC 4180 with a heading: as `csvFormat` writes cells. */
export function csvText({ table, columns }: Shape): RowText {
  const isKey = keyColumns({ table, columns });
  const writers = columns.map((column) => cellWriter(column));
  return {
    head: [...columns.map(({ name }) => name), ...ownColumns].map(quotedText).join(',') + lineEnd,
    text: ({ isDeleted, seq, changedAt, run, values, extra }) => {
      let line = '';
      let index = 0;
      for (const write of writers) {
        const value = isDeleted && isKey[index] !== true ? null : (values[index] ?? null);
        line += value === null ? ',' : `${write(value)},`;
        index += 1;
      }
      const more = isDeleted || extra === null ? '' : quotedText(extra);
      return `${line}${more},${seq},${changedAt},${quotedText(run)},${isDeleted},${isDeleted ? changedAt : ''}${lineEnd}`;
    },
  };
}

/** In the order of the columns: whether it belongs to the key. */
export function keyColumns({ table }: Shape): readonly boolean[] {
  const key = new Set(table.key);
  return table.columns.map(({ name }) => key.has(name));
}
