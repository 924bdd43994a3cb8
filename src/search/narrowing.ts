import type { FieldType } from '../core/records.ts';
import { sourceSql } from './field-value.ts';
import { isTime, likePattern, rangeAround, slipsAllowed } from './match-condition.ts';
import type { Condition, FieldCondition, Ordering, Scalar } from './search-request.ts';
import { type FieldSource, isJsonType, type SearchField, type SearchTarget } from './search-target.ts';

/** Value that a statement of a search binds. */
export type Bound = string | number | bigint;

/**
 * A piece of a statement with the values for its `?`, in their order. An operand anywhere: it stands in parentheses
 * where it must.
 */
export interface Piece {
  readonly sql: string;
  readonly values: readonly Bound[];
}

export function piece(sql: string, ...values: readonly Bound[]): Piece {
  return { sql, values };
}

export const always = piece('TRUE');
export const never = piece('FALSE');

export function allOf(pieces: readonly Piece[]): Piece {
  return joined(pieces, ' AND ', { none: always, decisive: never });
}

export function oneOf(pieces: readonly Piece[]): Piece {
  return joined(pieces, ' OR ', { none: never, decisive: always });
}

/** `none` says nothing among others; `decisive` makes the others superfluous. */
function joined(
  pieces: readonly Piece[],
  by: string,
  { none, decisive }: { readonly none: Piece; readonly decisive: Piece },
): Piece {
  if (pieces.includes(decisive)) return decisive;
  const said = pieces.filter((one) => one !== none);
  const [only] = said;
  if (only === undefined) return none;
  if (said.length === 1) return only;
  return { sql: `(${said.map(({ sql }) => sql).join(by)})`, values: said.flatMap(({ values }) => values) };
}

/** Functions and conditions that each database has by another name. */
export interface SearchSql {
  /** Name of the function that gives the place of a part in a text, 0 where it has none. */
  readonly position: string;
  /** True of the texts of a column that are stored in another spelling than they came in. */
  readonly isRespelled: (text: string) => Piece;
  /** True of the rows in the range, in a form that lets the database prefer an index of something else. */
  readonly isInRange: (rows: RowRange) => Piece;
  /**
   * True of every row in whose field one of the texts has one of the parts, which are folded words or parts of them;
   * `always` where nothing tells. An index serves it where there is one.
   */
  readonly hasPart: (field: SearchField, parts: readonly string[], rows: RowRange) => Piece;
}

/** Rows by their numbers: above `after`, and up to `to` where that is a number. */
export interface RowRange {
  readonly after: number;
  readonly to: number | null;
}

/** SQL for a column of row numbers. */
export function inRange(column: string, { after, to }: RowRange): Piece {
  return allOf([
    piece(`${column} > CAST(? AS bigint)`, after),
    to === null ? always : piece(`${column} <= CAST(? AS bigint)`, to),
  ]);
}

interface Narrowing {
  readonly target: SearchTarget;
  readonly sql: SearchSql;
  /** The only rows that are asked for. */
  readonly rows: RowRange;
}

/**
 * SQL that is true of every row that meets the condition, and perhaps of others: `conditionMatcher` decides. A negated
 * condition narrows nothing.
 */
export function narrow(condition: Condition, narrowing: Narrowing): Piece {
  const { kind } = condition;
  if (kind === 'and') return allOf(condition.conditions.map((one) => narrow(one, narrowing)));
  if (kind === 'or') return oneOf(condition.conditions.map((one) => narrow(one, narrowing)));
  return kind === 'not' ? always : narrowField(condition, narrowing);
}

function narrowField(condition: FieldCondition, { target, sql, rows }: Narrowing): Piece {
  const [name = '', ...inside] = condition.path;
  const field = target.fields.get(name);
  if (field === undefined) return never;
  const column = inside.length === 0 ? nativeColumn(field) : null;
  return allOf([
    column !== null && isComparable(column, condition) ? narrowColumn(column, condition, sql) : always,
    ...narrowJson(field, condition, sql),
    ...needed(condition)
      .flatMap(partsNeeded)
      .slice(0, most)
      .map((parts) => sql.hasPart(field, parts, rows)),
  ]);
}

/** Texts and words that narrow one condition. More of them cost more than they save. */
const most = 4;

/** Conditions that the value, or something in it, must meet where it meets this one. */
function needed(condition: Condition): readonly FieldCondition[] {
  if (condition.kind === 'and') return condition.conditions.flatMap(needed);
  if (condition.kind === 'or' || condition.kind === 'not') return [];
  return condition.kind === 'any' ? needed(condition.condition) : [condition];
}

// --- Words

/**
 * Required parts, for each word that must be there: every text that has the word, perhaps with slips, has one of them.
 */
function partsNeeded(condition: FieldCondition): readonly (readonly string[])[] {
  if (condition.kind === 'keyword') return [condition.words];
  return condition.kind === 'fuzzy' ? [...new Set(condition.words)].map(keptParts) : [];
}

/**
 * Parts of which every word has one that is this word with the slips that it may have. Cut into one part more than
 * there are slips, one part stays as it is, unless two letters swap places between two parts; then the first of such
 * parts begins as it was, with those two behind.
 */
