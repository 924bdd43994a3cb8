import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { EntityName } from '../../core/names.ts';
import type {
  ColumnValue,
  EntityTable,
  FieldType,
  PreparedRecord,
  Quarantined,
  QuarantineReason,
} from '../../core/records.ts';
import { canonicalJson, canonicalJsonWithout, TooDeepError } from './canonical-json.ts';
import { toColumnValue } from './column-value.ts';
import { hashedColumns, hashedText, shortHash, volatileText, type VolatileField } from './record-hash.ts';
import { wholeJson } from './whole-json.ts';

/** Larger records are quarantined: a row of this size would stall every reader of the table. */
const maxRecordChars = 16 * 1024 * 1024;
const maxQuarantinedChars = 1024 * 1024;

/** What `prepareRecord` needs to know of an entity. */
export interface RecordShape {
  readonly table: EntityTable;
  readonly ignored: ReadonlySet<string>;
  /** Dotted paths left out of the hash. */
  readonly volatile: readonly (readonly string[])[];
  /** An array field whose elements become rows of their own: it leaves this row. */
  readonly explodedField: string | null;
}

export type Prepared =
  | { readonly kind: 'record'; readonly record: PreparedRecord; readonly extraFields: number }
  | { readonly kind: 'refused'; readonly refused: Quarantined };

interface Slot {
  readonly index: number;
  readonly type: FieldType;
  readonly isKey: boolean;
  /** Null: nothing in it is volatile. An empty path in it: all of it is. */
  readonly volatile: readonly (readonly string[])[] | null;
}

/**
 * Makes the function that turns one raw value into a row of `shape.table`, or into a quarantined record. Nothing but
 * ignored fields is dropped: what has no column or does not fit it goes to `extra`. `inject` (field -> value) comes
 * from the partition and wins over what the record says of the same field, which is then kept in `extra`.
 */
export function compilePrepare(
  shape: RecordShape,
): (raw: JsonValue, inject: Readonly<Record<string, JsonValue>>) => Prepared {
  const { table } = shape;
  const columns = hashedColumns(table.columns);
  const slots = new Map(
    table.columns.map((column, index) => [column.name, slotOf(shape, column.name, column.type, index)]),
  );
  const keySlots = table.key.flatMap((name) => {
    const slot = slots.get(name);
    return slot === undefined ? [] : [{ name, slot }];
  });

  /** What the partition fills in, worked out once for all records that share it. */
  let injected = injectedValues(slots, {}, table.columns.length);
  let injectedFrom: Readonly<Record<string, JsonValue>> = {};

  function prepare(raw: JsonObject, inject: Readonly<Record<string, JsonValue>>): Prepared {
    if (inject !== injectedFrom) {
      injected = injectedValues(slots, inject, table.columns.length);
      injectedFrom = inject;
    }
    const values = [...injected.values];
    let extra: Map<string, JsonValue> | null = null;
    const volatile: VolatileField[] = [];
    for (const name of Object.keys(raw)) {
      if (shape.ignored.has(name)) continue;
      const value = raw[name] ?? null;
      if (name === shape.explodedField && (value === null || Array.isArray(value))) continue;
      const slot = slots.get(name);
      if (slot === undefined) {
        (extra ??= new Map<string, JsonValue>()).set(name, value);
        continue;
      }
      const fitting = toColumnValue(slot.type, value);
      if (injected.isFilled[slot.index] === true) {
        if (fitting !== values[slot.index]) (extra ??= new Map<string, JsonValue>()).set(name, value);
        continue;
      }
      if (fitting === undefined) {
        if (slot.isKey)
          return refuse(table.entity, 'key-type', `${name} must be ${slot.type}, got ${kindOf(value)}`, raw);
        (extra ??= new Map<string, JsonValue>()).set(name, value);
        continue;
      }
      values[slot.index] = fitting;
      if (slot.volatile !== null)
        volatile.push({
          index: slot.index,
          text: String(fitting),
          stableText: stableTextOf(slot.volatile, value),
        });
    }
    const missing = keySlots.find(({ slot }) => values[slot.index] === null);
    if (missing !== undefined)
      return refuse(
        table.entity,
        'key-missing',
        `the record has no ${missing.name}, which is part of its key`,
        raw,
      );
    if (keySlots.every(({ slot }) => injected.isFilled[slot.index] === true || values[slot.index] === '')) {
      return refuse(
        table.entity,
        'key-missing',
        `every part of the key that the record carries is empty (${table.key.join(', ')})`,
        raw,
      );
    }
    const extraFields = extra === null ? null : withoutPrototype(extra);
    const extraText = extraFields === null ? null : canonicalJson(extraFields);
    const stableExtra =
      extraFields === null || shape.volatile.length === 0
        ? extraText
        : canonicalJsonWithout(extraFields, shape.volatile);
    if (extraText !== null && stableExtra !== null && stableExtra !== extraText) {
      volatile.push({ index: values.length, text: extraText, stableText: stableExtra });
    }
    const text = hashedText(columns, values, volatile, stableExtra);
    if (text.length > maxRecordChars)
      return refuse(table.entity, 'too-large', `${text.length} characters, at most ${maxRecordChars}`, raw);
    return {
      kind: 'record',
      extraFields: extra?.size ?? 0,
      record: {
        keyText: keyTextOf(keySlots.map(({ slot }) => values[slot.index] ?? null)),
        hash: shortHash(text),
        volatileHash: shape.volatile.length === 0 ? null : shortHash(volatileText(volatile)),
        values,
        extra: extraText,
      },
    };
  }

  return (raw, inject) => {
    if (!isJsonObject(raw))
      return refuse(table.entity, 'not-an-object', `expected an object, got ${kindOf(raw)}`, raw);
    try {
      return prepare(raw, inject);
    } catch (error) {
      if (error instanceof TooDeepError) return refuse(table.entity, 'too-deep', error.message, raw);
      throw error;
    }
  };
}

