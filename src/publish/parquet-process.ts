import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, writeSync } from 'node:fs';
import * as zlib from 'node:zlib';
import type { SchemaElement } from 'hyparquet';
import { ByteWriter, type ColumnSource, ParquetWriter } from 'hyparquet-writer';
import { answerParent, explainedAs } from '../child/start-child.ts';
import type { Instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { writeNumber } from '../core/json.ts';
import type { RunId } from '../core/names.ts';
import type { ColumnValue, FieldType } from '../core/records.ts';
import { openPrivateFile } from '../files/private-file.ts';
import { isJsonColumn } from '../sinks/decisions/stored-table.ts';
import type { StoredRecord } from '../sinks/readings.ts';
import { toFileError } from './folder-store.ts';
import { ownColumns as manifestColumns, type PublishedColumn } from './manifest.ts';
import { decimalDigits } from './typed-columns.ts';

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
  create: ({ path, ...content }: ParquetContent & { readonly path: string }): void => {
    leave();
    file = createParquetFile(path, content);
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
  close: (_none: null) => {
    const closed = leftOnFailure((open) => open.close());
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

export interface ParquetContent {
  readonly columns: readonly RecordColumn[];
  /** Describes the records; null: the definition does not. */
  readonly description: string | null;
}

/** A column of the record, by its name in the file. */
export interface RecordColumn {
  readonly name: string;
  readonly type: FieldType;
  readonly as: PublishedColumn['as'];
  readonly isKey: boolean;
  readonly description: string | undefined;
}

/** A value for the Parquet writer. */
type ParquetValue = string | number | bigint | boolean | null;

interface ParquetColumn {
  readonly element: SchemaElement;
  /** JSON text. */
  readonly isJson?: boolean;
  /** Throws `ValueError` for a value that the column cannot hold as it is. */
  readonly read: (record: StoredRecord) => ParquetValue;
}

/** A value is not of its column's type. */
class ValueError extends Error {
  override readonly name = 'ValueError';
}

const text = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const;
const time = {
  type: 'INT64',
  converted_type: 'TIMESTAMP_MILLIS',
  logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
} as const;
const required = { repetition_type: 'REQUIRED' } as const;
const optional = { repetition_type: 'OPTIONAL' } as const;

/** The same as `ownColumns` of the other formats. */
const ownColumns: readonly ParquetColumn[] = [
  {
    element: { name: '_extra', ...text, ...optional },
    isJson: true,
    read: ({ isDeleted, extra }) => (isDeleted || extra === null ? null : wellFormed(extra)),
  },
  { element: { name: '_seq', type: 'INT64', ...required }, read: ({ seq }) => BigInt(seq) },
  {
    element: { name: '_changed_at', ...time, ...required },
    read: ({ changedAt }) => milliseconds(changedAt),
  },
  { element: { name: '_run_id', ...text, ...required }, read: ({ run }) => run },
  { element: { name: '_deleted', type: 'BOOLEAN', ...required }, read: ({ isDeleted }) => isDeleted },
  {
    element: { name: '_deleted_at', ...time, ...optional },
    read: ({ isDeleted, changedAt }) => (isDeleted ? milliseconds(changedAt) : null),
  },
];

function recordColumn({ name, type, as, isKey }: RecordColumn, index: number): ParquetColumn {
  const [physical, convert] = as === undefined ? physicalTypes[type] : typedTypes[as];
  return {
    element: { name, ...physical, ...(isKey ? required : optional) },
    isJson: isJsonColumn(type),
    read: ({ isDeleted, values }) => {
      const value = isDeleted && !isKey ? null : (values[index] ?? null);
      if (value !== null) return convert(value);
      if (isKey) throw new ValueError(`the key "${name}" has no value`);
      return null;
    },
  };
}

type Present = Exclude<ColumnValue, null>;
type Physical = readonly [Omit<SchemaElement, 'name'>, (value: Present) => ParquetValue];

const json: Physical = [text, jsonText];
const physicalTypes: Readonly<Record<FieldType, Physical>> = {
  string: [text, (value) => wellFormed(typeof value === 'string' ? value : misfit('string', value))],
  integer: [{ type: 'INT64' }, integer],
  number: [{ type: 'DOUBLE' }, double],
  boolean: [{ type: 'BOOLEAN' }, truth],
  object: json,
  array: json,
  any: json,
};

/** Types of values that `typedRows` has read. */
const typedTypes: Readonly<Record<NonNullable<RecordColumn['as']>, Physical>> = {
  timestamp: [
    {
      type: 'INT64',
      converted_type: 'TIMESTAMP_MICROS',
      logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
    },
    BigInt,
  ],
  date: [{ type: 'INT32', converted_type: 'DATE', logical_type: { type: 'DATE' } }, Number],
  decimal: [
    {
      type: 'FIXED_LEN_BYTE_ARRAY',
      type_length: 16,
      converted_type: 'DECIMAL',
      ...decimalDigits,
      logical_type: { type: 'DECIMAL', ...decimalDigits },
    },
    BigInt,
  ],
  json: [{ ...text, logical_type: { type: 'JSON' } }, jsonText],
};

function integer(value: Present): bigint {
  if (typeof value === 'bigint') return BigInt.asIntN(64, value) === value ? value : misfit('integer', value);
  return Number.isSafeInteger(value) && !Object.is(value, -0) ? BigInt(value) : misfit('integer', value);
}

function double(value: Present): number {
  if (typeof value === 'number') return value;
  return typeof value === 'bigint' && BigInt(Number(value)) === value
    ? Number(value)
    : misfit('number', value);
}

function truth(value: Present): boolean {
  if (value === 1 || value === 1n) return true;
  return value === 0 || value === 0n ? false : misfit('boolean', value);
}

function jsonText(value: Present): string {
  if (typeof value === 'string') return wellFormed(value);
  return typeof value === 'number' ? writeNumber(value) : value.toString();
}

/** A lone surrogate has no UTF-8 form: it would become another character. */
function wellFormed(value: string): string {
  return value.isWellFormed() ? value : misfit('string', value);
}

function milliseconds(instant: string): bigint {
  const ms = Date.parse(instant);
  return Number.isNaN(ms) ? misfit('time', instant) : BigInt(ms);
}

function misfit(type: string, value: ColumnValue): never {
  const what = typeof value === 'string' ? 'a text that has no such form' : `${typeof value} ${value}`;
  throw new ValueError(`a ${type} was expected, and ${what} came`);
}

/** Rows that are written together, column by column: held until then. Long texts fill a group earlier. */
const groupRows = 20_000;
const groupChars = 16 * 1024 * 1024;
/** Bytes that are held before they are written to the disk. */
const heldBytes = 1024 * 1024;

type ParquetFile = ReturnType<typeof createParquetFile>;

/**
 * One Parquet file, written synchronously by a process that does nothing else. Created for its owner alone. Disposed,
 * it is closed; the caller removes it. It and its methods throw `SyncError` TARGET_FAILED.
 */
function createParquetFile(path: string, { columns: record, description }: ParquetContent) {
  // A deleted record has the key alone, and the columns that the program adds.
  const columns: readonly ParquetColumn[] = [...record.map(recordColumn), ...ownColumns];
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
  const jsonColumns = columns.flatMap(({ isJson, element }) => (isJson === true ? [element.name] : []));
  const descriptions = [...record, ...manifestColumns].flatMap((one) =>
    one.description === undefined ? [] : [[one.name, one.description] as const],
  );
  const writer = new ParquetWriter({
    writer: sink,
    schema: [{ name: 'row', num_children: columns.length }, ...columns.map(({ element }) => element)],
    createdBy: 'connector-sync',
    kvMetadata: [
      { key: `${keys}.json-columns`, value: JSON.stringify(jsonColumns) },
      ...(description === null ? [] : [{ key: `${keys}.description`, value: description }]),
      { key: `${keys}.columns`, value: JSON.stringify(Object.fromEntries(descriptions)) },
    ],
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
    /** Makes it survive a power loss. */
    close: () =>
      explained(() => {
        flush();
        // Only now: the library would make JSON of each text, and DuckDB reads no other mark than this one.
        for (const { element } of columns) {
          if (element.logical_type?.type === 'JSON') element.converted_type = 'JSON';
        }
        void writer.finish();
        fsyncSync(file);
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

/**
 * In the metadata of the footer: an array of the names of columns that hold JSON text, and descriptions of the records
 * and, by name, of the columns.
 */
const keys = 'connector-sync';

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

/** Values and encoding of a group's column. */
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
