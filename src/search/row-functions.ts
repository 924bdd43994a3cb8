import type { JsonValue } from '../core/json.ts';
import type { ColumnValue } from '../core/records.ts';
import { fieldReader, sourceSql } from './field-value.ts';
import type { SearchField } from './search-target.ts';
import type { Bound } from './sql-piece.ts';
import type { SqlFunctions } from '../sql/sqlite/open-sqlite.ts';

/** The functions of SQL that searches on one connection call, one search at a time. */
export type SearchFunctions = ReturnType<typeof searchFunctions>;
/** What SQL cannot say exactly, for one search at a time on a connection. */
export type RowFunctions = ReturnType<SearchFunctions['begin']>;

interface Current {
  readonly calls: ((stored: readonly ColumnValue[]) => Bound)[];
  readonly checkTime: () => void;
}

/** Rows between two looks at the clock, by row number. */
const heartbeatRows = 1_024;

/** Two functions for however many searches. */
export function searchFunctions() {
  let current: Current = { calls: [], checkTime: () => undefined };
  const how = { directOnly: true, safeIntegers: true, varargs: true };
  const value = (number: unknown, ...stored: unknown[]): Bound => {
    current.checkTime();
    // `as`: the statement gives it columns of a row.
    return current.calls[Number(number)]?.(stored as ColumnValue[]) ?? null;
  };
  const time = (): number => {
    current.checkTime();
    return 1;
  };
  const sql: SqlFunctions = {
    _search_value: { how, compute: value },
    _search_time: { how, compute: time },
  };
  return {
    /** The connection is opened with these. */
    sql,
    /** Begins a search; the functions of the one before end. `checkTime` throws when the time is up. */
    begin: (checkTime: () => void) => {
      const calls: Current['calls'] = [];
      current = { calls, checkTime };
      const readers = new Map<string, (stored: readonly ColumnValue[]) => JsonValue>();
      return {
        /** SQL for what `compute` makes of the row's value of the field: a number, or a text or bytes that sort. */
        call: (field: SearchField, compute: (value: JsonValue) => Bound): string => {
          const read = readers.get(field.name) ?? fieldReader(field);
          readers.set(field.name, read);
          calls.push((stored) => compute(read(stored)));
          return `_search_value(${[calls.length - 1, ...field.sources.map(sourceSql)].join(', ')})`;
        },
        /** SQL that is true of every row, and looks now and then whether the time is up. */
        heartbeat: `(r._row % ${heartbeatRows} <> 0 OR _search_time())`,
      };
    },
  };
}
