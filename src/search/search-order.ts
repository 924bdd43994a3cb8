import type { Compiling } from './compile-filter.ts';
import { type KeyRule, orderRule, type Position } from './order-rule.ts';
import type { SearchRequest } from './search-request.ts';
import { allOf, type Bound, oneOf, piece, type Piece } from './sql-piece.ts';

/** The order of a search's rows in SQL of SQLite: by these, then by row number in the direction of the last. */
export interface SearchOrder {
  readonly keys: readonly OrderKey[];
  readonly rows: 'asc' | 'desc';
}

interface OrderKey {
  readonly sql: string;
  readonly direction: 'asc' | 'desc';
  /** SQLite reads it from a column: an index may begin anywhere. */
  readonly isColumn: boolean;
}

export function searchOrder(request: SearchRequest, compiling: Compiling): SearchOrder {
  const { keys, rows } = orderRule(request, compiling.target);
  return { keys: keys.map((key) => orderKey(key, compiling)), rows };
}

function orderKey({ parts, direction, column }: KeyRule, { index, functions }: Compiling): OrderKey {
  const calls = parts.map(({ field, keyOf }) => functions.call(field, keyOf));
  const computed = calls.length === 1 ? (calls[0] ?? '') : `(${calls.join(' + ')})`;
  if (column === null) return { sql: computed, direction, isColumn: false };
  // An empty text that stands for no value comes where no value does: before all others.
  const isAsStored =
    column.kind !== 'string' || parts.every(({ field }) => index.isInOrderAsStored(field.name));
  if (isAsStored) return { sql: column.sql, direction, isColumn: true };
  // Only what may be a time is handed over: other texts may be long, and are sorted where they are.
  const sql = `iif(${column.sql} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*', ${computed}, ${column.sql})`;
  return { sql, direction, isColumn: false };
}

/**
 * The rows behind a place in the order, as conditions whose rows follow one another: equal in the first key, then
 * behind it. Each is one stretch of an index; where there can be none they are one condition, so that every row is
 * read once.
 */
export function stretchesBehind(order: SearchOrder, { values, row }: Position): readonly Piece[] {
  const [first] = order.keys;
  const behindFrom = (at: number): readonly Piece[] => {
    const key = order.keys[at];
    if (key === undefined) return [piece(`r._row ${order.rows === 'asc' ? '>' : '<'} ?`, row)];
    const value = values[at] ?? null;
    const isSame = value === null ? piece(`${key.sql} IS NULL`) : piece(`${key.sql} = ?`, value);
    return [allOf([isSame, oneOf(behindFrom(at + 1))]), ...furtherThan(key, value)];
  };
  const stretches = behindFrom(0);
  return first === undefined || first.isColumn ? stretches : [oneOf(stretches)];
}

/** Null is the first of all ascending, and the last descending. */
function furtherThan({ sql, direction }: OrderKey, value: Bound): readonly Piece[] {
  if (direction === 'asc') {
    return value === null ? [piece(`${sql} IS NOT NULL`)] : [piece(`${sql} > ?`, value)];
  }
  return value === null ? [] : [piece(`${sql} < ?`, value), piece(`${sql} IS NULL`)];
}
