import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, unlink } from 'node:fs/promises';
import { type Child, startChild } from '../child/start-child.ts';
import { SyncError } from '../core/errors.ts';
import { systemColumns } from '../core/names.ts';
import type { DescribedTable, EntityTable } from '../core/records.ts';
import { csvLines, jsonLines, onOneLine, type RecordFormat } from '../export/exported-changes.ts';
import type { StoredRecord } from '../sinks/readings.ts';
import { explained } from './folder-store.ts';
import { ownColumns, type PublishedColumn, type PublishedFile } from './manifest.ts';
import { withoutHalves } from './typed-columns.ts';
import type { ParquetCalls, ParquetContent, SentRow } from './parquet-process.ts';

/**
 * Messages for another process, each of about `maxChars` characters: so that neither process holds more than a few
 * records of the largest size.
 */
export function* sliceRecords(records: readonly StoredRecord[], maxChars: number) {
  let start = 0;
  let chars = 0;
  for (const [at, record] of records.entries()) {
    chars += charsOf(record);
    if (chars < maxChars) continue;
    yield records.slice(start, at + 1);
    start = at + 1;
    chars = 0;
  }
  if (start < records.length) yield records.slice(start);
}

/** Number of characters in all texts of a row. */
export function charsOf({ values, extra }: Pick<StoredRecord, 'values' | 'extra'>): number {
  let chars = extra?.length ?? 0;
  for (const value of values) if (typeof value === 'string') chars += value.length;
  return chars;
}

/** Heap limit of the process. Buffers outside the heap come on top: together they stay below 500 MiB. */
const maxHeapMiB = 320;
/** The rows of a group live until it is written: with the usual 16 MiB each is copied several times before. */
const youngMiB = 32;
/** Most characters of one message, except for a single longer record. */
const maxChars = 512 * 1024;
/** Messages of a file that wait for their answers: the process works on one while the next rows are read. */
const inFlight = 4;

export type ParquetProcess = ReturnType<typeof openParquetProcess>;

