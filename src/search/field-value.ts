import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { ColumnValue, FieldType } from '../core/records.ts';
import { readJson } from '../core/json-text.ts';
import { quoted } from '../sinks/sqlite/quoted.ts';
import type { FieldSource, SearchField } from './search-target.ts';

/** Where a source's stored value is found: `r` is the searched row, `p` its parent. */
export function sourceSql(source: FieldSource): string {
  switch (source.kind) {
    case 'column':
      return `r.${quoted(source.column)}`;
    case 'parent':
      return `p.${quoted(source.column)}`;
    case 'extra':
      return 'r._extra';
  }
}

/**
 * Reads a field from what its sources hold of a row, in their order (`sourceSql`; integers as bigint or number): the first
 * that has a value, in the field's shape. Null where none has, or where it is not of the field's type. An integer that a
 * double cannot hold is a bigint.
 */
export function fieldReader(field: SearchField): (stored: readonly ColumnValue[]) => JsonValue {
  const readers = field.sources.map(sourceReader);
  const shape = (value: JsonValue): JsonValue =>
    field.shape === 'pairs' && isJsonObject(value) ? pairsOf(value) : value;
  return (stored) => {
    for (const [index, read] of readers.entries()) {
      const value = read(stored[index] ?? null);
      if (value !== null) return isOfType(field.type, value) ? shape(value) : null;
    }
    return null;
  };
}

function sourceReader(source: FieldSource): (stored: ColumnValue) => JsonValue {
  if (source.kind === 'extra') {
    const { name } = source;
    return readingTextOnce((text) => {
      const extra = readJson(text);
      return isJsonObject(extra) && Object.hasOwn(extra, name) ? (extra[name] ?? null) : null;
    });
  }
  switch (source.type) {
    case 'object':
    case 'array':
    case 'any':
      return readingTextOnce(readJson);
    case 'boolean':
      return (stored) => (stored === null ? null : Number(stored) !== 0);
    case 'integer':
    case 'number':
      return (stored) => (typeof stored === 'bigint' ? plainInteger(stored) : stored);
    case 'string':
      return source.kind === 'column' && source.isAbsentWhenEmpty === true
        ? (stored) => (stored === '' ? null : stored)
        : (stored) => stored;
  }
}

/** Several conditions ask for the same row's value one after the other: its text is taken apart once. */
function readingTextOnce(read: (text: string) => JsonValue): (stored: ColumnValue) => JsonValue {
  let lastText: string | null = null;
  let last: JsonValue = null;
  return (stored) => {
    if (stored === null) return null;
    const text = String(stored);
    if (text !== lastText) {
      last = read(text);
      lastText = text;
    }
    return last;
  };
}

function plainInteger(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function isOfType(type: FieldType, value: JsonValue): boolean {
  switch (type) {
    case 'string':
    case 'boolean':
      return typeof value === type;
    case 'integer':
      return typeof value === 'bigint' || Number.isInteger(value);
    case 'number':
      return typeof value === 'number' || typeof value === 'bigint';
    case 'object':
    case 'array':
    case 'any':
      return true;
  }
}

function pairsOf(value: JsonObject): readonly JsonValue[] {
  return Object.entries(value).map(([name, member]) => ({ name, value: member }));
}
