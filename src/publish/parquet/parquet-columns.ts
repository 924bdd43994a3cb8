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
  readonly isJson: boolean;
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
  {
    element: { name: '_seq', type: 'INT64', ...required },
    isJson: false,
    read: ({ seq }) => BigInt(seq),
  },
  {
    element: { name: '_changed_at', ...time, ...required },
    isJson: false,
    read: ({ changedAt }) => milliseconds(changedAt),
  },
  { element: { name: '_run_id', ...text, ...required }, isJson: false, read: ({ run }) => run },
  {
    element: { name: '_deleted', type: 'BOOLEAN', ...required },
    isJson: false,
    read: ({ isDeleted }) => isDeleted,
  },
  {
    element: { name: '_deleted_at', ...time, ...optional },
    isJson: false,
    read: ({ isDeleted, changedAt }) => (isDeleted ? milliseconds(changedAt) : null),
  },
];

function recordColumn({ name, type, isKey }: RecordColumn, index: number): ParquetColumn {
  const [physical, convert] = physicalType(type);
  const isJson = isJsonColumn(type);
  if (isKey) {
    const read = ({ values }: StoredRecord): ParquetValue => convert(values[index] ?? absent(name));
    return { element: { name, ...physical, ...required }, isJson, read };
  }
  const read = ({ isDeleted, values }: StoredRecord): ParquetValue => {
    const value = values[index] ?? null;
    return isDeleted || value === null ? null : convert(value);
  };
  return { element: { name, ...physical, ...optional }, isJson, read };
}

type Convert = (value: Exclude<ColumnValue, null>) => ParquetValue;

function physicalType(type: FieldType): readonly [Pick<SchemaElement, 'type' | 'converted_type'>, Convert] {
  switch (type) {
    case 'string':
      return [text, (value) => wellFormed(typeof value === 'string' ? value : misfit(type, value))];
    case 'integer':
      return [{ type: 'INT64' }, (value) => integer(value)];
    case 'number':
      return [{ type: 'DOUBLE' }, (value) => double(value)];
    case 'boolean':
      return [{ type: 'BOOLEAN' }, (value) => truth(value)];
    case 'object':
    case 'array':
    case 'any':
      return [text, (value) => jsonText(value)];
  }
}

function integer(value: Exclude<ColumnValue, null>): bigint {
  if (typeof value === 'bigint') return BigInt.asIntN(64, value) === value ? value : misfit('integer', value);
  return Number.isSafeInteger(value) && !Object.is(value, -0) ? BigInt(value) : misfit('integer', value);
}

function double(value: Exclude<ColumnValue, null>): number {
  if (typeof value === 'number') return value;
  return typeof value === 'bigint' && BigInt(Number(value)) === value
    ? Number(value)
    : misfit('number', value);
}

function truth(value: Exclude<ColumnValue, null>): boolean {
  if (value === 1 || value === 1n) return true;
  return value === 0 || value === 0n ? false : misfit('boolean', value);
}

function jsonText(value: Exclude<ColumnValue, null>): string {
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

function absent(name: string): never {
  throw new ValueError(`the key "${name}" has no value`);
}
