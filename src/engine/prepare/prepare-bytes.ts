import type { JsonValue } from '../../core/json.ts';
import { keyTextOf, type ColumnValue, type FieldType } from '../../core/records.ts';
import { textOf, valueOf, type ScannedPage } from '../../http/scan-json.ts';
import { MemberFlag, memberWidth } from '../../http/scan-records.ts';
import { canonicalJson, hashedText, shortHash, TooDeepError } from './canonical-json.ts';
import { injectedValues, toColumnValue } from './column-value.ts';
import { maxRecordChars, type Prepared } from './prepare-record.ts';
import { keyFault } from './record-key.ts';
import { compileShape, type RecordShape } from './record-shape.ts';

/** A record of a scanned page. `glance`: as of `PageRecords`, with what tells of its file. */
interface ScannedRecord {
  readonly page: ScannedPage;
  readonly index: number;
  readonly glance: JsonValue;
}

const notDeclared = -1;
const isIgnored = -2;

/**
 * Prepares a record straight from its bytes: texts and numbers one by one, nested values as they came where that is how
 * they are stored. Gives what `compilePrepare` gives, or null where the record is out of the ordinary in any way: then
 * that is asked. Null itself for shapes that look into the values.
 */
export function compilePrepareBytes(shape: RecordShape) {
  const compiled = compileShape(shape);
  const { slots, keySlots, ignored, table, columns, filledFrom, fileOf } = compiled;
  if (shape.explodedField !== null || shape.volatile.length > 0) return null;
  if (filledFrom.size > 0 || (shape.moved?.size ?? 0) > 0) return null;
  const width = table.columns.length;
  const all = [...slots.values()];
  let injected = injectedValues(slots, {}, width);
  let planned: ScannedPage | null = null;
  /** Of each name of the planned page: the place of its column. */
  let plan: readonly number[] = [];
  /** Which columns the record has filled: those of this round. */
  const metInRound = new Float64Array(width);
  let round = 0;
  const placeOf = (name: string): number =>
    ignored.has(name) ? isIgnored : (slots.get(name)?.index ?? notDeclared);

  return (
    { page, index, glance }: ScannedRecord,
    inject: Readonly<Record<string, JsonValue>>,
  ): Prepared | null => {
    if (inject !== injected.from) injected = injectedValues(slots, inject, width);
    if (planned !== page) {
      planned = page;
      plan = page.names.map(placeOf);
    }
    const values = injected.values.slice();
    let evolved: [name: string, text: string][] | null = null;
    round += 1;
    try {
      const { members, firstMember } = page;
      for (
        let at = (firstMember[index] ?? 0) * memberWidth;
        at < (firstMember[index + 1] ?? 0) * memberWidth;
        at += memberWidth
      ) {
        const place = plan[members[at] ?? 0] ?? notDeclared;
        if (place === isIgnored) continue;
        const slot = all[place];
        if (slot === undefined || metInRound[place] === round) return null;
        metInRound[place] = round;
        const start = members[at + 1] ?? 0;
        const end = members[at + 2] ?? 0;
        const flags = members[at + 3] ?? 0;
        const value = columnValueAt(page, start, end, flags, slot.type);
        if (value === undefined) return null;
        if (injected.isFilled[place] === true) {
          if (value !== values[place]) return null;
          continue;
        }
        values[place] = value;
        if (slot.isEvolved) (evolved ??= []).push([slot.name, canonicalTextAt(page, start, end, flags)]);
      }
    } catch (error) {
      if (error instanceof TooDeepError) return null;
      throw error;
    }
    if (keyFault(compiled, injected, values) !== null) return null;
    const text = hashedText(columns, values, [], evolved === null ? null : objectOf(evolved));
    if (text.length > maxRecordChars) return null;
    const record = {
      keyText: keyTextOf(keySlots.map((slot) => values[slot.index] ?? null)),
      hash: shortHash(text),
      volatileHash: null,
      values,
      extra: null,
      ...(fileOf === null ? {} : { file: fileOf(glance, inject) }),
    };
    return { kind: 'record', drift: [], extraFields: 0, record };
  };
}

/** As `toColumnValue` has it of the value. */
function columnValueAt(
  page: ScannedPage,
  start: number,
  end: number,
  flags: number,
  type: FieldType,
): ColumnValue | undefined {
  const first = page.bytes[start];
  if (type === 'string' && first === quotationMark && (flags & MemberFlag.escaped) === 0) {
    return textOf(page, start + 1, end - 1);
  }
  if (
    (flags & MemberFlag.canonical) !== 0 &&
    (type === 'any' || type === (first === openingBrace ? 'object' : 'array'))
  ) {
    return textOf(page, start, end);
  }
  return toColumnValue(type, valueOf(page, start, end));
}

/** As `canonicalJson` has it. */
function canonicalTextAt(page: ScannedPage, start: number, end: number, flags: number): string {
  const isText = page.bytes[start] === quotationMark;
  const isAsItCame = isText ? (flags & MemberFlag.escaped) === 0 : (flags & MemberFlag.canonical) !== 0;
  return isAsItCame ? textOf(page, start, end) : canonicalJson(valueOf(page, start, end));
}

function objectOf(members: [name: string, text: string][]): string {
  const sorted = members.sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${sorted.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
}

const quotationMark = 0x22;
const openingBrace = 0x7b;
