import type Database from 'better-sqlite3';

interface Prepared<Values extends unknown[], Row> {
  readonly run: (...values: Values) => Database.RunResult;
  readonly get: (...values: Values) => Row | undefined;
  readonly all: (...values: Values) => Row[];
}

type StatementOf<Values extends unknown[], Row> = (db: Database.Database) => Prepared<Values, Row>;

/** A statement that stands beside the code which runs it: each database prepares it once, when it is first used there. */
export function statement<Values extends unknown[], Row = unknown>(sql: string): StatementOf<Values, Row> {
  return oncePerDatabase((db) => db.prepare<unknown[], Row>(sql));
}

/** The same for a statement that reads one column. */
export function columnOf<Values extends unknown[], Value>(sql: string): StatementOf<Values, Value> {
  return oncePerDatabase((db) => db.prepare<unknown[], Value>(sql).pluck());
}

function oncePerDatabase<Made>(make: (db: Database.Database) => Made): (db: Database.Database) => Made {
  const madeByDatabase = new WeakMap<Database.Database, Made>();
  return (db) => {
    const known = madeByDatabase.get(db);
    if (known !== undefined) return known;
    const made = make(db);
    madeByDatabase.set(db, made);
    return made;
  };
}

/** A row whose booleans SQLite holds as 0 and 1. */
export type Flagged<Row> = { readonly [Part in keyof Row]: Row[Part] extends boolean ? 0 | 1 : Row[Part] };

/** The row with its booleans, which are named. */
export function readFlags<Row extends object>(row: Flagged<Row>, ...names: readonly (keyof Row)[]): Row {
  return { ...row, ...Object.fromEntries(names.map((name) => [name, row[name] === 1])) } as Row;
}
