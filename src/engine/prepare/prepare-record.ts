import { isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import {
  keyTextOf,
  type ColumnValue,
  type FieldDrift,
  type PreparedRecord,
  type Quarantined,
  type QuarantineReason,
} from '../../core/records.ts';
import {
  canonicalJson,
  canonicalJsonWithout,
  TooDeepError,
  hashedText,
  shortHash,
  volatileText,
  type VolatileField,
} from './canonical-json.ts';
import { copiedFields, injectedValues, oldAddress, toColumnValue, type Slot } from './column-value.ts';
import { keyFault } from './record-key.ts';
import { refuseRecord } from './refuse-record.ts';
import { compileShape, type CompiledShape, type RecordShape } from './record-shape.ts';
import { describeNews, schemaChanged } from './schema-policy.ts';

/**
 * To be raised with every change of what is stored of the same bytes: rows that were stored before are then read again.
 */
export const readingVersion = 1;

/** Larger records are quarantined: a row of this size would stall every reader of the table. */
const maxRecordChars = 16 * 1024 * 1024;

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
  const compiled = compileShape(shape);
  const { slots, table } = compiled;
  const width = table.columns.length;
  /** What the partition fills in, worked out once for all records that share it. */
  let injected = injectedValues(slots, {}, width);

  return (raw, inject) => {
    if (!isJsonObject(raw)) {
      return refuse(compiled, raw, 'not-an-object', `expected an object, got ${kindOf(raw)}`);
    }
    if (inject !== injected.from) injected = injectedValues(slots, inject, width);
    try {
      return withKey(compiled, injected, raw, prepare(compiled, injected, raw));
    } catch (error) {
      if (!(error instanceof TooDeepError)) throw error;
      return withKey(compiled, injected, raw, refuse(compiled, raw, 'too-deep', error.message));
    }
  };
}

/** A refused record with its key, as far as that is known: one that was purged stays out of the quarantine too. */
function withKey(
  { keySlots }: CompiledShape,
  { isFilled, values }: Row['injected'],
  raw: JsonObject,
  prepared: Prepared,
): Prepared {
  if (prepared.kind === 'record') return prepared;
  const parts = keySlots.map((slot) =>
    isFilled[slot.index] === true
      ? values[slot.index]
      : toColumnValue(slot, memberOf(raw, slot.name) ?? null),
  );
  const known = parts.flatMap((part) => (part === undefined || part === null ? [] : [part]));
  if (known.length < parts.length) return prepared;
  return { ...prepared, refused: { ...prepared.refused, keyText: keyTextOf(known) } };
}

/** A record, and what its fields come to as far as they are read; null: nothing yet. */
interface Row {
  readonly raw: JsonObject;
  readonly injected: ReturnType<typeof injectedValues>;
  readonly copied: ReadonlyMap<string, JsonValue>;
  readonly values: ColumnValue[];
  extra: Record<string, JsonValue> | null;
  /** Values of columns that were added for undeclared fields, as they came. */
  evolved: Record<string, JsonValue> | null;
  drift: FieldDrift[] | null;
  moved: VolatileField[] | null;
  readonly volatile: VolatileField[];
}

function prepare(shape: CompiledShape, injected: Row['injected'], raw: JsonObject): Prepared {
  const row: Row = {
    raw,
    injected,
    copied: copiedFields(raw, shape.filledFrom),
    values: [...injected.values],
    extra: null,
    evolved: null,
    drift: null,
    moved: null,
    volatile: [],
  };
  return readFields(shape, row) ?? checkKey(shape, row) ?? checkNews(shape, row) ?? finish(shape, row);
}

/** Puts every field into its column or into `extra`. */
function readFields(shape: CompiledShape, row: Row): Prepared | null {
  const { slots, ignored, explodedField, noteOf } = shape;
  const { raw, injected, copied, values } = row;
  for (const name of Object.keys(raw)) {
    if (ignored.has(name) || copied.has(name)) continue;
    const value = raw[name] ?? null;
    const isExploded = name === explodedField;
    if (isExploded && (value === null || Array.isArray(value))) continue;
    const slot = slots.get(name);
    if (slot === undefined) {
      (row.extra ??= noFields())[name] = value;
      (row.drift ??= []).push(noteOf(name, isExploded ? 'misfit' : 'undeclared', value));
      continue;
    }
    const fitting = toColumnValue(slot, value);
    const isInjected = injected.isFilled[slot.index] === true;
    if (fitting === undefined && slot.isKey && !isInjected) {
      return refuse(shape, raw, 'key-type', `${name} must be ${slot.type}, got ${kindOf(value)}`);
    }
    if (fitting === undefined) (row.drift ??= []).push(noteOf(name, 'misfit', value));
    if (isInjected ? fitting !== values[slot.index] : fitting === undefined) {
      (row.extra ??= noFields())[name] = value;
    }
    if (!isInjected && fitting !== undefined) fill(shape, row, slot, value, fitting);
  }
  return null;
}

