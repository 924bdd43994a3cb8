import { hash } from 'node:crypto';
import { isJsonObject, memberOf, valueAtKey, type JsonObject, type JsonValue } from '../../core/json.ts';
import {
  keyTextOf,
  type ColumnValue,
  type FieldDrift,
  type PreparedRecord,
  type Quarantined,
  type QuarantineReason,
  type Column,
  type EntityTable,
  type RecordFile,
} from '../../core/records.ts';
import {
  canonicalJson,
  toColumnValue,
  TooDeepError,
  anyJsonWithout,
  wholeJson,
} from '../../core/canonical-json.ts';
import {
  describeNews,
  schemaChanged,
  acceptEverything,
  driftNotes,
  type SchemaPolicy,
} from './schema-policy.ts';
import { valuesOf, type Entity, type Action } from '../../definitions/definition.ts';
import type { Partition } from '../../sinks/partition.ts';
import type { PageRecords } from '../../source/source.ts';
import { missingParams, convertValue } from '../../definitions/params.ts';
import type { EntityName } from '../../core/names.ts';
import type { FoundRow, LookedRecord } from '../../sinks/stored-keys.ts';
import { compileCompare } from './row-content.ts';

/**
 * Version to be raised when the same bytes are stored differently: rows that were stored before are then read again.
 */
export const readingVersion = 2;

/** Larger records are quarantined: a row of this size would stall every reader of the table. */
export const maxRecordChars = 16 * 1024 * 1024;

/** `drift`: its undeclared and misfitting fields; of a refused record those that it was refused for. */
export type Prepared = { readonly drift: readonly FieldDrift[] } & (
  | { readonly kind: 'record'; readonly record: PreparedRecord; readonly extraFields: number }
  | { readonly kind: 'refused'; readonly refused: Quarantined }
);

/**
 * Turns a raw value into a row of `shape.table`, or a quarantined record. Only ignored fields are dropped: the rest
 * goes to `extra`. `inject` (field -> value) wins over the record's own value, which goes to `extra`. Throws
 * `SyncError` SCHEMA_CHANGED where the policy wants it. `hashOf`: as of `hashOfRecord`; `row`: the record as it was
 * looked for, or null.
 */
export function compilePrepare(shape: RecordShape, hashOf: (values: string) => string = () => '') {
  const compiled = compileShape(shape);
  /** The values that the partition fills in, worked out once for all records in a row that share it. */
  let injected = injectedValues(compiled, {});

  return (raw: JsonValue, inject: Partition['inject'], row: LookedRow | null = null): Prepared => {
    if (!isJsonObject(raw)) {
      return refuse(compiled, raw, 'not-an-object', `expected an object, got ${kindOf(raw)}`);
    }
    if (inject !== injected.from) injected = injectedValues(compiled, inject);
    try {
      return withKey(compiled, injected, raw, prepare(compiled, injected, raw, { hashOf, row }));
    } catch (error) {
      if (!(error instanceof TooDeepError)) throw error;
      return withKey(compiled, injected, raw, refuse(compiled, raw, 'too-deep', error.message));
    }
  };
}

/** A record that was looked for by its key and the hash of its bytes. */
export interface LookedRow extends LookedRecord {
  /** Null: no row has its key. */
  found: FoundRow | null;
}

interface Hashing {
  readonly hashOf: (values: string) => string;
  readonly row: LookedRow | null;
}

/**
 * The hash of a record: of its bytes where it was looked for by them, else of its values (`hashOf`). Fields without a
 * column must be reported by each run: with a hash that no bytes have, the record is read each time.
 */
export function hashOfRecord(
  { hashOf, row }: Hashing,
  isReported: boolean,
  { values, extra }: Pick<PreparedRecord, 'values' | 'extra'>,
): string {
  if (row === null) return hashOf(`${keyTextOf(values)}${extra}`);
  return isReported ? `~${row.hash}` : row.hash;
}

