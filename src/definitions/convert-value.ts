import type { JsonValue } from '../core/json.ts';
import type { FieldType } from '../core/records.ts';

const wholeNumber = /^-?(0|[1-9][0-9]{0,18})$/;

/**
 * A value in the form of a parameter or field of this type; null when it has none. Parent records, partitions and
 * command lines do not always carry the declared type: a segment's id is an integer in its record and a string as
 * parameter.
 */
export function convertValue(type: FieldType, value: JsonValue): JsonValue {
  switch (type) {
    case 'any':
      return value;
    case 'string':
      return toText(value);
    case 'integer':
      return toInteger(value);
    case 'number':
      return toNumber(value);
    case 'boolean':
      return toBoolean(value);
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
    case 'array':
      return Array.isArray(value) ? value : null;
  }
}

function toText(value: JsonValue): JsonValue {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : null;
  return typeof value === 'bigint' ? String(value) : null;
}

function toInteger(value: JsonValue): JsonValue {
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return value;
  if (typeof value !== 'string' || !wholeNumber.test(value)) return null;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : BigInt(value);
}

function toNumber(value: JsonValue): JsonValue {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (typeof value !== 'string' || value.trim() === '') return null;
  const number = Number(value);
  return Number.isFinite(number) ? number : null;
}

function toBoolean(value: JsonValue): JsonValue {
  if (typeof value === 'boolean') return value;
  if (value === 'true' || value === 'false') return value === 'true';
  return null;
}
