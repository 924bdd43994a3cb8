import { readMicros, type TimeKind } from '../core/clock.ts';
import { readScaled, writeNumber } from '../core/json.ts';
import { entityOfHistory } from '../core/names.ts';
import type { ColumnValue, DerivedKind, EntityTable } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { isJsonColumn } from '../sinks/decisions/stored-table.ts';
import type { StoredRecord } from '../sinks/readings.ts';
import type { PublishedColumn } from './manifest.ts';

/** How a column's values are read into a type that the sink does not have. */
export type ColumnKind = TimeKind | 'date' | 'decimal' | 'json';

/** Digits of a decimal, and those of them after the point. */
export const decimalDigits = { precision: 38, scale: 9 } as const;
const mostScaled = 10n ** BigInt(decimalDigits.precision);

const kinds = new Set<DerivedKind>(['timestamp', 'unix', 'unixMs', 'date', 'decimal']);
const isKind = (as: DerivedKind): as is TimeKind | 'date' | 'decimal' => kinds.has(as);

/**
 * By field: columns of a table that the definition knows as times, dates, decimals or JSON. Keys keep their type,
 * because two of them may be one time.
 */
export function kindsOf(
  { derived, incremental, explodedTable }: Entity,
  { entity, columns, key }: EntityTable,
): ReadonlyMap<string, ColumnKind> {
  const isExploded = (entityOfHistory(entity) ?? entity) === explodedTable?.entity;
  const known = new Map<string, ColumnKind>();
  const { format = 'iso', field = '' } = incremental ?? {};
  if (format === 'iso' || format === 'unix' || format === 'unixMs') {
    known.set(field, format === 'iso' ? 'timestamp' : format);
  }
  for (const { from, path, as } of derived) {
    if (path.length === 0 && isKind(as)) known.set(from[0] ?? '', as);
  }
  return new Map(
    columns.flatMap(({ name, type }): [string, ColumnKind][] => {
      const kind = isJsonColumn(type) ? 'json' : isExploded ? undefined : known.get(name);
      return kind === undefined || type === 'boolean' || key.includes(name) ? [] : [[name, kind]];
    }),
  );
}

/** The type of the column as its manifest names it. */
export function typeOfKind(kind: ColumnKind): NonNullable<PublishedColumn['as']> {
  return kind === 'unix' || kind === 'unixMs' ? 'timestamp' : kind;
}

type Present = Exclude<ColumnValue, null>;

/**
 * Reads a value as its column has it, and whether that is all of it; null: the column cannot hold it. Times become
 * microseconds since 1970, dates the days since then, decimals whole numbers of the last digit. Databases refuse some
 * JSON: U+0000, half of a surrogate pair, and numbers beyond those of PostgreSQL.
 */
function readAs(kind: ColumnKind, given: Present) {
  const text = textOf(given);
  switch (kind) {
    case 'json':
      return isTakeable(text) ? { value: given, isExact: true } : null;
    case 'decimal': {
      const found = readScaled(text, decimalDigits.scale);
      const isHeld = found?.isExact === true && found.value < mostScaled && found.value > -mostScaled;
      return isHeld ? found : null;
    }
    case 'date': {
      const found = text.length === 10 ? readMicros(text, 'timestamp') : null;
      return found && { value: Number(found.micros / 86_400_000_000n), isExact: true };
    }
    case 'timestamp':
    case 'unix':
    case 'unixMs': {
      const found = readMicros(text, kind);
      return found && { value: found.micros, isExact: found.isExact };
    }
  }
}

const nulInText = /(?<!\\)(?:\\\\)*\\u0000/;
const longNumber = /\d[eE][+-]?\d{4}|\d{10000}/;
// Texts as a whole, so that their digits are no numbers.
const textOrLongNumber = /"(?:[^"\\]+|\\.)*"|\d[eE][+-]?\d{4}|\d{10000}/g;

function isTakeable(json: string): boolean {
  if (json.includes('\\u') && (nulInText.test(json) || withoutHalves(json, '') !== json)) return false;
  return (
    !longNumber.test(json) || json.match(textOrLongNumber)?.every((found) => found.startsWith('"')) === true
  );
}

// Every escape, so that the second backslash of two begins none; a pair of halves before a half alone.
const escape = /\\(?:ud[89ab]..\\ud[c-f]..|ud[89a-f]..|.)/gi;

/** Puts `mark` in the place of each half of a pair in JSON text. */
export function withoutHalves(json: string, mark: string): string {
  return json.replace(escape, (found) => (found.length === 6 && /^\\ud[89a-f]/i.test(found) ? mark : found));
}

interface Typed {
  /** By field; without one the column has the values of the sink. */
  readonly kinds: ReadonlyMap<string, ColumnKind>;
  /** In the order of the values. */
  readonly fields: readonly string[];
  /** Counts a value that its column does not hold as it came. */
  readonly onMisfit: (field: string) => void;
}

type Batches = AsyncIterable<readonly StoredRecord[]>;

/**
 * Gives records the types of their columns. A value that does not fit stays in `_extra` under the name of its field,
 * and the column is null; a time of a finer fraction is rounded down and stays there too. An empty text is no value.
 */
export async function* typedRows(batches: Batches, { kinds, fields, onMisfit }: Typed) {
  const columns = fields.flatMap((field, index): TypedColumn[] => {
    const kind = kinds.get(field);
    return kind === undefined ? [] : [{ field, index, kind }];
  });
  for await (const records of batches) {
    yield columns.length === 0 ? records : records.map((one) => typedRecord(one, columns, onMisfit));
  }
}

interface TypedColumn {
  readonly field: string;
  readonly index: number;
  readonly kind: ColumnKind;
}

function typedRecord(
  record: StoredRecord,
  columns: readonly TypedColumn[],
  onMisfit: Typed['onMisfit'],
): StoredRecord {
  const values = [...record.values];
  const beside: string[] = [];
  for (const { field, index, kind } of columns) {
    const given = values[index] ?? null;
    values[index] = null;
    if (given === null || given === '' || record.isDeleted) continue;
    const found = readAs(kind, given);
    values[index] = found?.value ?? null;
    if (found?.isExact === true) continue;
    onMisfit(field);
    const isText = kind !== 'json' && typeof given === 'string';
    beside.push(`${JSON.stringify(field)}:${isText ? JSON.stringify(given) : textOf(given)}`);
  }
  if (beside.length === 0) return { ...record, values };
  const members = record.extra?.trim().slice(1, -1).trim() ?? '';
  return { ...record, values, extra: `{${[...(members === '' ? [] : [members]), ...beside].join(',')}}` };
}

function textOf(value: Present): string {
  return typeof value === 'number' ? writeNumber(value) : String(value);
}
