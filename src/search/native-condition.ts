import type { FieldType } from '../core/records.ts';
import { sourceSql } from './field-value.ts';
import { isTime, rangeAround } from './instants.ts';
import { likePattern } from './like-pattern.ts';
import type { FieldCondition, Ordering, Scalar } from './search-request.ts';
import { type FieldSource, isJsonType, type SearchField } from './search-target.ts';
import { allOf, always, type Bound, negated, never, oneOf, piece, type Piece } from './sql-piece.ts';
import type { ComparedColumn, SqlWords } from './sql-words.ts';

const comparisons: Readonly<Record<Ordering, string>> = { gt: '>', gte: '>=', lt: '<', lte: '<=' };
const minInt64 = -(2n ** 63n);
const maxInt64 = 2n ** 63n - 1n;

/** How SQL is made. */
interface Native {
  readonly words: SqlWords;
  /** SQL that checks the value itself, for single rows. */
  readonly fallBack: () => string;
}

/**
 * The condition on a native column as SQL that indexes serve. Databases compare texts as they stand, so of those around
 * a time each falls back to a check of its value. Null where SQL alone would not be exact: words, integers beyond 64
 * bits, halves of surrogate pairs, `neq` of a time.
 */
export function nativeCondition(column: NativeColumn, condition: FieldCondition, how: Native): Piece | null {
  switch (condition.kind) {
    case 'eq':
      return among(column, [condition.value], how);
    case 'neq':
      return isTimeOf(column, condition.value) ? null : not(among(column, [condition.value], how));
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return isBindable(condition.value) ? ordered(column, condition.kind, condition.value, how) : null;
    case 'in':
      return among(column, condition.values, how);
    case 'like':
      return condition.pattern.isWellFormed() ? like(column, condition.pattern, how) : null;
    case 'contains':
      if (column.kind !== 'string' || typeof condition.value !== 'string') return never;
      return condition.value.isWellFormed()
        ? present(column, piece(how.words.has(column.sql), condition.value))
        : null;
    case 'any':
      return never;
    case 'keyword':
    case 'fuzzy':
      return null;
  }
}

function not(condition: Piece | null): Piece | null {
  return condition === null ? null : negated(condition);
}

function ordered(
  column: NativeColumn,
  ordering: Ordering,
  value: NonNullable<Scalar>,
  { words, fallBack }: Native,
): Piece | null {
  if (!isOfKind(column, value)) return never;
  const { sql } = column;
  const given = words.value(column);
  const around = typeof value === 'string' ? rangeAround(value) : 'none';
  if (around === null) return null;
  if (around === 'none') {
    return present(column, piece(`${sql} ${comparisons[ordering]} ${given}`, bound(value)));
  }
  const isUpwards = ordering === 'gt' || ordering === 'gte';
  const [from, to] = [`${sql} >= ${given}`, `${sql} < ${given}`];
  const range = isUpwards ? piece(from, around.from) : piece(to, around.to);
  const beyond = isUpwards ? piece(from, around.to) : piece(to, around.from);
  return present(column, allOf([range, oneOf([beyond, piece(fallBack())])]));
}

/** Rows whose time is one of these: they stand within a day or so of one of them. */
function atTimes(column: NativeColumn, times: readonly string[], { words, fallBack }: Native): Piece | null {
  const ranges = times
    .map(rangeAround)
    .filter((range) => range !== null && range !== 'none')
    .toSorted((one, other) => (one.from < other.from ? -1 : 1));
  const [first] = ranges;
  const last = ranges.at(-1);
  if (first === undefined || last === undefined || ranges.length < times.length) return null;
  // All ranges are equally long.
  const given = words.value(column);
  return allOf([
    piece(`${column.sql} >= ${given}`, first.from),
    piece(`${column.sql} < ${given}`, last.to),
    piece(fallBack()),
  ]);
}

function among(column: NativeColumn, values: readonly Scalar[], how: Native): Piece | null {
  if (!values.every(isBindable)) return null;
  const times = values.filter((value) => isTimeOf(column, value));
  if (times.length > 0) {
    const others = values.filter((value) => !isTimeOf(column, value));
    const atOne = atTimes(column, times, how);
    const amongOthers = among(column, others, how);
    return atOne === null || amongOthers === null ? null : oneOf([amongOthers, atOne]);
  }
  const present = values.filter(
    (value) => value !== null && isOfKind(column, value) && !(column.isAbsentWhenEmpty && value === ''),
  );
  const places = present.map(() => how.words.value(column)).join(', ');
  const listed = present.length === 0 ? never : piece(`${column.sql} IN (${places})`, ...present.map(bound));
  return values.includes(null) ? oneOf([listed, absent(column)]) : listed;
}

/** A pattern that is only a prefix is a range, which an index finds; others look in the range of their prefix. */
function like(column: NativeColumn, text: string, how: Native): Piece | null {
  if (column.kind !== 'string') return never;
  const { sql } = column;
  const pattern = likePattern(text);
  if (pattern.form === 'exact') return among(column, [pattern.prefix], how);
  const given = how.words.value(column);
  const end = endOfPrefix(pattern.prefix);
  const range = [
    pattern.prefix === '' ? piece(`${sql} IS NOT NULL`) : piece(`${sql} >= ${given}`, pattern.prefix),
    end === null ? always : piece(`${sql} < ${given}`, end),
  ];
  if (pattern.form === 'prefix') return present(column, allOf(range));
  return present(column, allOf([...range, how.words.fits(sql, pattern, text, how.fallBack)]));
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

function present({ sql, isAbsentWhenEmpty }: NativeColumn, condition: Piece): Piece {
  return isAbsentWhenEmpty ? allOf([condition, piece(`${sql} <> ''`)]) : condition;
}

function isOfKind({ kind }: NativeColumn, value: NonNullable<Scalar>): boolean {
  return kind === (typeof value === 'bigint' ? 'number' : typeof value);
}

function isTimeOf({ kind }: NativeColumn, value: Scalar): value is string {
  return kind === 'string' && typeof value === 'string' && isTime(value);
}

function isBindable(value: Scalar): boolean {
  if (typeof value === 'bigint') return value >= minInt64 && value <= maxInt64;
  return typeof value !== 'string' || value.isWellFormed();
}

function bound(value: Scalar): Bound {
  return typeof value === 'boolean' ? Number(value) : value;
}

/** A field whose values databases compare as we do: texts, numbers or booleans in columns of that type. */
export interface NativeColumn extends ComparedColumn {
  /** Null, or (see `isAbsentWhenEmpty`) an empty text, where the record has no value. */
  readonly sql: string;
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
  const isInteger = sources.every((source) => source.kind !== 'extra' && source.type === 'integer');
  if (more.length === 0) {
    return { sql: sourceSql(first), kind, isInteger, isAbsentWhenEmpty: isAbsentWhenEmpty(first) };
  }
  const values = sources.map((source) =>
    isAbsentWhenEmpty(source) ? `nullif(${sourceSql(source)}, '')` : sourceSql(source),
  );
  return { sql: `coalesce(${values.join(', ')})`, kind, isInteger, isAbsentWhenEmpty: false };
}

function kindOfSource(source: FieldSource): ComparedColumn['kind'] | null {
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