function slotOf(shape: RecordShape, name: string, type: FieldType, index: number): Slot {
  const volatile = shape.volatile
    .filter(([first]) => first === name || first === '*')
    .map((path) => path.slice(1));
  return {
    index,
    type,
    isKey: shape.table.key.includes(name),
    volatile: volatile.length === 0 ? null : volatile,
  };
}

function injectedValues(
  slots: ReadonlyMap<string, Slot>,
  inject: Readonly<Record<string, JsonValue>>,
  width: number,
): { readonly values: readonly ColumnValue[]; readonly isFilled: readonly boolean[] } {
  const values = Array.from({ length: width }, (): ColumnValue => null);
  const isFilled = Array.from({ length: width }, () => false);
  for (const [name, value] of Object.entries(inject)) {
    const slot = slots.get(name);
    if (slot === undefined) continue;
    values[slot.index] = toColumnValue(slot.type, value) ?? null;
    isFilled[slot.index] = true;
  }
  return { values, isFilled };
}

/** '' where all of the field is volatile. */
function stableTextOf(volatile: readonly (readonly string[])[], value: JsonValue): string {
  return volatile.some((path) => path.length === 0) ? '' : canonicalJsonWithout(value, volatile);
}

function keyTextOf(parts: readonly ColumnValue[]): string {
  return `[${parts.map((part) => (typeof part === 'string' ? JSON.stringify(part) : String(part))).join(',')}]`;
}

/** So that a field called __proto__ is a field like any other. */
function withoutPrototype(extra: ReadonlyMap<string, JsonValue>): JsonObject {
  const fields = Object.create(null) as Record<string, JsonValue>;
  for (const [name, value] of extra) fields[name] = value;
  return fields;
}

function kindOf(value: JsonValue): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `${typeof value} ${String(value).slice(0, 40)}`;
}

function refuse(entity: EntityName, reason: QuarantineReason, detail: string, raw: JsonValue): Prepared {
  const text = wholeJson(raw);
  const isCut = text.length > maxQuarantinedChars && (reason === 'too-deep' || reason === 'too-large');
  return {
    kind: 'refused',
    refused: {
      entity,
      reason,
      detail: isCut
        ? `${detail}; the first ${maxQuarantinedChars} of ${text.length} characters are kept`
        : detail,
      record: isCut ? text.slice(0, maxQuarantinedChars) : text,
    },
  };
}
