import { type JsonObject, type JsonValue, readJson } from '../../../src/core/json.ts';
import type { FieldType } from '../../../src/core/records.ts';

/** A column of a SQLite table, read with whole integers, as the JSON value it stands for. */
export function columnValue(type: FieldType, value: unknown): JsonValue {
  if (value === null || value === undefined) return null;
  if (type === 'boolean') return value === 1n;
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (typeof value === 'number') return value;
  if (typeof value !== 'string') throw new Error(`Unexpected ${typeof value} in a column`);
  return type === 'string' ? value : readJson(value);
}

/** Rows in the order of their keys' texts. */
export function byKey(rows: readonly JsonObject[], key: readonly string[]): readonly JsonObject[] {
  const text = (row: JsonObject): string => JSON.stringify(key.map((name) => row[name]));
  return [...rows].sort((left, right) => (text(left) < text(right) ? -1 : 1));
}
