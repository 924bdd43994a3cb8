import { unlink } from 'node:fs/promises';
import { SyncError } from '../../core/errors.ts';
import { builtModule } from '../../core/program-files.ts';
import { forkModule, type SentError } from '../../search/process/fork-module.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';
import type { RowFile } from '../row-file.ts';
import { sentRow, type Answer, type Request } from './messages.ts';
import type { RecordColumn } from './parquet-columns.ts';

type Done = Extract<Answer, { kind: 'done' }>;

/** Of the process. Buffers outside of the heap come on top: together they stay below 500 MiB. */
const maxHeapMiB = 320;
/** The rows of a group live until it is written: with the usual 16 MiB each is copied several times before. */
const youngMiB = 32;
/** What one message carries at most, beyond a single record. */
const maxChars = 512 * 1024;
/** Messages of a file that wait for their answers: the process has one to go on with while the next rows are read. */
const inFlight = 4;

/** A process that writes Parquet files. */
export interface ParquetProcess extends AsyncDisposable {
  /** It is gone, or about to be: not to be asked any more. */
  isEnding(): boolean;
  /** Creates the file, which must not exist. Rejects with `SyncError` TARGET_FAILED, as the file's methods do. */
  create(path: string, columns: readonly RecordColumn[]): Promise<RowFile>;
}

/** `entry`: the module to run; tests have others. */
export function openParquetProcess(
  entry: URL = builtModule('publish/parquet/parquet-process'),
): ParquetProcess {
  const child = forkModule<Request, Answer>(entry, maxHeapMiB, { youngMiB });
  const waiting: { readonly resolve: (done: Done) => void; readonly reject: (error: SyncError) => void }[] =
    [];
  let how: string | null = null;
  let files = 0;
  child.listen((answer) => {
    const one = waiting.shift();
    if (answer.kind === 'done') one?.resolve(answer);
    else one?.reject(thrown(answer.error));
  });
  const gone = child.gone.then((by) => {
    how = by;
    for (const { reject } of waiting.splice(0)) reject(endedByItself(by));
  });
  const ask = (request: Request): Promise<Done> => {
    const answered = new Promise<Done>((resolve, reject) => {
      if (how !== null) return reject(endedByItself(how));
      waiting.push({ resolve, reject });
      child.send(request);
    });
    // It may be looked at later, or not at all once another has failed.
    answered.catch(() => undefined);
    return answered;
  };
  return {
    isEnding: child.isEnding,
    create: async (path, columns) => {
      files += 1;
      const file = files;
      await ask({ kind: 'create', file, path, columns });
      return openFile(path, file, ask);
    },
    [Symbol.asyncDispose]: async () => {
      child.kill();
      await gone;
    },
  };
}

function openFile(path: string, file: number, ask: (request: Request) => Promise<Done>): RowFile {
  const pending: Promise<Done>[] = [];
  let bytes = 0;
  const settle = async (left: number): Promise<void> => {
    while (pending.length > left) ({ bytes } = await (pending.shift() as Promise<Done>));
  };
  return {
    write: async (records) => {
      for (const some of slices(records)) {
        pending.push(ask({ kind: 'write', file, rows: some.map(sentRow) }));
        await settle(inFlight - 1);
      }
    },
    bytes: () => bytes,
    close: async (expected) => {
      await settle(0);
      const closed = await ask({ kind: 'close', file, expected });
      return { bytes: closed.bytes, sha256: closed.sha256 };
    },
    remove: async () => {
      // Neither a process that is gone nor a file that is gone is in the way.
      await ask({ kind: 'leave', file }).catch(() => undefined);
      await unlink(path).catch(() => undefined);
    },
  };
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

function thrown({ message, ...options }: SentError): SyncError {
  return new SyncError(message, options);
}

function endedByItself(how: string): SyncError {
  return new SyncError(
    `The process that writes Parquet ended unexpectedly (${how}); nothing of this publication is visible. Publish again; if it ends again, see whether the machine has ${maxHeapMiB + 180} MiB of memory for it.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { how } },
  );
}
