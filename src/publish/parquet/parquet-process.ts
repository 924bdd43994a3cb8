import { answerParent } from '../../child/answer-parent.ts';
import { explainedAs } from '../../child/channel.ts';
import type { Instant } from '../../core/clock.ts';
import type { RunId } from '../../core/names.ts';
import type { ColumnValue } from '../../core/records.ts';
import type { RowsOfFile } from '../row-text.ts';
import type { RecordColumn } from './parquet-columns.ts';
import { createParquetFile, type ParquetFile } from './parquet-file.ts';

/** A `StoredRecord` without the names of its members: with them it takes a process twice the time to receive one. */
export type SentRow = readonly [
  isDeleted: boolean,
  seq: number,
  changedAt: Instant,
  run: RunId,
  extra: string | null,
  ...values: readonly ColumnValue[],
];

/** Of an open file; several may be open. */
interface Numbered {
  readonly file: number;
}

/**
 * The entry point of a process that writes Parquet: it writes and compresses without a pause for anything else, which
 * is why it is a process. A file that failed is closed.
 */
const files = new Map<number, ParquetFile>();

const calls = {
  create: ({
    file,
    path,
    columns,
  }: Numbered & { readonly path: string; readonly columns: readonly RecordColumn[] }): void =>
    void files.set(file, createParquetFile(path, columns)),
  /** Gives the bytes so far. */
  write: ({ file, rows }: Numbered & { readonly rows: readonly SentRow[] }) =>
    closedOnFailure(file, (open) =>
      open.write(
        rows.map(([isDeleted, seq, changedAt, run, extra, ...values]) => {
          return { isDeleted, seq, changedAt, run, extra, values };
        }),
      ),
    ),
  close: ({ file, expected }: Numbered & { readonly expected: RowsOfFile }) => {
    const closed = closedOnFailure(file, (open) => open.close(expected));
    files.delete(file);
    return closed;
  },
  /** It will be removed. */
  leave: ({ file }: Numbered): void => leave(file),
};

export type ParquetCalls = typeof calls;

const explain = explainedAs('A Parquet file could not be written', 'TARGET_FAILED', 'stop');
answerParent(calls, { explain });

function closedOnFailure<Result>(file: number, work: (open: ParquetFile) => Result): Result {
  const open = files.get(file);
  if (open === undefined) throw new Error('a file was written to that is not open');
  try {
    return work(open);
  } catch (error) {
    leave(file);
    throw error;
  }
}

function leave(file: number): void {
  files.get(file)?.[Symbol.dispose]();
  files.delete(file);
}