/** A process that writes Parquet files. */
export function openParquetProcess() {
  const module = 'publish/parquet-process';
  const child = startChild<ParquetCalls>({ module, maxHeapMiB, youngMiB, died: endedByItself });
  return {
    ...child,
    /**
     * Creates the file, which must not exist, once the one before is closed or removed. Rejects with `SyncError`
     * TARGET_FAILED, as the file's methods do.
     */
    create: async (path: string, content: ParquetContent): Promise<RowFile> => {
      await child.ask('create', { path, ...content });
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
    close: async () => {
      await settle(0);
      return await ask('close', null);
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

/**
 * One file that rows are written to. Its methods reject with `SyncError` TARGET_FAILED, and are called one after the
 * other.
 */
export interface RowFile {
  /** Resolves when the next rows may come. */
  write(records: readonly StoredRecord[]): Promise<void>;
  /** Bytes so far, without rows that are held back to be written together. */
  bytes(): number;
  /** Resolves when all of it is on the disk. */
  close(): Promise<{ readonly bytes: number; readonly sha256: string }>;
  /** Removes the file, closed or not. */
  remove(): Promise<void>;
}

/**
 * The sink's names; a suffix where two would be the same to a warehouse that ignores case. A name that was published
 * stays.
 */
export function nameColumns({ columns }: EntityTable, published: readonly PublishedColumn[]) {
  const nameByField = new Map(published.map(({ field, name }) => [field, name]));
  const taken = new Set<string>([...ownColumns.map(({ name }) => name), ...systemColumns]);
  for (const { name } of columns) {
    const known = nameByField.get(name);
    if (known !== undefined) taken.add(known.toLowerCase());
  }
  return columns.map(({ name: field, type }) => {
    const known = nameByField.get(field);
    if (known !== undefined) return { name: known, field, type };
    let name = field;
    for (let suffix = 2; taken.has(name.toLowerCase()); suffix += 1) name = `${field}_${suffix}`;
    taken.add(name.toLowerCase());
    return { name, field, type };
  });
}

export interface RowShape {
  readonly table: EntityTable;
  /** In the order of `table.columns`: under which name each is written. */
  readonly columns: readonly PublishedColumn[];
  readonly described?: DescribedTable | null;
}

/**
 * A JSON object on a line, every column in it; of a deleted record those of the key alone. Half of a surrogate pair,
 * which has no UTF-8 form, is U+FFFD: many readers refuse a whole file for its escape.
 */
export function jsonlText({ table, columns }: RowShape): RecordFormat {
  const lines = jsonLines({
    columns,
    isKey: keyColumns({ table, columns }),
    own: ({ isDeleted, seq, changedAt, run, extra }) => {
      const extraMember = isDeleted ? '' : `"_extra":${extra === null ? 'null' : onOneLine(extra)},`;
      const deletedAt = isDeleted ? `"${changedAt}"` : 'null';
      return `${extraMember}"_seq":${seq},"_changed_at":"${changedAt}","_run_id":${JSON.stringify(run)},"_deleted":${isDeleted},"_deleted_at":${deletedAt}`;
    },
  });
  return {
    head: '',
    text: (record) => {
      const line = lines.text(record);
      return line.includes('\\ud') ? withoutHalves(line, '\ufffd') : line;
    },
  };
}

/** RFC 4180 with a heading: as `csvFormat` writes cells. */
export function csvText({ table, columns }: RowShape): RecordFormat {
  return csvLines({
    columns,
    isKey: keyColumns({ table, columns }),
    own: ownColumns.slice(1).map(({ name }) => name),
    ownCells: ({ isDeleted, seq, changedAt, run }) => [
      seq,
      changedAt,
      run,
      isDeleted,
      isDeleted ? changedAt : '',
    ],
  });
}

/** In the order of the columns: whether it belongs to the key. */
export function keyColumns({ table }: RowShape): readonly boolean[] {
  const key = new Set(table.key);
  return table.columns.map(({ name }) => key.has(name));
}

/** Characters that are written together: enough for few writes, and turned to bytes within milliseconds. */
const chunkChars = 256 * 1024;

const createNew = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/** Creates a file of lines for its owner alone; it must not exist. */
export async function createTextFile(path: string, { head, text }: RecordFormat): Promise<RowFile> {
  const handle = await explained(path, async () => await open(path, createNew, 0o600));
  const hash = createHash('sha256');
  let held = head;
  let bytes = 0;
  const flush = async (): Promise<void> => {
    const chunk = Buffer.from(held);
    held = '';
    hash.update(chunk);
    for (let at = 0; at < chunk.byteLength;) {
      at += (await explained(path, async () => await handle.write(chunk, at))).bytesWritten;
    }
    bytes += chunk.byteLength;
  };
  return {
    write: async (records) => {
      for (const record of records) {
        held += text(record);
        if (held.length >= chunkChars) await flush();
      }
    },
    bytes: () => bytes + held.length,
    close: async () => {
      await flush();
      await explained(path, async () => {
        await handle.sync();
        await handle.close();
      });
      return { bytes, sha256: hash.digest('hex') };
    },
    remove: async () => {
      // Closed twice is no failure, and a file that was removed before is what was wanted.
      await handle.close().catch(() => undefined);
      await unlink(path).catch(() => undefined);
    },
  };
}

export type FileFormat = 'parquet' | 'jsonl' | 'csv';

/** `path`: the result of `pathOf`. */
export type WrittenFile = PublishedFile;

/** Rows of one entity become files, each of at most `maxRows` rows and about `maxBytes` bytes. */
export interface RowFilesOptions extends RowShape {
  readonly format: FileFormat;
  /** Absolute path of part 1, 2, ...: it is created for its owner alone (0600), and must not exist. */
  readonly pathOf: (part: number) => Promise<string>;
  readonly maxRows: number;
  readonly maxBytes: number;
}

export type RowFileWriters = ReturnType<typeof openRowFileWriters>;

/** `parquet` is written by a child process, which is started when it is needed and ends with `dispose`. */
export function openRowFileWriters() {
  let parquet: ParquetProcess | null = null;
  const create = async (path: string, options: RowFilesOptions): Promise<RowFile> => {
    switch (options.format) {
      case 'jsonl':
        return await createTextFile(path, jsonlText(options));
      case 'csv':
        return await createTextFile(path, csvText(options));
      case 'parquet': {
        if (parquet?.isEnding() !== false) parquet = openParquetProcess();
        const isKey = keyColumns(options);
        const columns = options.columns.map(({ name, field, type, as }, index) => ({
          name,
          type,
          as,
          isKey: isKey[index] === true,
          description: options.described?.columns[field],
        }));
        return await parquet.create(path, { columns, description: options.described?.description ?? null });
      }
    }
  };
  return {
    open: async (options: RowFilesOptions) => await Promise.resolve(openRowFiles(options, create)),
    [Symbol.asyncDispose]: async () => await parquet?.[Symbol.asyncDispose](),
  };
}

/**
 * Begins a file with the first row that has none, and the next one where it is full. Disposed before `finish`, it
 * removes its files. Rejects with `SyncError` TARGET_FAILED where a file cannot be written.
 */
function openRowFiles(
  options: RowFilesOptions,
  create: (path: string, options: RowFilesOptions) => Promise<RowFile>,
) {
  const { pathOf, maxRows, maxBytes } = options;
  const files: RowFile[] = [];
  const written: WrittenFile[] = [];
  let isFinished = false;
  type Part = Awaited<ReturnType<typeof begin>>;
  let part: Part | null = null;

  const begin = async () => {
    const path = await pathOf(files.length + 1);
    const file = await create(path, options);
    files.push(file);
    return { path, file, rows: 0, firstSeq: Number.POSITIVE_INFINITY, lastSeq: 0 };
  };
  const end = async ({ path, file, rows, firstSeq, lastSeq }: Part): Promise<void> => {
    part = null;
    written.push({ path, rows, firstSeq, lastSeq, ...(await file.close()) });
  };
  const add = async (to: Part, records: readonly StoredRecord[]): Promise<void> => {
    await to.file.write(records);
    to.rows += records.length;
    for (const { seq } of records) {
      if (seq < to.firstSeq) to.firstSeq = seq;
      if (seq > to.lastSeq) to.lastSeq = seq;
    }
    if (to.rows >= maxRows || to.file.bytes() >= maxBytes) await end(to);
  };

  return {
    /** Resolves when the next batch may come. */
    write: async (records: readonly StoredRecord[]): Promise<void> => {
      for (let at = 0; at < records.length;) {
        part ??= await begin();
        const room = Math.min(maxRows - part.rows, records.length - at);
        await add(part, room === records.length ? records : records.slice(at, at + room));
        at += room;
      }
    },
    /** The files on disk, synced; none where there were no rows. */
    finish: async (): Promise<readonly WrittenFile[]> => {
      if (part !== null) await end(part);
      isFinished = true;
      return written;
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      if (isFinished) return;
      for (const file of files) await file.remove();
    },
  };
}
