import { toColumnValue, wholeJson } from '../../core/canonical-json.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { keyTextOf, type ColumnValue, type FieldDrift, type FieldType } from '../../core/records.ts';
import { memberWidth, textOf, valueOf, type ScannedPage } from '../../http/scan-json.ts';
import type { Partition } from '../../sinks/partition.ts';
import {
  compileShape,
  injectedValues,
  keyFault,
  maxRecordChars,
  type ByBytes,
  type Prepared,
  type RecordShape,
} from './prepare-record.ts';

/** Levels of arrays and objects, of the answer too, that every reader of stored JSON takes. */
const maxLevels = 200;

/**
 * Prepares records as `compilePrepare` does, from the places of their members in the bytes of a page. Objects and arrays
 * are stored as they came: no value is made of them. Null: the record is to be prepared from its value.
 */
export function compilePrepareBytes(shape: RecordShape) {
  const compiled = compileShape(shape);
  const { slots, keySlots, ignored, filledFrom, policy, noteOf, compare, fileOf } = compiled;
  // Of these, fields depend on each other.
  const isFromValues = filledFrom.size > 0 || shape.explodedField !== null || policy.onNews !== 'accept';
  let injected = injectedValues(compiled, {});
  let names: PageNames = { page: null, columns: [], texts: [], isPlain: true };
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
    return { page, columns, texts, isPlain: isPlain(page) };
  };
  const slotAt = [...slots.values()];

  return (
    page: ScannedPage,
    index: number,
    {
      inject,
      by,
      glance,
    }: { readonly inject: Partition['inject']; readonly by: ByBytes; readonly glance: JsonValue },
  ): Prepared | null => {
    const [start, end] = [page.starts[index] ?? 0, page.ends[index] ?? 0];
    if (isFromValues || page.deepest >= maxLevels || end - start > maxRecordChars) return null;
    if (page.bytes[start] !== openingBrace) return null;
    if (page !== names.page) names = read(page);
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
      const [from, to] = [members[at + 1] ?? 0, members[at + 2] ?? 0];
      const slot = slotAt[column];
      const fitting = slot === undefined ? undefined : cellOf(names, page, slot.type, from, to);
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
      extra += `${extra === '' ? '{' : ','}${texts[name]}${jsonAt(names, page, from, to)}`;
      extraFields += 1;
    }
    if (keyFault(compiled, injected, values) !== null) return null;
    const extraText = extra === '' ? null : `${extra}}`;
    const keyText = by.keyText ?? keyTextOf(keySlots.map((slot) => values[slot.index] ?? null));
    const hash = by.hashOf(drift !== null || extraFields > 0, values, extraText);
    const record = { keyText, hash, values, extra: extraText, compare, found: by.found };
    if (fileOf === null) return { kind: 'record', drift: drift ?? [], extraFields, record };
    return {
      kind: 'record',
      drift: drift ?? [],
      extraFields,
      record: { ...record, file: fileOf(glance, inject) },
    };
  };
}

const openingBrace = 0x7b;
const ignoredColumn = -2;
const undeclaredColumn = -1;

/** The names of a page's members, as this shape takes them. */
interface PageNames {
  readonly page: ScannedPage | null;
  /** Index of the column; -1: undeclared; -2: ignored. */
  readonly columns: readonly number[];
  /** As JSON, with the colon. */
  readonly texts: readonly string[];
  /** No text in it has line ends or escapes of characters: objects and arrays are stored as they came. */
  readonly isPlain: boolean;
}

/** Files of lines need objects on one line, and some databases take no escape for half of a character. */
function isPlain({ bytes }: ScannedPage): boolean {
  return !bytes.includes(0x0a) && !bytes.includes(0x0d) && !bytes.includes('\\u');
}

/** JSON text of the value. Names keep their order, and numbers their digits. */
function jsonAt({ isPlain }: PageNames, page: ScannedPage, start: number, end: number): string {
  const text = textOf(page, start, end);
  if (isPlain || !/[\r\n]|\\u/.test(text)) return text;
  return wholeJson(valueOf(page, start, end));
}

/** The value as its column holds it; undefined where it does not fit. As `toColumnValue`. */
function cellOf(
  names: PageNames,
  page: ScannedPage,
  type: FieldType,
  start: number,
  end: number,
): ColumnValue | undefined {
  const byte = page.bytes[start] ?? 0;
  if (byte === 0x6e) return null;
  switch (type) {
    case 'string': {
      if (byte !== 0x22) return undefined;
      const text = textOf(page, start + 1, end - 1);
      if (!text.includes('\\')) return text;
      break;
    }
    case 'object':
      return byte === openingBrace ? jsonAt(names, page, start, end) : undefined;
    case 'array':
      return byte === 0x5b ? jsonAt(names, page, start, end) : undefined;
    case 'any':
      if (byte === openingBrace || byte === 0x5b) return jsonAt(names, page, start, end);
      break;
    case 'boolean':
      return byte === 0x74 ? 1 : byte === 0x66 ? 0 : undefined;
    case 'integer':
    case 'number':
      if (byte === 0x22 || byte >= 0x5b) return undefined;
  }
  return toColumnValue({ type }, valueOf(page, start, end));
}

const anObject: JsonObject = {};

/** A value of the same type: objects and arrays are not read for it. */
function likeOf(page: ScannedPage, start: number, end: number): JsonValue {
  const byte = page.bytes[start];
  if (byte === openingBrace) return anObject;
  if (byte === 0x5b) return [];
  return byte === 0x22 ? '' : valueOf(page, start, end);
}
