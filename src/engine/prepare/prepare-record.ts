import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import {
  keyTextOf,
  type FieldDrift,
  type PreparedRecord,
  type Quarantined,
  type QuarantineReason,
} from '../../core/records.ts';
import type { EntityName } from '../../core/names.ts';
import {
  wholeJson,
  canonicalJson,
  canonicalJsonWithout,
  TooDeepError,
  hashedColumns,
  hashedText,
  shortHash,
  volatileText,
  type VolatileField,
} from './canonical-json.ts';
import { copiedFields, injectedValues, oldAddress, slotOf, toColumnValue } from './column-value.ts';
import type { Action, Entity } from '../../definitions/definition.ts';
import {
  driftNotes,
  acceptEverything,
  describeNews,
  schemaChanged,
  type SchemaPolicy,
} from './schema-policy.ts';
import { compileFileOfRecord } from './file-of-record.ts';

/** Larger records are quarantined: a row of this size would stall every reader of the table. */
const maxRecordChars = 16 * 1024 * 1024;

/** `filledFrom` and `moved` absent: there are none. */
export interface RecordShape
  extends Pick<Entity, 'table' | 'ignored' | 'volatile'>, Partial<Pick<Entity, 'filledFrom' | 'moved'>> {
  /** An array field whose elements become separate rows: it leaves this row. */
  readonly explodedField: string | null;
  /** How the file that belongs to a record is asked for; null or absent: the records have none. */
  readonly download?: Action | null;
  /** Absent: whatever comes is stored. */
  readonly policy?: SchemaPolicy;
}

/**
 * The shape of an entity's own records: with `explodedShape` the only place that says what of them is stored. Without a
 * policy whatever comes is stored.
 */
export function recordShape(entity: Entity, policy: SchemaPolicy = acceptEverything): RecordShape {
  const { table, ignored, volatile, filledFrom, moved, explode, actions } = entity;
  const download = actions.get('download') ?? null;
  return {
    table,
    ignored,
    volatile,
    filledFrom,
    moved,
    explodedField: explode?.field ?? null,
    download,
    policy,
  };
}

/** The shape of the elements of the entity's exploded field; null where it explodes nothing. */
export function explodedShape(
  { explodedTable }: Entity,
  policy: SchemaPolicy = acceptEverything,
): RecordShape | null {
  if (explodedTable === null) return null;
  return { table: explodedTable, ignored: new Set(), volatile: [], explodedField: null, policy };
}

/** `drift`: its undeclared and misfitting fields; of a refused record those that it was refused for. */
export type Prepared = { readonly drift: readonly FieldDrift[] } & (
  | { readonly kind: 'record'; readonly record: PreparedRecord; readonly extraFields: number }
  | { readonly kind: 'refused'; readonly refused: Quarantined }
);

/**
 * Turns a raw value into a row of `shape.table`, or a quarantined record. Only ignored fields are dropped: the rest
 * goes to `extra`. `inject` (field -> value) wins over the record's own value, which goes to `extra`. Throws
 * `SyncError` SCHEMA_CHANGED where the policy wants it.
 */
