import { hash } from 'node:crypto';
import type { Dialect } from './statement.ts';

/** One value of a statement. */
export type Scalar = string | number | bigint | boolean | null | Buffer;
/** A row of a set: values by the names that the statement gives them, in camel case. */
type SetRow = object;
/** A scalar for `:name`, a list for `IN {name type}`, rows for `{name: column type, ...}`. */
type Value = Scalar | readonly Scalar[] | readonly SetRow[];
export type Values = Readonly<Record<string, Value>>;

/**
 * One transaction on one connection. Statements are written once for every database (`statement.ts` has the few words
 * in which databases differ) and run in the order in which they were given. Those that are asked for without waiting in
 * between (`Promise.all`) share a round trip where there are any.
 *
 * While a transaction is open it may wait for its own statements only: no timer, network, file or other transaction.
 */
export interface Tx {
  readonly dialect: Dialect;
  /**
   * Rows by column name, `started_at` as `startedAt`. Integers are numbers as far as those are exact, else `bigint`. A
   * column whose name begins with `is_`, `has_`, `was_` or `can_` is a boolean.
   */
  rows<Row extends object>(sql: string, values?: Values): Promise<readonly Row[]>;
  first<Row extends object>(sql: string, values?: Values): Promise<Row | undefined>;
  /** Number of rows that the statement wrote. */
  run(sql: string, values?: Values): Promise<number>;
  /** Does not wait: where the statement fails, the next one that is waited for fails, or the COMMIT. */
  put(sql: string, values?: Values): void;
}

export interface TransactHow {
  /** Called before `work` runs again. */
  readonly restart?: (() => void) | undefined;
  /**
   * Whether its statements may scan whole tables: no timeout ends them, and the signal of the database's options
   * cancels them.
   */
  readonly isLong?: boolean;
  /** Waits until the commit is on the disk, whatever the database's durability. */
  readonly isDurable?: boolean;
}

/** A database for reading. Drivers are `sqlite/` and `postgres/`. */
export interface ReadableDatabase extends AsyncDisposable {
  readonly dialect: Dialect;
  /** Place of the database for people, without any secret. */
  readonly place: string;
  /** Runs `work` in one snapshot that writes nothing. Does not see a transaction that is not committed. */
  read<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result>;
  /**
   * The state that the database has now, on a connection that nothing else uses; the caller disposes it. Once the
   * signal is aborted, everything that is asked of it rejects with the signal's reason.
   */
  openSnapshot(signal?: AbortSignal): Promise<Snapshot>;
}

/**
 * One state of a database until it is disposed: readers may wait for anything between two queries. Writers continue,
 * but the database keeps replaced data until the snapshot is disposed.
 */
export interface Snapshot extends AsyncDisposable {
  read<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result>;
  /**
   * Rows of one statement, in its order, as many at a time as their length allows; memory stays flat. One at a time.
   */
  batches(sql: string, values?: Values): AsyncGenerator<readonly Cells[]>;
}

/**
 * The values of a row in the order of its columns. Integers as `Tx.rows` has them; no column is a flag by its name,
 * which may be a user's.
 */
export type Cells = readonly unknown[];

/** A database as rules see it. */
export interface Database extends ReadableDatabase {
  /**
   * Runs `work` in one transaction: all of it is stored, or nothing. It may run more than once, so it changes nothing
   * outside of the database that `restart` does not revert, and waits for its own statements only: not for another
   * transaction. A statement that failed ends the transaction, also where `work` catches its error.
   */
  transact<Result>(work: (tx: Tx) => Promise<Result>, how?: TransactHow): Promise<Result>;
}

/** Returns the value in the first row of a one-column statement; undefined where there is no row. */
export async function cellOf<Value>(tx: Tx, sql: string, values?: Values): Promise<Value | undefined> {
  const [value] = await columnOf<Value>(tx, sql, values);
  return value;
}

/** Returns the values of a one-column statement. */
export async function columnOf<Value>({ rows }: Pick<Tx, 'rows'>, sql: string, values?: Values) {
  return (await rows<Record<string, Value>>(sql, values)).flatMap((row) => Object.values(row));
}

/** One statement; gives how many rows it wrote. */
type Write<Given extends Values> = (tx: Tx, values: Given) => Promise<number>;
/** One statement; gives the rows that it wrote or read. */
type Ask<Given extends Values, Row extends object> = (tx: Tx, values: Given) => Promise<readonly Row[]>;
/** One statement, which travels with the next one that is waited for, or with the COMMIT. */
type Put<Given extends Values> = (tx: Tx, values: Given) => void;

export function write<Given extends Values>(sql: string): Write<Given> {
  return async (tx, values) => await tx.run(sql, values);
}

export function put<Given extends Values>(sql: string): Put<Given> {
  return (tx, values) => {
    tx.put(sql, values);
  };
}

export function ask<Given extends Values, Row extends object>(sql: string): Ask<Given, Row> {
  return async (tx, values) => await tx.rows<Row>(sql, values);
}

/** An SQL identifier: always quoted, so that no name is a keyword or an expression. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/**
 * First 16 bytes of the SHA-256 of a text (keys, parameters). Long texts are looked up by it, because an index entry
 * has a limit. Two texts with the same hash would take 2^64 tries to find.
 */
export function textHash(text: string): Buffer {
  // Hash to digits first: this buffer is part of a larger one, where `hash` would allocate 32 bytes outside of the
  // heap each time.
  return Buffer.from(hash('sha256', text, 'hex').slice(0, 32), 'hex');
}

/** Runs `work`; throws its error as translated by `explain`. */
export async function explained<Result>(explain: (error: unknown) => unknown, work: () => Promise<Result>) {
  try {
    return await work();
  } catch (error) {
    throw explain(error);
  }
}

/** Rows of a batch at most. */
export const mostRows = 1_000;
/** Characters of a batch if its rows have one length: rows may be large. */
export const wantedLength = 4_000_000;

export function lengthOf(row: Cells): number {
  let length = 0;
  for (const cell of row) length += typeof cell === 'string' ? cell.length : 8;
  return length;
}
