import { isJsonObject, type JsonValue } from '../../core/json.ts';
import type { ColumnValue, FieldType } from '../../core/records.ts';
import { canonicalJson } from './canonical-json.ts';

const minInt64 = -(2n ** 63n);
const maxInt64 = 2n ** 63n - 1n;

/** The value as its column holds it, or undefined where it does not fit without loss. Null fits everywhere. */
export function toColumnValue(type: FieldType, value: JsonValue): ColumnValue | undefined {
  if (value === null) return null;
  switch (type) {
    case 'string':
      // A lone surrogate has no UTF-8 form: SQLite would hand back something else.
      return typeof value === 'string' && value.isWellFormed() ? value : undefined;
    case 'integer':
      if (typeof value === 'bigint') return value >= minInt64 && value <= maxInt64 ? value : undefined;
      return typeof value === 'number' && Number.isSafeInteger(value) && !Object.is(value, -0)
        ? value
        : undefined;
    case 'number':
      return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
    case 'boolean':
      return typeof value === 'boolean' ? Number(value) : undefined;
    case 'object':
      return isJsonObject(value) ? canonicalJson(value) : undefined;
    case 'array':
      return Array.isArray(value) ? canonicalJson(value) : undefined;
    case 'any':
      return canonicalJson(value);
  }
}
