import type { StoredRecord } from '../sinks/record-reader.ts';
import { openParquetProcess, type ParquetProcess } from './parquet/open-parquet-process.ts';
import type { RowFile } from './row-files.ts';
import type { RowFiles, RowFilesOptions, RowFileWriters, WrittenFile } from './row-files.ts';
import { createTextFile, csvText, jsonlText, keyColumns } from './row-text.ts';

/** Opens nothing and starts no process before it is asked to. */
export function openRowFileWriters(): RowFileWriters {
  let parquet: ParquetProcess | null = null;
  const create: CreateFile = async (path, options) => {
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
    open: (options) => Promise.resolve(openRowFiles(options, create)),
    [Symbol.asyncDispose]: async () => await parquet?.[Symbol.asyncDispose](),
  };
}

type CreateFile = (path: string, options: RowFilesOptions) => Promise<RowFile>;

interface Part {
  readonly path: string;
  readonly file: RowFile;
  rows: number;
  firstSeq: number;
  lastSeq: number;
}

/** Begins a file with the first row that has none, and the next one where it is full. */
function openRowFiles(options: RowFilesOptions, create: CreateFile): RowFiles {
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
    write: async (records) => {
      for (let at = 0; at < records.length;) {
        part ??= await begin();
        const room = Math.min(maxRows - part.rows, records.length - at);
        await add(part, room === records.length ? records : records.slice(at, at + room));
        at += room;
      }
    },
    finish: async () => {
      if (part !== null) await end(part);
      isFinished = true;
      return written;
    },
    [Symbol.asyncDispose]: async () => {
      if (isFinished) return;
      for (const file of files) await file.remove();
    },
  };
}
