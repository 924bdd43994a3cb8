import { unlink } from 'node:fs/promises';
import { startChild, type Child } from '../../child/start-child.ts';
import { SyncError } from '../../core/errors.ts';
import type { RowFile } from '../row-text.ts';
import { sliceRecords } from '../slice-records.ts';
import type { RecordColumn } from './parquet-columns.ts';
import type { ParquetCalls, SentRow } from './parquet-process.ts';

/** Of the process. Buffers outside of the heap come on top: together they stay below 500 MiB. */
const maxHeapMiB = 320;
/** The rows of a group live until it is written: with the usual 16 MiB each is copied several times before. */
const youngMiB = 32;
/** What one message carries at most, beyond a single record. */
const maxChars = 512 * 1024;
/** Messages of a file that wait for their answers: the process works on one while the next rows are read. */
const inFlight = 4;

export type ParquetProcess = ReturnType<typeof openParquetProcess>;

/** A process that writes Parquet files. */
export function openParquetProcess() {
  const module = 'publish/parquet/parquet-process';
  const child = startChild<ParquetCalls>({ module, maxHeapMiB, youngMiB, died: endedByItself });
  return {
    ...child,
    /**
     * Creates the file, which must not exist, once the one before is closed or removed. Rejects with `SyncError`
     * TARGET_FAILED, as the file's methods do.
     */
    create: async (path: string, columns: readonly RecordColumn[]): Promise<RowFile> => {
      await child.ask('create', { path, columns });
      return openFile(path, child.ask);
    },
  };
}

function openFile(path: string, ask: Child<ParquetCalls>['ask']): RowFile {
  const pending: Promise<number>[] = [];
  let bytes = 0;
  const settle = async (left: number): Promise<void> => {
    while (pending.length > left) bytes = await (pending.shift() as Promise<number>);
  };
  return {
    write: async (records) => {
      for (const some of sliceRecords(records, maxChars)) {
        const rows = some.map(({ isDeleted, seq, changedAt, run, extra, values }): SentRow => {
          return [isDeleted, seq, changedAt, run, extra, ...values];
        });
        pending.push(ask('write', rows));
        await settle(inFlight - 1);
      }
    },
    bytes: () => bytes,
    close: async (expected) => {
      await settle(0);
      return await ask('close', expected);
    },
    remove: async () => {
      // Neither a process that has ended nor a file that was removed is a failure.
      await ask('leave', null).catch(() => undefined);
      await unlink(path).catch(() => undefined);
    },
  };
}

function endedByItself(how: string): SyncError {
  return new SyncError(
    `The process that writes Parquet ended unexpectedly (${how}); nothing of this publication is visible. Publish again; if it ends again, see whether the machine has ${maxHeapMiB + 180} MiB of memory for it.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { how } },
  );
}
