import { DuckDBInstance, DuckDBTimestampTZValue, type DuckDBValue } from '@duckdb/node-api';
import { type ModelRow, numberText } from './stored-model.ts';

/** Rows of a query on a published file, opened as another reader would, and closed. */
export async function askDuckdbFile(
  file: string,
  sql: string,
): Promise<readonly Readonly<Record<string, DuckDBValue>>[]> {
  const instance = await DuckDBInstance.create(file, { access_mode: 'READ_ONLY', threads: '2' });
  try {
    const connection = await instance.connect();
    try {
      return (await connection.runAndReadAll(sql)).getRowObjects();
    } finally {
      connection.closeSync();
    }
  } finally {
    instance.closeSync();
  }
}

/** Each value as text. */
export function duckdbTexts(row: Readonly<Record<string, DuckDBValue>>): ModelRow {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, textOf(value)]));
}

function textOf(value: DuckDBValue): string | null {
  if (value === null) return null;
  if (value instanceof DuckDBTimestampTZValue) return new Date(Number(value.micros / 1_000n)).toISOString();
  return typeof value === 'number' ? numberText(value) : String(value);
}
