import { comparable } from './instants.ts';
import { nativeColumn } from './native-column.ts';
import { rankSql } from './rank.ts';
import type { RowFunctions } from './row-functions.ts';
import { sortKey } from './sort-key.ts';
import type { SearchIndex } from './search-index.ts';
import type { SearchRequest, SortKey } from './search-request.ts';
import type { SearchTarget } from './search-target.ts';
import { allOf, always, oneOf, piece, type Bound, type Piece } from './sql-piece.ts';
import { valueAt } from './value-at.ts';

/** The order of a search's rows: by these, then by row number in the direction of the last. */
export interface SearchOrder {
  readonly keys: readonly OrderKey[];
  readonly rows: 'asc' | 'desc';
}

export interface OrderKey {
  readonly sql: string;
  readonly direction: 'asc' | 'desc';
  /** SQLite reads it from a column: an index may begin anywhere. */
  readonly isColumn: boolean;
}

/** A row's place in the order. */
export interface Position {
  /** What the order's keys were. */
  readonly values: readonly Bound[];
  readonly row: number;
}

export function searchOrder(
  { filter, sort }: SearchRequest,
  target: SearchTarget,
  functions: RowFunctions,
  index: SearchIndex,
): SearchOrder {
  const rank = sort.length > 0 || filter === null ? null : rankSql(filter, target, functions);
  if (rank !== null) return { keys: [{ sql: rank, direction: 'desc', isColumn: false }], rows: 'asc' };
  const keys = sort.flatMap((key) => orderKey(key, target, functions, index));
  return { keys, rows: keys.at(-1)?.direction ?? 'asc' };
}

function orderKey(
  { path, direction }: SortKey,
  target: SearchTarget,
  functions: RowFunctions,
  index: SearchIndex,
): readonly OrderKey[] {
  const [name = '', ...inside] = path;
  const field = target.fields.get(name);
  if (field === undefined) return [];
  // An empty text that stands for no value comes where no value does: before all others.
  const column = inside.length === 0 ? nativeColumn(field) : null;
  if (column?.kind === 'string' && !index.isInOrderAsStored(name)) {
    const instant = functions.call(field, (value) => (typeof value === 'string' ? comparable(value) : null));
    // Only what may be a time is handed over: other texts may be long, and are sorted where they are.
    const sql = `iif(${column.sql} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*', ${instant}, ${column.sql})`;
    return [{ sql, direction, isColumn: false }];
  }
  if (column !== null) return [{ sql: column.sql, direction, isColumn: true }];
  const find = valueAt(inside);
  return [{ sql: functions.call(field, (value) => sortKey(find(value))), direction, isColumn: false }];
}

/**
 * The rows behind a place in the order, as conditions whose rows follow one another: equal in the first key, then behind it.
 * Each is one stretch of an index; where there can be none they are one condition, so that every row is looked at once.
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

/** All rows, as one stretch. */
export const everyRow: readonly Piece[] = [always];
