import { createHash } from 'node:crypto';
import { closeSync, fstatSync, fsyncSync, readSync, writeSync } from 'node:fs';
import * as zlib from 'node:zlib';
import { parquetMetadata } from 'hyparquet';
import { ByteWriter, type ColumnSource, ParquetWriter } from 'hyparquet-writer';
import { SyncError } from '../../core/errors.ts';
import { openPrivateFile } from '../../files/private-file.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';
import { toFileError } from '../folder-files.ts';
import type { RowsOfFile } from '../row-text.ts';
import {
  type ParquetColumn,
  parquetColumns,
  type ParquetValue,
  type RecordColumn,
  ValueError,
} from './parquet-columns.ts';

/** Rows that are written together, column by column: held until then. Long texts fill a group earlier. */
const groupRows = 20_000;
const groupChars = 16 * 1024 * 1024;
/** Bytes that are held before they are written to the disk. */
const heldBytes = 1024 * 1024;

export type ParquetFile = ReturnType<typeof createParquetFile>;

/**
 * One Parquet file, written synchronously by a process that does nothing else. Created for its owner alone. Disposed,
 * it is closed; the caller removes it. It and its methods throw `SyncError` TARGET_FAILED.
 */
export function createParquetFile(path: string, record: readonly RecordColumn[]) {
  const columns = parquetColumns(record);
  let isOpen = true;
  const explained = <Result>(work: () => Result): Result => {
    try {
      return work();
    } catch (error) {
      throw toFileError(error, path);
    }
  };
  const file = explained(() => openPrivateFile(path));
  const sink = new HashedFile(file);
  const writer = new ParquetWriter({
    writer: sink,
    schema: [{ name: 'row', num_children: columns.length }, ...columns.map(({ element }) => element)],
    createdBy: 'connector-sync',
    kvMetadata: [{ key: jsonColumnsKey, value: JSON.stringify(namesOfJson(columns)) }],
    ...compression,
  });
  let group = newGroup(columns);
  const flush = (): void => {
    if (group.rows === 0) return;
    const columnData = columns.map((column, index) => columnOf(column, group.values[index] ?? []));
    const { rows } = group;
    group = newGroup(columns);
    // Without a promise: the writer of the bytes gives none.
    void writer.write({ columnData, rowGroupSize: rows });
  };

  return {
    /** Gives the bytes so far. */
    write: (records: readonly StoredRecord[]) =>
      explained(() => {
        for (const one of records) {
          addRow(columns, group, one, path);
          if (group.rows >= groupRows || group.chars >= groupChars) flush();
        }
        return sink.offset;
      }),
    /** Makes it survive a power loss, and compares its footer with what was written. */
    close: (expected: RowsOfFile) =>
      explained(() => {
        flush();
        void writer.finish();
        fsyncSync(file);
        checkFooter(file, columns, { ...expected, path, bytes: sink.offset });
        isOpen = false;
        closeSync(file);
        return { bytes: sink.offset, sha256: sink.sha256() };
      }),
    [Symbol.dispose]: () => {
      if (isOpen) closeSync(file);
      isOpen = false;
    },
  };
}

/** In the metadata of the footer: an array of the names of columns that hold JSON text. */
const jsonColumnsKey = 'connector-sync.json-columns';

function namesOfJson(columns: readonly ParquetColumn[]): readonly string[] {
  return columns.filter(({ isJson }) => isJson === true).map(({ element }) => element.name);
}

/** Node.js has zstd since 22.15. */
const zstd = 'zstdCompressSync' in zlib ? (zlib.zstdCompressSync as (bytes: Uint8Array) => Uint8Array) : null;
const compression =
  zstd === null ? ({ codec: 'SNAPPY' } as const) : ({ codec: 'ZSTD', compressors: { ZSTD: zstd } } as const);

type Group = ReturnType<typeof newGroup>;

/** `values`: by column. */
function newGroup(columns: readonly ParquetColumn[]) {
  return { values: columns.map((): ParquetValue[] => []), rows: 0, chars: 0 };
}

function addRow(columns: readonly ParquetColumn[], group: Group, record: StoredRecord, path: string): void {
  for (let index = 0; index < columns.length; index += 1) {
    const column = columns[index];
    if (column === undefined) break;
    const value = readValue(column, record, path);
    group.values[index]?.push(value);
    if (typeof value === 'string') group.chars += value.length;
  }
  group.rows += 1;
}