/** A refused record with its key, as far as that is known: one that was purged stays out of the quarantine too. */
function withKey(
  shape: CompiledShape,
  injected: InjectedValues,
  raw: JsonObject,
  prepared: Prepared,
): Prepared {
  if (prepared.kind === 'record') return prepared;
  const parts = keyParts(shape, injected, raw);
  if (parts.some((part) => part === undefined || part === null)) return prepared;
  const keyText = keyTextOf(parts.map((part) => part ?? null));
  return { ...prepared, refused: { ...prepared.refused, keyText } };
}

/** Values of the key, in its order; undefined: the record has one that its column cannot hold. */
function keyParts({ keySlots }: CompiledShape, { isFilled, values }: InjectedValues, raw: JsonObject) {
  return keySlots.map((slot) =>
    isFilled[slot.index] === true
      ? values[slot.index]
      : toColumnValue(slot, memberOf(raw, slot.name) ?? null),
  );
}

/** A record with the values of those of its fields that are read so far; null: none yet. */
interface Row {
  readonly raw: JsonObject;
  readonly injected: InjectedValues;
  readonly copied: ReadonlyMap<string, JsonValue>;
  readonly values: ColumnValue[];
  extra: Record<string, JsonValue> | null;
  drift: FieldDrift[] | null;
}

function prepare(
  shape: CompiledShape,
  injected: Row['injected'],
  raw: JsonObject,
  hashing: Hashing,
): Prepared {
  const row: Row = {
    raw,
    injected,
    copied: copiedFields(raw, shape.filledFrom),
    values: [...injected.values],
    extra: null,
    drift: null,
  };
  const refused = readFields(shape, row);
  if (refused !== null) return refused;
  const fault = keyFault(shape, injected, row.values);
  if (fault !== null) return refuse(shape, raw, 'key-missing', fault);
  return checkNews(shape, row) ?? finish(shape, row, hashing);
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
    if (!isInjected && fitting !== undefined) values[slot.index] = fitting;
  }
  return null;
}

/** Object without a prototype, so that a field called __proto__ is a field like any other. */
export function noFields(): Record<string, JsonValue> {
  return Object.create(null) as Record<string, JsonValue>;
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

function finish(shape: CompiledShape, row: Row, hashing: Hashing): Prepared {
  const { raw, injected, values, extra } = row;
  const extraText = extra === null ? null : canonicalJson(extra);
  const chars = charsOf(values, extraText);
  if (chars > maxRecordChars) {
    return refuse(shape, raw, 'too-large', `${chars} characters, at most ${maxRecordChars}`);
  }
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
      hash: hashOfRecord(hashing, row.drift !== null || extra !== null, { values, extra: extraText }),
      values,
      extra: extraText,
      compare: shape.compare,
      found: hashing.row?.found?.found,
      ...(shape.fileOf === null ? {} : { file: shape.fileOf(raw, injected.from) }),
    },
  };
}

/** Characters of the texts that are stored. */
function charsOf(values: readonly ColumnValue[], extra: string | null): number {
  let chars = extra?.length ?? 0;
  for (const value of values) if (typeof value === 'string') chars += value.length;
  return chars;
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

/** Describes a value for a person by its type, and a scalar also by its first 40 characters. */
function kindOf(value: JsonValue): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `${typeof value} ${String(value).slice(0, 40)}`;
}

/** Why the values are those of no record that can be found again; null: their key is whole. */
export function keyFault(
  { table, keySlots, isKeyless }: CompiledShape,
  { isFilled }: InjectedValues,
  values: readonly ColumnValue[],
): string | null {
  const missing = keySlots.find(({ index }) => values[index] === null);
  if (missing !== undefined) return `the record has no ${missing.name}, which is part of its key`;
  if (isKeyless !== true && keySlots.every(({ index }) => isFilled[index] === true || values[index] === '')) {
    return `every part of the key that the record carries is empty (${table.key.join(', ')})`;
  }
  return null;
}

/**
 * The key of a record that was not read yet: `raw` has at least the members that the key is made of. Null: it must be
 * read to know, or will be refused. `values` has those of the key, at their places, and nothing else.
 */
