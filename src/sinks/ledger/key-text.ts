import type { ColumnValue } from '../../core/records.ts';
import { readJson } from './json-text.ts';

/** The parts of a key's text as columns hold them; null for a text that is no key of `length` parts. */
export function keyPartsOf(keyText: string, length: number): readonly ColumnValue[] | null {
  const parts = readParts(keyText);
  return Array.isArray(parts) && parts.length === length && parts.every(isColumnValue) ? parts : null;
}

function readParts(keyText: string): unknown {
  try {
    return readJson(keyText);
  } catch {
    // Keys come from the command line too: a text that is no JSON is no key.
    return null;
  }
}

function isColumnValue(value: unknown): value is ColumnValue {
  return (
    value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint'
  );
}