function readValue({ element, read }: ParquetColumn, record: StoredRecord, path: string): ParquetValue {
  try {
    return read(record);
  } catch (error) {
    if (!(error instanceof ValueError)) throw error;
    throw new SyncError(
      `Column "${element.name}" of the row with _seq ${record.seq} cannot be written to ${path}: ${error.message}. The row would change, so nothing was published.`,
      { code: 'TARGET_FAILED', recovery: 'stop', context: { file: path, seq: record.seq } },
    );
  }
}

/** What a group's column is written from. */
function columnOf({ element, isJson }: ParquetColumn, data: ParquetValue[]): ColumnSource {
  const { name, type } = element;
  // The library takes both zeros for one where it collects distinct values.
  const isSigned = type === 'DOUBLE' && data.some((value) => Object.is(value, -0));
  if (isSigned) return { name, data, encoding: 'PLAIN' };
  // As runs, fastparquet does not read those with nulls between them.
  if (type === 'BOOLEAN') return { name, data, encoding: 'PLAIN' };
  // It holds the whole lowest and highest value of every group until the footer: of long texts hundreds of MB.
  const isLong = data.some((value) => typeof value === 'string' && value.length > 1_000);
  return { name, data, statistics: isJson !== true && !isLong };
}

/** The bytes of a file in the order in which they are written, and their hash. */
class HashedFile extends ByteWriter {
  readonly #hash = createHash('sha256');
  readonly #file: number;

  constructor(file: number) {
    super(2 * heldBytes);
    this.#file = file;
  }

  override ensure(size: number): void {
    if (this.index >= heldBytes) this.#flush();
    super.ensure(size);
  }

  override finish(): void {
    this.#flush();
  }

  sha256(): string {
    return this.#hash.digest('hex');
  }

  #flush(): void {
    const bytes = this.getBytes();
    this.#hash.update(bytes);
    for (let at = 0; at < bytes.byteLength;) at += writeSync(this.#file, bytes, at);
    this.index = 0;
  }
}

function checkFooter(
  file: number,
  columns: readonly ParquetColumn[],
  expected: RowsOfFile & { readonly path: string; readonly bytes: number },
): void {
  const { size } = fstatSync(file);
  const tail = readAt(file, size - 8, 8);
  const length = tail.readUInt32LE(0) + 8;
  const footer = readAt(file, Math.max(size - length, 0), Math.min(length, size));
  const { num_rows: rows, row_groups: groups } = parquetMetadata(
    footer.buffer.slice(footer.byteOffset, footer.byteOffset + footer.byteLength) as ArrayBuffer,
  );
  const statisticsOf = (name: string) =>
    groups.map(
      (group) =>
        group.columns.find(({ meta_data: data }) => data?.path_in_schema[0] === name)?.meta_data?.statistics,
    );
  const seqs = statisticsOf('_seq');
  const keyNulls = columns
    .filter(({ element }) => element.repetition_type === 'REQUIRED')
    .flatMap(({ element }) => statisticsOf(element.name))
    .filter((statistics) => (statistics?.null_count ?? 0n) !== 0n).length;
  const found = [
    size,
    Number(rows),
    Number(groups.reduce((sum, group) => sum + group.num_rows, 0n)),
    Math.min(...seqs.map((statistics) => Number(statistics?.min_value))),
    Math.max(...seqs.map((statistics) => Number(statistics?.max_value))),
    keyNulls,
  ];
  const wanted = [expected.bytes, expected.rows, expected.rows, expected.firstSeq, expected.lastSeq, 0];
  if (found.join() === wanted.join()) return;
  throw new SyncError(
    `${expected.path} was written and reads back differently: bytes, rows, rows of its groups, first and last _seq, groups with an absent key should be ${wanted.join(', ')}, and are ${found.join(', ')}. Check the disk, and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { file: expected.path } },
  );
}

function readAt(file: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let at = 0;
  while (at < length) {
    const read = readSync(file, bytes, at, length - at, position + at);
    if (read === 0) break;
    at += read;
  }
  return bytes;
}