export function compilePrepare(
  shape: RecordShape,
): (raw: JsonValue, inject: Readonly<Record<string, JsonValue>>) => Prepared {
  const { table, policy = acceptEverything, filledFrom = new Map<string, string>() } = shape;
  const columns = hashedColumns(table.columns);
  const fileOf = compileFileOfRecord(shape.download ?? null);
  const noteOf = driftNotes(table.entity, policy);
  const slots = new Map(
    table.columns.map((column, index) => [column.name, slotOf(table, shape.volatile, column, index)]),
  );
  const keySlots = table.key.flatMap((name) => {
    const slot = slots.get(name);
    return slot === undefined ? [] : [{ name, slot }];
  });

  const refuse = (
    reason: QuarantineReason,
    detail: string,
    raw: JsonValue,
    drift: readonly FieldDrift[] = [],
  ): Prepared => ({ kind: 'refused', refused: refuseRecord(table.entity, reason, detail, raw), drift });

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
    let evolved: Map<string, JsonValue> | null = null;
    let drift: FieldDrift[] | null = null;
    const volatile: VolatileField[] = [];
    const moved: VolatileField[] = [];
    const copied = copiedFields(raw, filledFrom);
    for (const name of Object.keys(raw)) {
      if (shape.ignored.has(name) || copied.has(name)) continue;
      const value = raw[name] ?? null;
      const isExploded = name === shape.explodedField;
      if (isExploded && (value === null || Array.isArray(value))) continue;
      const slot = slots.get(name);
      if (slot === undefined) {
        (extra ??= new Map<string, JsonValue>()).set(name, value);
        (drift ??= []).push(noteOf(name, isExploded ? 'misfit' : 'undeclared', value));
        continue;
      }
      const fitting = toColumnValue(slot.type, value);
      const isInjected = injected.isFilled[slot.index] === true;
      if (fitting === undefined && slot.isKey && !isInjected) {
        return refuse('key-type', `${name} must be ${slot.type}, got ${kindOf(value)}`, raw);
      }
      if (fitting === undefined) (drift ??= []).push(noteOf(name, 'misfit', value));
      if (isInjected ? fitting !== values[slot.index] : fitting === undefined) {
        (extra ??= new Map<string, JsonValue>()).set(name, value);
      }
      if (isInjected || fitting === undefined) continue;
      values[slot.index] = fitting;
      const oldText = oldAddress(shape.moved?.get(name), value);
      if (oldText !== null) moved.push({ index: slot.index, text: oldText, stableText: oldText });
      if (slot.isEvolved) (evolved ??= new Map<string, JsonValue>()).set(name, value);
      else if (slot.volatile !== null) {
        volatile.push({
          index: slot.index,
          text: String(fitting),
          stableText: stableTextOf(slot.volatile, value),
        });
      }
    }
    const missing = keySlots.find(({ slot }) => values[slot.index] === null);
    if (missing !== undefined) {
      return refuse('key-missing', `the record has no ${missing.name}, which is part of its key`, raw);
    }
    if (keySlots.every(({ slot }) => injected.isFilled[slot.index] === true || values[slot.index] === '')) {
      const key = table.key.join(', ');
      return refuse('key-missing', `every part of the key that the record carries is empty (${key})`, raw);
    }
    const news =
      policy.onNews === 'accept' ? [] : (drift ?? []).filter(({ isRefused }) => isRefused === true);
    const [firstNews] = news;
    if (firstNews !== undefined && policy.onNews === 'fail') throw schemaChanged(firstNews);
    if (firstNews !== undefined) {
      return refuse('schema-change', `it has ${describeNews(firstNews)}`, raw, news);
    }
    const extraText = extra === null ? null : canonicalJson(withoutPrototype(extra));
    const undeclared = evolved === null ? extra : new Map([...evolved, ...(extra ?? [])]);
    const undeclaredText =
      undeclared === null || undeclared === extra ? extraText : canonicalJson(withoutPrototype(undeclared));
    const stableText =
      undeclared === null || shape.volatile.length === 0
        ? undeclaredText
        : canonicalJsonWithout(withoutPrototype(undeclared), shape.volatile);
    if (undeclaredText !== null && stableText !== null && stableText !== undeclaredText) {
      volatile.push({ index: columns.length, text: undeclaredText, stableText });
    }
    const text = hashedText(columns, values, [...volatile, ...moved], stableText);
    if (text.length > maxRecordChars) {
      return refuse('too-large', `${text.length} characters, at most ${maxRecordChars}`, raw);
    }
    // After the hash: rows that were stored without their copies are no other rows.
    for (const [name, value] of copied) {
      const slot = slots.get(name);
      if (slot !== undefined) values[slot.index] ??= toColumnValue(slot.type, value) ?? null;
    }
    return {
      kind: 'record',
      drift: drift ?? [],
      extraFields: extra?.size ?? 0,
      record: {
        keyText: keyTextOf(keySlots.map(({ slot }) => values[slot.index] ?? null)),
        hash: shortHash(text),
        volatileHash: shape.volatile.length === 0 ? null : shortHash(volatileText(volatile)),
        values,
        extra: extraText,
        ...(fileOf === null ? {} : { file: fileOf(raw, inject) }),
      },
    };
  }

  return (raw, inject) => {
    if (!isJsonObject(raw)) return refuse('not-an-object', `expected an object, got ${kindOf(raw)}`, raw);
    try {
      return prepare(raw, inject);
    } catch (error) {
      if (error instanceof TooDeepError) return refuse('too-deep', error.message, raw);
      throw error;
    }
  };
}

/** '' where all of the field is volatile. */
function stableTextOf(volatile: readonly (readonly string[])[], value: JsonValue): string {
  return volatile.some((path) => path.length === 0) ? '' : canonicalJsonWithout(value, volatile);
}

/** So that a field called __proto__ is a field like any other. */
function withoutPrototype(extra: ReadonlyMap<string, JsonValue>): JsonObject {
  const fields = Object.create(null) as Record<string, JsonValue>;
  for (const [name, value] of extra) fields[name] = value;
  return fields;
}

const maxQuarantinedChars = 1024 * 1024;

/** The record for the quarantine: whole, except where its size is what it is refused for. */
export function refuseRecord(
  entity: EntityName,
  reason: QuarantineReason,
  detail: string,
  raw: JsonValue,
): Quarantined {
  const text = wholeJson(raw);
  const isCut = text.length > maxQuarantinedChars && (reason === 'too-deep' || reason === 'too-large');
  return {
    entity,
    reason,
    detail: isCut
      ? `${detail}; the first ${maxQuarantinedChars} of ${text.length} characters are kept`
      : detail,
    record: isCut ? text.slice(0, maxQuarantinedChars) : text,
  };
}

/** What a value is, for a person; a short one as it came. */
function kindOf(value: JsonValue): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `${typeof value} ${String(value).slice(0, 40)}`;
}