export function keptParts(word: string): readonly string[] {
  const letters = Array.from(word);
  const size = Math.ceil(letters.length / (slipsAllowed(word) + 1));
  const parts: string[] = [];
  for (let at = 0; at < letters.length; at += size) {
    parts.push(letters.slice(at, at + size).join(''));
    const [last, next] = letters.slice(at + size - 1, at + size + 1);
    if (last !== undefined && next !== undefined) {
      parts.push([...letters.slice(at, at + size - 1), next, last].join(''));
    }
  }
  return [...new Set(parts)];
}

/** Whether the source can have words. */
export function hasTexts(source: FieldSource): boolean {
  return source.kind === 'extra' || source.type === 'string' || isJsonType(source.type);
}

// --- JSON: a text that must be in the value is in its JSON

function narrowJson({ sources }: SearchField, condition: FieldCondition, { position }: SearchSql) {
  const isAllJson = sources.every((source) => source.kind === 'extra' || isJsonType(source.type));
  if (!isAllJson) return [];
  const texts = needed(condition).flatMap((one) => {
    const [value, ...others] = one.kind === 'in' || one.kind === 'contains' ? givenIn(one) : [];
    // The same instant may be written in another way.
    return typeof value === 'string' && others.length === 0 && !isTime(value)
      ? jsonOf(value, one.kind === 'in')
      : [];
  });
  return [...new Set(texts)]
    .slice(0, most)
    .map((text) =>
      oneOf(sources.map((source) => hasText(`CAST(${sourceSql(source)} AS text)`, text, position))),
    );
}

/**
 * A text, or a part of one, as this program spells it in JSON. A lone surrogate is spelled as an escape, but may also
 * be half of a pair. A bound value in PostgreSQL writes U+E000 in another way than its JSON has it.
 */
function jsonOf(text: string, isWhole: boolean): readonly string[] {
  if (!text.isWellFormed() || text.includes('\uE000')) return [];
  const json = JSON.stringify(text);
  const part = isWhole ? json : json.slice(1, -1);
  return part === '' ? [] : [part];
}

function hasText(sql: string, text: string, position: string): Piece {
  return piece(`${position}(${sql}, CAST(? AS text)) > 0`, text);
}

// --- Columns whose values databases compare

const comparisons: Readonly<Record<Ordering, string>> = { gt: '>', gte: '>=', lt: '<', lte: '<=' };

function narrowColumn(column: NativeColumn, condition: FieldCondition, how: SearchSql): Piece {
  switch (condition.kind) {
    case 'in':
      return among(column, condition.values);
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return withRespelled(column, ordered(column, condition.kind, condition.value), how);
    case 'like':
      return withRespelled(column, like(column, condition.pattern, how), how);
    case 'contains':
      if (column.kind !== 'string' || typeof condition.value !== 'string') return never;
      return withRespelled(column, hasText(column.sql, condition.value, how.position), how);
    case 'any':
      return never;
    case 'keyword':
    case 'fuzzy':
      return always;
  }
}

/** Texts in another spelling are equal as they were before, but neither in their order nor in their parts. */
function withRespelled({ kind, sql }: NativeColumn, narrowed: Piece, how: SearchSql): Piece {
  return kind === 'string' && narrowed !== always ? oneOf([narrowed, how.isRespelled(sql)]) : narrowed;
}

/** Databases compare times as they stand: those within a day or so of a bound are all read. */
function ordered(column: NativeColumn, ordering: Ordering, value: NonNullable<Scalar>): Piece {
  if (!isOfKind(column, value)) return never;
  const around = typeof value === 'string' ? rangeAround(value) : 'none';
  if (around === null) return always;
  if (around === 'none') return compared(column, comparisons[ordering], value);
  return ordering === 'gt' || ordering === 'gte'
    ? compared(column, '>=', around.from)
    : compared(column, '<', around.to);
}

function among(column: NativeColumn, values: readonly Scalar[]): Piece {
  const present = values.filter((value) => value !== null && isOfKind(column, value));
  const times = present.filter((value) => typeof value === 'string' && isTime(value));
  const others = present.filter((value) => !times.includes(value));
  const places = others.map(() => valueSql(column)).join(', ');
  return oneOf([
    others.length === 0 ? never : piece(`${column.sql} IN (${places})`, ...others.map(bound)),
    times.length === 0 ? never : atTimes(column, times.map(String)),
    values.includes(null) ? absent(column) : never,
  ]);
}

/** Range from the first of the times to the last, with about a day around them. */
function atTimes(column: NativeColumn, times: readonly string[]): Piece {
  const ranges = times.map(rangeAround).filter((range) => range !== null && range !== 'none');
  if (ranges.length < times.length) return always;
  const bounds = ranges.flatMap(({ from, to }) => [from, to]).toSorted();
  return allOf([compared(column, '>=', bounds[0] ?? ''), compared(column, '<', bounds.at(-1) ?? '')]);
}