export function compileKeyOf(shape: RecordShape) {
  const compiled = compileShape(shape);
  const { keySlots, filledFrom } = compiled;
  const isCopied = keySlots.some(({ name }) => filledFrom.has(name));
  let injected = injectedValues(compiled, {});

  return (raw: JsonObject, inject: Partition['inject']) => {
    if (isCopied) return null;
    if (inject !== injected.from) injected = injectedValues(compiled, inject);
    const values: ColumnValue[] = [];
    const parts: ColumnValue[] = [];
    for (const slot of keySlots) {
      const { index, name } = slot;
      const value =
        injected.isFilled[index] === true
          ? injected.values[index]
          : toColumnValue(slot, memberOf(raw, name) ?? null);
      if (value === undefined) return null;
      values[index] = value;
      parts.push(value);
    }
    if (keyFault(compiled, injected, values) !== null) return null;
    return { keyText: keyTextOf(parts), values };
  };
}

/** Paths that may differ from answer to answer: they must not make another record of one without a whole key. */
export function unstablePaths({ ignored, volatile }: Entity): readonly (readonly string[])[] {
  return [...[...ignored].map((name) => [name]), ...volatile];
}

/**
 * Values to fill into a record: those of its listing and, for an entity without a key, a hash of the record and of
 * those values.
 */
export function compileHashKey(entity: Entity) {
  const [field = ''] = entity.key;
  const unstable = unstablePaths(entity);
  return (
    inject: Partition['inject'],
    { records, index }: { readonly records: PageRecords; readonly index: number },
  ): Partition['inject'] => {
    if (entity.isKeyless !== true) return inject;
    const text = `${canonicalJson(inject)}${anyJsonWithout(records.value(index), unstable)}`;
    return { ...inject, [field]: shortHash(text) };
  };
}

/** `filledFrom` absent: there are none. */
export interface RecordShape
  extends Pick<Entity, 'table' | 'ignored' | 'volatile'>, Partial<Pick<Entity, 'filledFrom' | 'isKeyless'>> {
  /** An array field whose elements become separate rows: it leaves this row. */
  readonly explodedField: string | null;
  /** Action that requests the file of a record; null or absent: the records have none. */
  readonly download?: Action | null;
  /** Absent: every record is stored. */
  readonly policy?: SchemaPolicy;
}

/**
 * The shape of an entity's own records: with `explodedShape` the only place that decides which of their values are
 * stored. Without a policy every record is stored.
 */
export function recordShape(entity: Entity, policy: SchemaPolicy = acceptEverything): RecordShape {
  const { explode, actions } = entity;
  const download = actions.get('download') ?? null;
  return { ...entity, explodedField: explode?.field ?? null, download, policy };
}

/** The shape of the elements of the entity's exploded field; null where it explodes nothing. */
export function explodedShape(
  { explodedTable }: Entity,
  policy: SchemaPolicy = acceptEverything,
): RecordShape | null {
  if (explodedTable === null) return null;
  return { table: explodedTable, ignored: new Set(), volatile: [], explodedField: null, policy };
}

type CompiledShape = ReturnType<typeof compileShape>;

/** Computes once what all records of a shape need. */
export function compileShape(shape: RecordShape) {
  const { table, policy = acceptEverything, filledFrom = new Map<string, string>() } = shape;
  const slots = new Map(table.columns.map((column, index) => [column.name, slotOf(table, column, index)]));
  return {
    ...shape,
    policy,
    filledFrom,
    slots,
    keySlots: table.key.flatMap((name) => slots.get(name) ?? []),
    compare: compileCompare(shape),
    fileOf: compileFileOfRecord(shape.download ?? null),
    noteOf: driftNotes(table.entity, policy),
  };
}

const nothingCopied: ReadonlyMap<string, JsonValue> = new Map();

/**
 * Fields that `filledFrom` names and that the record lacks, has as null, or has equal to the other field; with that
 * one's value. Throws `TooDeepError`.
 */
export function copiedFields(record: JsonObject, filledFrom: Entity['filledFrom']) {
  if (filledFrom.size === 0) return nothingCopied;
  const copied = new Map<string, JsonValue>();
  for (const [field, source] of filledFrom) {
    const value = memberOf(record, source) ?? null;
    if (value === null) continue;
    const own = memberOf(record, field) ?? null;
    if (own === null || canonicalJson(own) === canonicalJson(value)) copied.set(field, value);
  }
  return copied;
}

