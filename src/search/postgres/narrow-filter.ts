import { hasEscape } from '../../sql/postgres/text.ts';
import { needed, textConditions } from '../compile-filter.ts';
import { isTime } from '../instants.ts';
import { nativeColumn, nativeCondition, type NativeColumn } from '../native-condition.ts';
import type { Condition, FieldCondition, Scalar } from '../search-request.ts';
import type { SearchField, SearchTarget } from '../search-target.ts';
import { allOf, always, negated, never, oneOf, piece, type Piece } from '../sql-piece.ts';
import { postgresWords } from '../sql-words.ts';
import { wordConditions } from './word-conditions.ts';

/** SQL that is true of every row that meets the condition. `isExact`: and false or null of every other. */
interface Narrowed {
  readonly piece: Piece;
  readonly isExact: boolean;
}

/** SQL that is true of every row that meets the filter, and perhaps of others: each has to be checked. */
export function narrowFilter(filter: Condition, target: SearchTarget): Piece {
  return narrowed(filter, target).piece;
}

function narrowed(condition: Condition, target: SearchTarget): Narrowed {
  if (condition.kind === 'and' || condition.kind === 'or') {
    const inner = condition.conditions.map((one) => narrowed(one, target));
    const pieces = inner.map((one) => one.piece);
    return {
      piece: condition.kind === 'and' ? allOf(pieces) : oneOf(pieces),
      isExact: inner.every(({ isExact }) => isExact),
    };
  }
  if (condition.kind === 'not') {
    const inner = narrowed(condition.condition, target);
    return inner.isExact ? { piece: negated(inner.piece), isExact: true } : anything;
  }
  return narrowedField(condition, target);
}

const anything: Narrowed = { piece: always, isExact: false };

function narrowedField(condition: FieldCondition, target: SearchTarget): Narrowed {
  const [name = '', ...inside] = condition.path;
  const field = target.fields.get(name);
  if (field === undefined) return { piece: never, isExact: true };
  const column = inside.length === 0 ? nativeColumn(field) : null;
  if (column !== null && isComparable(column, condition, field)) {
    const native = narrowedColumn(column, condition);
    if (native !== null) return native;
  }
  const words = needed(condition).flatMap((one) => wordConditions(one, field));
  const pieces = [...words, ...textConditions(field, condition, postgresWords)];
  return { piece: allOf(pieces), isExact: false };
}

function narrowedColumn(column: NativeColumn, condition: FieldCondition): Narrowed | null {
  let isExact = true;
  const fallBack = (): string => {
    isExact = false;
    return 'TRUE';
  };
  const native = nativeCondition(column, condition, { words: postgresWords, fallBack });
  if (native === null) return null;
  if (column.kind !== 'string' || isEquality(condition)) return { piece: native, isExact };
  // Texts with an escape are equal as they were before, but neither in their order nor in their parts.
  return { piece: oneOf([native, piece(hasEscape(column.sql))]), isExact: false };
}

function isEquality({ kind }: FieldCondition): boolean {
  return kind === 'eq' || kind === 'neq' || kind === 'in';
}

/** Whether the server compares the column with what is asked for as we do. */
function isComparable(column: NativeColumn, condition: FieldCondition, { sources }: SearchField): boolean {
  const given = givenIn(condition);
  if (column.kind === 'number') {
    // Beside doubles, integers are rounded.
    const areAlike = new Set(sources.map((source) => source.kind !== 'extra' && source.type)).size === 1;
    return areAlike && (column.isInteger || given.every((value) => typeof value !== 'bigint'));
  }
  // The bound of a range may be the sign before this one: the next one is the escape.
  return (
    column.kind !== 'string' ||
    isEquality(condition) ||
    given.every((value) => typeof value !== 'string' || isTime(value) || !/[\0\uD7FF\uE000]/.test(value))
  );
}

function givenIn(condition: FieldCondition): readonly Scalar[] {
  if (condition.kind === 'in') return condition.values;
  if (condition.kind === 'like') return [condition.pattern];
  return 'value' in condition ? [condition.value] : [];
}
