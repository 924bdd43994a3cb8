import { answerParent } from '../../child/answer-parent.ts';
import { explainedAs } from '../../child/channel.ts';
import type { ParquetCalls, SentRow } from './open-parquet-process.ts';
import { createParquetFile, type ParquetFile } from './parquet-file.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';

/**
 * The entry point of a process that writes Parquet: it writes and compresses without a pause for anything else, which
 * is why it is a process. A file that failed is closed.
 */
const files = new Map<number, ParquetFile>();

const calls: ParquetCalls = {
  create: ({ file, path, columns }) => void files.set(file, createParquetFile(path, columns)),
  write: ({ file, rows }) => closedOnFailure(file, (open) => open.write(rows.map(receivedRecord))),
  close: ({ file, expected }) => {
    const closed = closedOnFailure(file, (open) => open.close(expected));
    files.delete(file);
    return closed;
  },
  leave: ({ file }) => leave(file),
};
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

function receivedRecord([isDeleted, seq, changedAt, run, extra, ...values]: SentRow): StoredRecord {
  return { isDeleted, seq, changedAt, run, extra, values };
}