/** The range of the pattern's beginning, which an index finds, and the longest text in it. */
function like(column: NativeColumn, text: string, { position }: SearchSql): Piece {
  if (column.kind !== 'string') return never;
  const { prefix, isExact, longest } = likePattern(text);
  if (isExact) return among(column, [prefix]);
  const end = endOfPrefix(prefix);
  return allOf([
    prefix === '' ? piece(`${column.sql} IS NOT NULL`) : compared(column, '>=', prefix),
    end === null ? always : compared(column, '<', end),
    longest === prefix ? always : hasText(column.sql, longest, position),
  ]);
}

/** The first text behind all that begin with the prefix; null: there is none. */
function endOfPrefix(prefix: string): string | null {
  const characters = Array.from(prefix);
  for (let last = characters.pop(); last !== undefined; last = characters.pop()) {
    const code = last.codePointAt(0) ?? 0;
    // Between these two lie the surrogates, which are no characters.
    if (code < 0x10ffff) {
      return characters.join('') + String.fromCodePoint(code === 0xd7ff ? 0xe000 : code + 1);
    }
  }
  return null;
}

function absent({ sql, isAbsentWhenEmpty }: NativeColumn): Piece {
  return isAbsentWhenEmpty ? oneOf([piece(`${sql} IS NULL`), piece(`${sql} = ''`)]) : piece(`${sql} IS NULL`);
}

/** The database's own comparison: times stand as texts. */
export function compared(column: NativeColumn, comparison: string, value: NonNullable<Scalar>): Piece {
  return piece(`${column.sql} ${comparison} ${valueSql(column)}`, bound(value));
}

/** Every value says its type: PostgreSQL would take `1.5` beside a column of integers for a mistake. */
function valueSql({ kind, isInteger }: NativeColumn): string {
  const type = { string: 'text', number: isInteger ? 'numeric' : 'float8', boolean: 'boolean' }[kind];
  return `CAST(? AS ${type})`;
}

function bound(value: Scalar): Bound {
  return typeof value === 'boolean' ? Number(value) : (value ?? 0);
}

function isOfKind({ kind }: NativeColumn, value: NonNullable<Scalar>): boolean {
  return kind === (typeof value === 'bigint' ? 'number' : typeof value);
}

/** Whether both databases compare the column with the given values as this program does. */
function isComparable(column: NativeColumn, condition: FieldCondition): boolean {
  return givenIn(condition).every((value) => {
    // Integers beyond 64 bits cannot be bound, and beside doubles any are rounded.
    if (typeof value === 'bigint') return column.isInteger && BigInt.asIntN(64, value) === value;
    if (typeof value !== 'string') return column.kind !== 'number' || column.areAlike;
    // The bound of a range may be the sign before this one: in PostgreSQL the next one begins another spelling.
    return (
      value.isWellFormed() && (condition.kind === 'in' || isTime(value) || !/[\0\uD7FF\uE000]/.test(value))
    );
  });
}

function givenIn(condition: FieldCondition): readonly Scalar[] {
  if (condition.kind === 'in') return condition.values;
  if (condition.kind === 'like') return [condition.pattern];
  return 'value' in condition ? [condition.value] : [];
}

/** A field whose values databases compare: texts, numbers or booleans in columns of that type. */
export interface NativeColumn {
  /** Null, or (see `isAbsentWhenEmpty`) an empty text, where the record has no value. */
  readonly sql: string;
  readonly kind: 'string' | 'number' | 'boolean';
  /** Its numbers are all integers. */
  readonly isInteger: boolean;
  /** The column has no integers beside doubles. */
  readonly areAlike: boolean;
  readonly isAbsentWhenEmpty: boolean;
}

/** Null where values have to be read one by one. */
export function nativeColumn({ type, shape, sources }: SearchField): NativeColumn | null {
  const [first, ...more] = sources;
  if (first === undefined || shape !== 'asIs') return null;
  const kind = kindOfSource(first);
  if (kind === null || !sources.every((source) => kindOfSource(source) === kind && canBe(type, source))) {
    return null;
  }
  const types = new Set(sources.map((source) => (source.kind === 'extra' ? null : source.type)));
  const about = { kind, isInteger: types.size === 1 && types.has('integer'), areAlike: types.size === 1 };
  if (more.length === 0) {
    return { ...about, sql: sourceSql(first), isAbsentWhenEmpty: isAbsentWhenEmpty(first) };
  }
  const values = sources.map((source) =>
    isAbsentWhenEmpty(source) ? `nullif(${sourceSql(source)}, '')` : sourceSql(source),
  );
  return { ...about, sql: `coalesce(${values.join(', ')})`, isAbsentWhenEmpty: false };
}

function kindOfSource(source: FieldSource): NativeColumn['kind'] | null {
  if (source.kind === 'extra' || isJsonType(source.type)) return null;
  return source.type === 'integer' ? 'number' : source.type;
}

/** Whether every value of the source is one of the field's type, so that none has to be left out. */
function canBe(type: FieldType, source: FieldSource): boolean {
  if (source.kind === 'extra') return false;
  return isJsonType(type) || type === source.type || (type === 'number' && source.type === 'integer');
}

function isAbsentWhenEmpty(source: FieldSource): boolean {
  return source.kind === 'column' && source.isAbsentWhenEmpty === true;
}
