import type { JsonValue } from '../core/json.ts';
import type { ColumnValue } from '../core/records.ts';
import { fieldReader, sourceSql } from './field-value.ts';
import type { SearchField } from './search-target.ts';
import type { Connection } from '../sql/sqlite/open-sqlite.ts';

/** What SQL cannot say exactly, for one search at a time on a connection. */
export interface RowFunctions {
  /** SQL for what `compute` makes of the row's value of the field: 0 or 1, a number, or a text or bytes that sort. */
  call(field: SearchField, compute: (value: JsonValue) => Computed): string;
  /** SQL that is true of every row, and looks now and then whether the time is up. */
  readonly heartbeat: string;
}

type Computed = number | string | Buffer | null;

interface Current {
  readonly calls: ((stored: readonly ColumnValue[]) => Computed)[];
  readonly checkTime: () => void;
}

/** Rows between two looks at the clock, by row number. */
const heartbeatRows = 1_024;

interface Defined {
  search: Current;
}

const definedOn = new WeakMap<Connection, Defined>();

/**
 * Begins a search on the connection; the functions of the one before are gone. `checkTime` throws when the time is up.
 */
export function beginRowFunctions(db: Connection, checkTime: () => void): RowFunctions {
  const calls: Current['calls'] = [];
  const defined = definedOn.get(db) ?? define(db);
  defined.search = { calls, checkTime };
  const readers = new Map<string, (stored: readonly ColumnValue[]) => JsonValue>();
  return {
    call: (field, compute) => {
      const read = readers.get(field.name) ?? fieldReader(field);
      readers.set(field.name, read);
      calls.push((stored) => compute(read(stored)));
      return `_search_value(${[calls.length - 1, ...field.sources.map(sourceSql)].join(', ')})`;
    },
    heartbeat: `(r._row % ${heartbeatRows} <> 0 OR _search_time())`,
  };
}

/** Functions stay with a connection, so that there are two of them however many searches it sees. */
function define(db: Connection): Defined {
  const defined: Defined = { search: { calls: [], checkTime: () => undefined } };
  const options = { directOnly: true, safeIntegers: true, varargs: true };
  db.function('_search_value', options, (number: bigint, ...stored: readonly ColumnValue[]) => {
    defined.search.checkTime();
    return defined.search.calls[Number(number)]?.(stored) ?? null;
  });
  db.function('_search_time', options, () => {
    defined.search.checkTime();
    return 1;
  });
  definedOn.set(db, defined);
  return defined;
}
