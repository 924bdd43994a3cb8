import { toColumnValue, wholeJson } from '../../core/canonical-json.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { keyTextOf, type ColumnValue, type FieldDrift, type FieldType } from '../../core/records.ts';
import { memberWidth, textOf, valueFlags, valueOf, type ScannedPage } from '../../http/scan-json.ts';
import type { PageRecords } from '../../source/source.ts';
import type { Partition } from '../../sinks/partition.ts';
import {
  compileShape,
  hashOfRecord,
  injectedValues,
  keyFault,
  maxRecordChars,
  type LookedRow,
  type Prepared,
  type RecordShape,
} from './prepare-record.ts';

/** A record of a page, as far as it is known without being read. */
export interface ShownRecord {
  readonly records: PageRecords;
  readonly index: number;
  /** The members of the record by which it is recognized, or all of it. */
  readonly glance: JsonValue;
  /** Null: it is not known by its bytes. */
  readonly row: LookedRow | null;
}

/** Levels of arrays and objects, of the answer too, that every reader of stored JSON takes. */
const maxLevels = 200;

/**
 * Prepares records as `compilePrepare` does, from the places of their members in the bytes of a page. Objects and
 * arrays are stored as they came: no value is made of them. Null: the record is to be prepared from its value.
 */
export function compilePrepareBytes(shape: RecordShape, hashOf: (values: string) => string) {
  const compiled = compileShape(shape);
  const { slots, keySlots, ignored, filledFrom, policy, noteOf, compare, fileOf } = compiled;
  // With these, fields depend on each other, or a record may be refused.
  const isFromValues = filledFrom.size > 0 || shape.explodedField !== null || policy.onNews !== 'accept';
  let injected = injectedValues(compiled, {});
  const namesOf = new WeakMap<ScannedPage, PageNames>();
  /** The record that had the name last, to find a name that comes twice. */
  let hadName = new Float64Array(0);
  let records = 0;

  const read = (page: ScannedPage): PageNames => {
    if (hadName.length < page.names.length) hadName = new Float64Array(page.names.length);
    const columns = page.names.map((name) => {
      if (ignored.has(name)) return ignoredColumn;
      return slots.get(name)?.index ?? undeclaredColumn;
    });
    const texts = page.names.map((name) => `${JSON.stringify(name)}:`);
    const names = { columns, texts, latin1: page.bytes.toString('latin1') };
    namesOf.set(page, names);
    return names;
  };
  const slotAt = [...slots.values()];

  return (
    page: ScannedPage,
    { index, row, glance }: ShownRecord,
    inject: Partition['inject'],
  ): Prepared | null => {
    const [start, end] = [page.starts[index] ?? 0, page.ends[index] ?? 0];
    if (isFromValues || page.deepest >= maxLevels || end - start > maxRecordChars) return null;
    if (page.bytes[start] !== openingBrace) return null;
    const names = namesOf.get(page) ?? read(page);
    if (inject !== injected.from) injected = injectedValues(compiled, inject);
    const { columns, texts } = names;
    const { isFilled } = injected;
    const { members } = page;
    const values = injected.values.slice();
    let extra = '';
    let extraFields = 0;
    let drift: FieldDrift[] | null = null;
    records += 1;
    const last = page.firstMember[index + 1] ?? 0;
    for (let member = page.firstMember[index] ?? 0; member < last; member += 1) {
      const at = member * memberWidth;
      const name = members[at] ?? 0;
      if (hadName[name] === records) return null;
      hadName[name] = records;
      const column = columns[name] ?? ignoredColumn;
      if (column === ignoredColumn) continue;
      const from = members[at + 1] ?? 0;
      const to = members[at + 2] ?? 0;
      const flags = members[at + 3] ?? 0;
      const slot = slotAt[column];
      const fitting = slot === undefined ? undefined : cellOf(names, page, slot, from, to, flags);
      if (slot !== undefined && isFilled[column] !== true && fitting !== undefined) {
        values[column] = fitting;
        continue;
      }
      // A key that does not fit is refused with the record's value.
      if (slot?.isKey === true && isFilled[column] !== true) return null;
      if (fitting === undefined) {
        const kind = slot === undefined ? 'undeclared' : 'misfit';
        (drift ??= []).push(noteOf(page.names[name] ?? '', kind, likeOf(page, from, to)));
      } else if (fitting === values[column]) continue;
      extra += `${extra === '' ? '{' : ','}${texts[name]}${jsonAt(names, page, from, to, flags)}`;
      extraFields += 1;
    }
    if (keyFault(compiled, injected, values) !== null) return null;
    const extraText = extra === '' ? null : `${extra}}`;
    const keyText = row?.keyText ?? keyTextOf(keySlots.map((slot) => values[slot.index] ?? null));
    const hash = hashOfRecord({ hashOf, row }, drift !== null || extraFields > 0, {
      values,
      extra: extraText,
    });
    const record = { keyText, hash, values, extra: extraText, compare, found: row?.found?.found };
    return {
      kind: 'record',
      drift: drift ?? [],
      extraFields,
      record: fileOf === null ? record : { ...record, file: fileOf(glance, inject) },
    };
  };
}

