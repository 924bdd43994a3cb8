import { widenedText } from '../../core/json-text.ts';
import { isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Column, ColumnValue, EntityTable, FieldType } from '../../core/records.ts';
import type { Entity, MovedAddress } from '../../definitions/definition.ts';
import { canonicalJson } from './canonical-json.ts';

const minInt64 = -(2n ** 63n);
const maxInt64 = 2n ** 63n - 1n;

/** The value as its column holds it, or undefined where it does not fit without loss. Null fits everywhere. */
export function toColumnValue(
  { type, isWidened = false }: { readonly type: FieldType; readonly isWidened?: boolean },
  value: JsonValue,
): ColumnValue | undefined {
  if (value === null) return null;
  if (isWidened) return widenedText(value);
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

const noFields: ReadonlyMap<string, JsonValue> = new Map();

/**
 * Fields that `filledFrom` names and that the record lacks, has as null, or has equal to the other field; with that
 * one's value. Throws `TooDeepError`.
 */
export function copiedFields(
  record: JsonObject,
  filledFrom: Entity['filledFrom'],
): ReadonlyMap<string, JsonValue> {
  if (filledFrom.size === 0) return noFields;
  const copied = new Map<string, JsonValue>();
  for (const [field, source] of filledFrom) {
    const value = memberOf(record, source) ?? null;
    if (value === null) continue;
    const own = memberOf(record, field) ?? null;
    if (own === null || canonicalJson(own) === canonicalJson(value)) copied.set(field, value);
  }
  return copied;
}

/** The address as it was before the service moved; null where it has not moved. */
export function oldAddress(moved: MovedAddress | undefined, value: JsonValue): string | null {
  if (moved === undefined || typeof value !== 'string' || !value.startsWith(moved.to)) return null;
  return moved.from + value.slice(moved.to.length);
}

export type Slot = ReturnType<typeof slotOf>;

export function slotOf(
  table: EntityTable,
  volatilePaths: readonly (readonly string[])[],
  { name, type, isEvolved, isWidened }: Column,
  index: number,
) {
  const volatile = volatilePaths
    .filter(([first]) => first === name || first === '*')
    .map((path) => path.slice(1));
  return {
    name,
    index,
    type,
    isWidened: isWidened === true,
    isKey: table.key.includes(name),
    /** Added for an undeclared field: it is hashed as if it lay in `extra`. */
    isEvolved: isEvolved === true,
    /** Null: nothing in it is volatile. An empty path in it: all of it is. */
    volatile: volatile.length === 0 ? null : volatile,
  };
}

export function injectedValues(
  slots: ReadonlyMap<string, Slot>,
  inject: Readonly<Record<string, JsonValue>>,
  width: number,
) {
  const values = Array.from({ length: width }, (): ColumnValue => null);
  const isFilled = Array.from({ length: width }, () => false);
  for (const [name, value] of Object.entries(inject)) {
    const slot = slots.get(name);
    if (slot === undefined) continue;
    values[slot.index] = toColumnValue(slot, value) ?? null;
    isFilled[slot.index] = true;
  }
  return { from: inject, values, isFilled };
}
