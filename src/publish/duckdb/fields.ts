import type { DuckDBType, DuckDBValue } from '@duckdb/node-api';
import type { ColumnValue, FieldType } from '../../core/records.ts';
import { withoutHalves } from '../row-text.ts';
import type { PlannedEntity } from '../target.ts';
import type { Library } from './open-duckdb.ts';

export type BuiltEntity = Pick<
  PlannedEntity,
  'connector' | 'entity' | 'generation' | 'key' | 'columns' | 'isNewGeneration'
>;

/** The values of the columns, then `_extra`, `_seq`, `_changed_at`, `_run_id` and `_deleted` (0 or 1). */
export type BuiltRow = readonly ColumnValue[];

/** Of its texts together. */
export function charsOf(row: BuiltRow): number {
  let chars = 0;
  for (const value of row) if (typeof value === 'string') chars += value.length;
  return chars;
}

/** A column of a table: its type, and how a value becomes one of DuckDB. */
export interface Field {
  readonly name: string;
  readonly sql: string;
  readonly type: (library: Library) => DuckDBType;
  readonly read: (value: Exclude<ColumnValue, null>, library: Library) => DuckDBValue;
}

const text = { sql: 'VARCHAR', type: ({ VARCHAR }: Library) => VARCHAR, read: String };
const integer = {
  sql: 'BIGINT',
  type: ({ BIGINT }: Library) => BIGINT,
  read: (value: string | number | bigint) => BigInt(value),
};
const boolean = {
  sql: 'BOOLEAN',
  type: ({ BOOLEAN }: Library) => BOOLEAN,
  read: (value: string | number | bigint) => Number(value) !== 0,
};
/**
 * Its text, as it came, without `\ud83d` alone: DuckDB's functions on JSON fail on it, for all rows that a query
 * reads.
 */
const json = {
  sql: 'JSON',
  type: ({ VARCHAR }: Library) => VARCHAR,
  read: (value: string | number | bigint) => {
    const text = String(value);
    return /\\u[dD][89a-fA-F]/.test(text) ? withoutHalves(text, '\\ufffd') : text;
  },
};
const instant = {
  sql: 'TIMESTAMPTZ',
  type: ({ TIMESTAMPTZ }: Library) => TIMESTAMPTZ,
  read: (value: string | number | bigint, { DuckDBTimestampTZValue }: Library) =>
    new DuckDBTimestampTZValue(BigInt(Date.parse(String(value))) * 1_000n),
};

export const fieldTypes: Readonly<Record<FieldType, Omit<Field, 'name'>>> = {
  string: text,
  integer,
  number: { sql: 'DOUBLE', type: ({ DOUBLE }) => DOUBLE, read: Number },
  boolean,
  object: json,
  array: json,
  any: json,
};

const ownFields: readonly Field[] = [
  { name: '_extra', ...json },
  { name: '_seq', ...integer },
  { name: '_changed_at', ...instant },
  { name: '_run_id', ...text },
  { name: '_deleted', ...boolean },
  { name: '_deleted_at', ...instant },
];

export const ownTypes = ownFields.map(({ name, sql }) => [name, sql] as const);

/** In the order of a `BuiltRow`, but for `_deleted_at`, which comes of the values in front of it. */
export function fieldsOf({ columns }: Pick<BuiltEntity, 'columns'>): readonly Field[] {
  return [...columns.map(({ name, type }) => ({ name, ...fieldTypes[type] })), ...ownFields];
}