const openingBrace = 0x7b;
const ignoredColumn = -2;
const undeclaredColumn = -1;

/** The names of a page's members, as this shape takes them. */
interface PageNames {
  /** Index of the column; -1: undeclared; -2: ignored. */
  readonly columns: readonly number[];
  /** As JSON, with the colon. */
  readonly texts: readonly string[];
  /** The bytes of the page, each as one character. */
  readonly latin1: string;
}

/**
 * JSON text of a value, as it came. A value with line ends or numbered escapes is parsed and written again: files of
 * lines need it on one line, and some databases refuse the escape of half a character.
 */
function jsonAt(names: PageNames, page: ScannedPage, start: number, end: number, flags: number): string {
  if ((flags & valueFlags.uneven) !== 0) return wholeJson(valueOf(page, start, end));
  return plainText(names, page, start, end, flags);
}

/** A part of the page's text costs less than to decode its bytes. */
function plainText(names: PageNames, page: ScannedPage, start: number, end: number, flags: number): string {
  return (flags & valueFlags.wide) === 0 ? names.latin1.slice(start, end) : textOf(page, start, end);
}

/** The value as its column holds it; undefined where it does not fit. As `toColumnValue`. */
function cellOf(
  names: PageNames,
  page: ScannedPage,
  { type, isKey }: { readonly type: FieldType; readonly isKey: boolean },
  start: number,
  end: number,
  flags: number,
): ColumnValue | undefined {
  const byte = page.bytes[start] ?? 0;
  if (byte === 0x6e) return null;
  // Equal keys have one text.
  if (isKey && isNested(byte)) return toColumnValue({ type }, valueOf(page, start, end));
  switch (type) {
    case 'string': {
      if (byte !== 0x22) return undefined;
      if ((flags & valueFlags.escaped) === 0) return plainText(names, page, start + 1, end - 1, flags);
      break;
    }
    case 'object':
      return byte === openingBrace ? jsonAt(names, page, start, end, flags) : undefined;
    case 'array':
      return byte === 0x5b ? jsonAt(names, page, start, end, flags) : undefined;
    case 'any':
      if (isNested(byte)) return jsonAt(names, page, start, end, flags);
      break;
    case 'boolean':
      return byte === 0x74 ? 1 : byte === 0x66 ? 0 : undefined;
    case 'integer':
    case 'number':
      if (byte === 0x22 || byte >= 0x5b) return undefined;
  }
  return toColumnValue({ type }, valueOf(page, start, end));
}

/** Whether an object or an array begins with this byte. */
function isNested(byte: number): boolean {
  return byte === openingBrace || byte === 0x5b;
}

const anObject: JsonObject = {};

/** A value of the same type: objects and arrays are not read for it. */
function likeOf(page: ScannedPage, start: number, end: number): JsonValue {
  const byte = page.bytes[start];
  if (byte === openingBrace) return anObject;
  if (byte === 0x5b) return [];
  return byte === 0x22 ? '' : valueOf(page, start, end);
}