function slotOf(table: EntityTable, { name, type }: Column, index: number) {
  return { name, index, type, isKey: table.key.includes(name) };
}

type InjectedValues = ReturnType<typeof injectedValues>;

export function injectedValues({ slots, table }: CompiledShape, inject: Partition['inject']) {
  const values = table.columns.map((): ColumnValue => null);
  const isFilled = table.columns.map(() => false);
  for (const [name, value] of Object.entries(inject)) {
    const slot = slots.get(name);
    if (slot === undefined) continue;
    values[slot.index] = toColumnValue(slot, value) ?? null;
    isFilled[slot.index] = true;
  }
  return { from: inject, values, isFilled };
}

/**
 * Whether it lacks what the definition says every whole record has: stored as it is, it would replace the rest by
 * nulls.
 */
export function isPartial({ whole }: Pick<Entity, 'whole'>, raw: JsonValue): boolean {
  return isJsonObject(raw) && missingFields(whole, raw).length > 0;
}

/** The same record, for its key alone: a sink replaces no row by it. */
export function asPartial(entity: Entity, record: PreparedRecord, raw: JsonValue): PreparedRecord {
  const { file: _file, ...rest } = record;
  const missing = isJsonObject(raw) ? missingFields(entity.whole, raw).join(', ') : '';
  const detail = `it came without ${missing}, which every whole record has, and nothing is stored under its key`;
  return { ...rest, partial: refuseRecord(entity.name, 'partial', detail, raw) };
}

function missingFields(whole: readonly string[], raw: JsonObject): readonly string[] {
  return whole.filter((name) => (memberOf(raw, name) ?? null) === null);
}

/** Whether it is of the kind that the entity keeps. Throws as `valuesOf`. */
export function isOfKind({ name, only }: Pick<Entity, 'name' | 'only'>, raw: JsonValue): boolean {
  return only.every((rule) => {
    const value = isJsonObject(raw) ? valueAtKey(raw, rule.field) : undefined;
    // The text of a setting stands for a number or a flag, too.
    const isWord = typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint';
    const read = rule.setting !== null && isWord ? String(value) : value;
    return valuesOf(name, rule).some((wanted) => wanted === read) !== rule.isNot;
  });
}

const maxTextChars = 1_000;

type FileOfRecord = (raw: JsonValue, inject: Partition['inject']) => RecordFile | null;

/**
 * Finds out how a record's file is asked for; null: the entity has no `download`. The function gives null where a
 * parameter has no value: no file.
 */
export function compileFileOfRecord(download: Action | null): FileOfRecord | null {
  const fields = download?.file ?? null;
  if (download === null || fields === null) return null;

  return (raw, inject) => {
    const members = isJsonObject(raw) ? raw : {};
    const valueOf = (field: string): JsonValue => memberOf(inject, field) ?? memberOf(members, field) ?? null;
    const params: Record<string, JsonValue> = {};
    for (const [name, field] of download.key) {
      const param = download.params.get(name);
      const value = param === undefined ? null : convertValue(param.type, valueOf(field));
      if (value === null || value === '') return null;
      params[name] = value;
    }
    if (missingParams(download, params).length > 0) return null;
    return {
      params,
      version: shortHash(canonicalJson([params, fields.version.map(valueOf)])),
      name: textOf(fields.name === null ? null : valueOf(fields.name)),
      contentType: textOf(fields.contentType === null ? null : valueOf(fields.contentType)),
      size: sizeOf(fields.size === null ? null : valueOf(fields.size)),
    };
  };
}

/** A lone surrogate would not come back from the ledger as it went in. */
function textOf(value: JsonValue): string | null {
  return typeof value === 'string' && value !== '' ? value.slice(0, maxTextChars).toWellFormed() : null;
}

function sizeOf(value: JsonValue): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

const maxQuarantinedChars = 1024 * 1024;

/** Copies the record for the quarantine: whole, unless it is refused for its size. */
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

/** 32 hex digits. */
export function shortHash(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 32);
}