function fill(shape: CompiledShape, row: Row, slot: Slot, value: JsonValue, fitting: ColumnValue): void {
  const { name, index, volatile } = slot;
  row.values[index] = fitting;
  const oldText = oldAddress(shape.moved?.get(name), value);
  if (oldText !== null) (row.moved ??= []).push({ index, text: oldText, stableText: oldText });
  if (slot.isEvolved) (row.evolved ??= noFields())[name] = value;
  else if (volatile !== null) {
    // '' where all of the field is volatile.
    const isWhole = volatile.some((path) => path.length === 0);
    const stableText = isWhole ? '' : canonicalJsonWithout(value, volatile);
    row.volatile.push({ index, text: String(fitting), stableText });
  }
}

/** So that a field called __proto__ is a field like any other. */
function noFields(): Record<string, JsonValue> {
  return Object.create(null) as Record<string, JsonValue>;
}

function checkKey(shape: CompiledShape, { raw, injected, values }: Row): Prepared | null {
  const fault = keyFault(shape, injected, values);
  return fault === null ? null : refuse(shape, raw, 'key-missing', fault);
}

function checkNews(shape: CompiledShape, { raw, drift }: Row): Prepared | null {
  const { onNews } = shape.policy;
  if (onNews === 'accept' || drift === null) return null;
  const news = drift.filter(({ isRefused }) => isRefused === true);
  const [first] = news;
  if (first === undefined) return null;
  if (onNews === 'fail') throw schemaChanged(first);
  return refuse(shape, raw, 'schema-change', `it has ${describeNews(first)}`, news);
}

function finish(shape: CompiledShape, row: Row): Prepared {
  const { raw, injected, values, extra } = row;
  const extraText = extra === null ? null : canonicalJson(extra);
  const text = contentText(shape, row, extraText);
  if (text.length > maxRecordChars) {
    return refuse(shape, raw, 'too-large', `${text.length} characters, at most ${maxRecordChars}`);
  }
  // After the hash: rows that were stored without their copies are no other rows.
  for (const [name, value] of row.copied) {
    const slot = shape.slots.get(name);
    if (slot !== undefined) values[slot.index] ??= toColumnValue(slot, value) ?? null;
  }
  return {
    kind: 'record',
    drift: row.drift ?? [],
    extraFields: extra === null ? 0 : Object.keys(extra).length,
    record: {
      keyText: keyTextOf(shape.keySlots.map(({ index }) => values[index] ?? null)),
      hash: shortHash(text),
      volatileHash: shape.volatile.length === 0 ? null : shortHash(volatileText(row.volatile)),
      values,
      extra: extraText,
      ...(shape.fileOf === null ? {} : { file: shape.fileOf(raw, injected.from) }),
    },
  };
}

/** What the record's hash is made of. Adds what is volatile of the undeclared fields to `row.volatile`. */
function contentText({ columns, volatile }: CompiledShape, row: Row, extraText: string | null): string {
  const { values, extra, evolved, moved } = row;
  const undeclared = evolved === null ? extra : { ...evolved, ...extra };
  const text = undeclared === null || evolved === null ? extraText : canonicalJson(undeclared);
  const stableText =
    undeclared === null || volatile.length === 0 ? text : canonicalJsonWithout(undeclared, volatile);
  if (text !== null && stableText !== null && stableText !== text) {
    row.volatile.push({ index: columns.length, text, stableText });
  }
  const excepted = moved === null ? row.volatile : [...row.volatile, ...moved];
  return hashedText(columns, values, excepted, stableText);
}

function refuse(
  { table }: CompiledShape,
  raw: JsonValue,
  reason: QuarantineReason,
  detail: string,
  drift: readonly FieldDrift[] = [],
): Prepared {
  return { kind: 'refused', refused: refuseRecord(table.entity, reason, detail, raw), drift };
}

/** What a value is, for a person; a short one as it came. */
function kindOf(value: JsonValue): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `${typeof value} ${String(value).slice(0, 40)}`;
}
