import type { StoredRecord } from '../sinks/record-reader.ts';
import type { PublishedFile } from './manifest.ts';
import { openParquetProcess, type ParquetProcess } from './parquet/open-parquet-process.ts';
import { createTextFile, csvText, jsonlText, keyColumns } from './row-text.ts';
import type { RowFile, RowShape } from './row-text.ts';

export type FileFormat = 'parquet' | 'jsonl' | 'csv';

/** `path`: what `pathOf` gave. */
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
        const columns = options.columns.map(({ name, type }, index) => ({
          name,
          type,
          isKey: isKey[index] === true,
        }));
        return await parquet.create(path, columns);
      }
    }
  };
  return {
    open: async (options: RowFilesOptions) => await Promise.resolve(openRowFiles(options, create)),
    [Symbol.asyncDispose]: async () => await parquet?.[Symbol.asyncDispose](),
  };
}

interface Part {
  readonly path: string;
  readonly file: RowFile;
  rows: number;
  firstSeq: number;
  lastSeq: number;
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
  let part: Part | null = null;

  const begin = async (): Promise<Part> => {
    const path = await pathOf(files.length + 1);
    const file = await create(path, options);
    files.push(file);
    return { path, file, rows: 0, firstSeq: Number.POSITIVE_INFINITY, lastSeq: 0 };
  };
  const end = async ({ path, file, rows, firstSeq, lastSeq }: Part): Promise<void> => {
    part = null;
    const facts = { rows, firstSeq, lastSeq };
    written.push({ path, ...facts, ...(await file.close(facts)) });
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
    /** The files on disk, synced and read back where the format has a footer; none where there were no rows. */
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
