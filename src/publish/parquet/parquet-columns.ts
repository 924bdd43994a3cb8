import type { SchemaElement } from 'hyparquet';
import { writeNumber } from '../../core/json-text.ts';
import type { ColumnValue, FieldType } from '../../core/records.ts';
import { isJsonColumn } from '../../sinks/decisions/stored-table.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';

/** A column of the record, by its name in the file. */
export interface RecordColumn {
  readonly name: string;
  readonly type: FieldType;
  readonly isKey: boolean;
}

/** What Parquet is given. */
export type ParquetValue = string | number | bigint | boolean | null;

export interface ParquetColumn {
  readonly element: SchemaElement;
  /** JSON text. */
  readonly isJson?: boolean;
  /** Throws `ValueError` for a value that the column cannot hold as it is. */
  readonly read: (record: StoredRecord) => ParquetValue;
}

/** A value is not of its column's type. */
export class ValueError extends Error {
  override readonly name = 'ValueError';
}

/** The columns of a file in their order: of a deleted record the key alone, and what the program adds. */
export function parquetColumns(columns: readonly RecordColumn[]): readonly ParquetColumn[] {
  return [...columns.map(recordColumn), ...ownColumns];
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

function recordColumn({ name, type, isKey }: RecordColumn, index: number): ParquetColumn {
  const [physical, convert] = physicalTypes[type];
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
type Physical = readonly [Pick<SchemaElement, 'type' | 'converted_type'>, (value: Present) => ParquetValue];

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
