import { unlink } from 'node:fs/promises';
import { startChild, type Child } from '../../child/start-child.ts';
import type { Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { RunId } from '../../core/names.ts';
import type { ColumnValue } from '../../core/records.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';
import type { RowFile, RowsOfFile } from '../row-files.ts';
import type { RecordColumn } from './parquet-columns.ts';

/** A `StoredRecord` without the names of its members: with them it takes a process twice the time to receive one. */
export type SentRow = readonly [
  isDeleted: boolean,
  seq: number,
  changedAt: Instant,
  run: RunId,
  extra: string | null,
  ...values: readonly ColumnValue[],
];

interface NumberedFile {
  readonly file: number;
}

/** What the process answers. Files have numbers, and several may be open. */
export type ParquetCalls = {
  readonly create: (
    one: NumberedFile & { readonly path: string; readonly columns: readonly RecordColumn[] },
  ) => void;
  /** Gives the bytes so far. */
  readonly write: (one: NumberedFile & { readonly rows: readonly SentRow[] }) => number;
  readonly close: (one: NumberedFile & { readonly expected: RowsOfFile }) => {
    readonly bytes: number;
    readonly sha256: string;
  };
  /** It will be removed. */
  readonly leave: (one: NumberedFile) => void;
};

/** Of the process. Buffers outside of the heap come on top: together they stay below 500 MiB. */
const maxHeapMiB = 320;
/** The rows of a group live until it is written: with the usual 16 MiB each is copied several times before. */
const youngMiB = 32;
/** What one message carries at most, beyond a single record. */
const maxChars = 512 * 1024;
/** Messages of a file that wait for their answers: the process works on one while the next rows are read. */
const inFlight = 4;

/** A process that writes Parquet files. */
export interface ParquetProcess extends Pick<Child<ParquetCalls>, 'isEnding'>, AsyncDisposable {
  /** Creates the file, which must not exist. Rejects with `SyncError` TARGET_FAILED, as the file's methods do. */
  create(path: string, columns: readonly RecordColumn[]): Promise<RowFile>;
}

export function openParquetProcess(): ParquetProcess {
  const module = 'publish/parquet/parquet-process';
  const child = startChild<ParquetCalls>({ module, maxHeapMiB, youngMiB, died: endedByItself });
  let files = 0;
  return {
    ...child,
    create: async (path, columns) => {
      files += 1;
      const file = files;
      await child.ask('create', { file, path, columns });
      return openFile(path, file, child.ask);
    },
  };
}

function openFile(path: string, file: number, ask: Child<ParquetCalls>['ask']): RowFile {
  const pending: Promise<number>[] = [];
  let bytes = 0;
  const settle = async (left: number): Promise<void> => {
    while (pending.length > left) bytes = await (pending.shift() as Promise<number>);
  };
  return {
    write: async (records) => {
      for (const some of slices(records)) {
        pending.push(ask('write', { file, rows: some.map(sentRow) }));
        await settle(inFlight - 1);
      }
    },
    bytes: () => bytes,
    close: async (expected) => {
      await settle(0);
      return await ask('close', { file, expected });
    },
    remove: async () => {
      // Neither a process that has ended nor a file that was removed is a failure.
      await ask('leave', { file }).catch(() => undefined);
      await unlink(path).catch(() => undefined);
    },
  };
}

function sentRow({ isDeleted, seq, changedAt, run, extra, values }: StoredRecord): SentRow {
  return [isDeleted, seq, changedAt, run, extra, ...values];
}

/** So that neither process holds more than a few records of the largest size. */
function* slices(records: readonly StoredRecord[]): Generator<readonly StoredRecord[]> {
  let start = 0;
  let chars = 0;
  for (let at = 0; at < records.length; at += 1) {
    const { values, extra } = records[at] as StoredRecord;
    chars += extra?.length ?? 0;
    for (const value of values) if (typeof value === 'string') chars += value.length;
    if (chars < maxChars) continue;
    yield records.slice(start, at + 1);
    start = at + 1;
    chars = 0;
  }
  if (start < records.length) yield start === 0 ? records : records.slice(start);
}

function endedByItself(how: string): SyncError {
  return new SyncError(
    `The process that writes Parquet ended unexpectedly (${how}); nothing of this publication is visible. Publish again; if it ends again, see whether the machine has ${maxHeapMiB + 180} MiB of memory for it.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { how } },
  );
}
