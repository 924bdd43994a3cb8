import { answerParent, explainedAs } from '../../child/start-child.ts';
import type { Instant } from '../../core/clock.ts';
import type { RunId } from '../../core/names.ts';
import type { ColumnValue } from '../../core/records.ts';
import type { RowsOfFile } from '../manifest.ts';
import { createParquetFile, type ParquetFile, type RecordColumn } from './parquet-file.ts';

/** A `StoredRecord` without the names of its members: with them it takes a process twice the time to receive one. */
export type SentRow = readonly [
  isDeleted: boolean,
  seq: number,
  changedAt: Instant,
  run: RunId,
  extra: string | null,
  ...values: readonly ColumnValue[],
];

/**
 * The entry point of a process that writes Parquet: it writes and compresses without a pause for anything else, which
 * is why it is a process. It writes one file after the other. A file that failed is closed.
 */
let file: ParquetFile | null = null;

const calls = {
  create: ({ path, columns }: { readonly path: string; readonly columns: readonly RecordColumn[] }): void => {
    leave();
    file = createParquetFile(path, columns);
  },
  /** Gives the bytes so far. */
  write: (rows: readonly SentRow[]) =>
    leftOnFailure((open) =>
      open.write(
        rows.map(([isDeleted, seq, changedAt, run, extra, ...values]) => {
          return { isDeleted, seq, changedAt, run, extra, values };
        }),
      ),
    ),
  close: (expected: RowsOfFile) => {
    const closed = leftOnFailure((open) => open.close(expected));
    file = null;
    return closed;
  },
  /** It will be removed. */
  leave: (_none: null): void => leave(),
};

export type ParquetCalls = typeof calls;

const explain = explainedAs('A Parquet file could not be written', 'TARGET_FAILED', 'stop');
answerParent(calls, { explain });

function leftOnFailure<Result>(work: (open: ParquetFile) => Result): Result {
  if (file === null) throw new Error('a file was written to that is not open');
  try {
    return work(file);
  } catch (error) {
    leave();
    throw error;
  }
}

function leave(): void {
  file?.[Symbol.dispose]();
  file = null;
}
