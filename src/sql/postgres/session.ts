import type pg from 'pg';
import type { Scalar, Tx, Values } from '../database.ts';
import { rowColumns, rowOf, statementsOf, valueOf, type Dialect, type Parameter } from '../statement.ts';
import { encodeArray } from './encode-binary.ts';
import { noChunks, packetOf, type Answer, type Bound, type Statement } from './packet.ts';
import { writeText } from './text.ts';

/** What code that is written for PostgreSQL alone may ask besides. */
export interface PostgresTx extends Tx {
  /** Rows in the order of their columns. */
  arrays(sql: string, values?: Values): Promise<readonly (readonly unknown[])[]>;
  /** `chunks`: what a `COPY ... FROM STDIN` reads; they are made when they are sent. */
  put(sql: string, values?: Values, chunks?: Iterable<Buffer>): void;
}

/** The side of a transaction that only PostgreSQL has. Throws `TypeError` for one of another database. */
export function postgresTx(tx: Tx): PostgresTx {
  if ('arrays' in tx) return tx as PostgresTx;
  throw new TypeError('A table of PostgreSQL was asked in a transaction of another database');
}

export interface Session extends PostgresTx {
  /** Sends what was put, and waits until it is done. */
  sent(): Promise<void>;
  /**
   * The transaction is over: what was not sent is refused, and so is what is asked for from now on. Steps side by side
   * do not all end when one fails.
   */
  close(): void;
}

/** The server's settings, as `SET` has them. */
export type Settings = Readonly<Record<string, string>>;

/** One statement for all of them, for the rest of the transaction or of the session. */
export function settingSql(settings: Settings, until: 'transaction' | 'session'): string {
  const isLocal = until === 'transaction';
  const set = Object.entries(settings).map(
    ([name, value]) => `set_config('${name}', '${value.replaceAll("'", "''")}', ${isLocal})`,
  );
  return `SELECT ${set.join(', ')}`;
}

/** `heard` is called with each answer; `delay` resolves in front of each round trip. */
export function txOn(
  client: pg.ClientBase,
  heard: () => void = () => undefined,
  delay?: () => Promise<void>,
): Session {
  let waiting: Statement[] = [];
  let isDue = false;
  let isClosed = false;
  /**
   * Of the first statement that failed. The server would answer a COMMIT behind it as if nothing were wrong, and store
   * nothing.
   */
  let failure: { readonly error: unknown } | null = null;
  const send = (): void => {
    const statements = waiting;
    waiting = [];
    isDue = false;
    if (statements.length > 0) client.query(packetOf(statements, heard, (error) => (failure ??= { error })));
  };
  /** At the end of this turn of the event loop: what else is asked for in it travels along. */
  const sendSoon = (): void => {
    if (isDue) return;
    isDue = true;
    if (delay === undefined) queueMicrotask(() => process.nextTick(send));
    else void delay().then(send);
  };
  const refuse = (): void => {
    if (isClosed) throw closedError();
    if (failure !== null) throw failure.error;
  };
  const put = (sql: string, values: Values = {}, chunks = noChunks): void => {
    if (isClosed) throw closedError();
    const { text, bound } = bindNames(sql, values);
    waiting.push({ text, values: bound, chunks, resolve: () => undefined, reject: () => undefined });
  };
  const ask = async (sql: string, values: Values = {}): Promise<Answer> => {
    const { text, bound } = bindNames(sql, values);
    refuse();
    return await new Promise((resolve, reject) => {
      waiting.push({ text, values: bound, chunks: noChunks, resolve, reject });
      sendSoon();
    });
  };
  const rows = async <Row extends object>(sql: string, values?: Values): Promise<readonly Row[]> => {
    const answer = await ask(sql, values);
    const columns = rowColumns(answer.columns);
    return answer.rows.map((cells) => rowOf(columns, cells) as Row);
  };
  return {
    dialect: postgresDialect,
    rows,
    first: async <Row extends object>(sql: string, values?: Values) => (await rows<Row>(sql, values))[0],
    arrays: async (sql, values) => (await ask(sql, values)).rows,
    run: async (sql, values) => (await ask(sql, values)).count,
    put,
    close: () => {
      isClosed = true;
      const refused = waiting;
      waiting = [];
      for (const { reject } of refused) reject(closedError());
    },
    sent: async () => {
      if (failure !== null) throw failure.error;
      const last = waiting.pop();
      if (last === undefined) return;
      await new Promise<void>((resolve, reject) => {
        const settle = {
          resolve: (answer: Answer): void => {
            last.resolve(answer);
            resolve();
          },
          reject: (error: unknown): void => {
            last.reject(error);
            reject(error);
          },
        };
        waiting.push({ ...last, ...settle });
        send();
      });
    },
  };
}

function closedError(): Error {
  return new TypeError('A statement was given after its transaction had ended');
}

/** Lists and the columns of sets are arrays. */
export const postgresDialect: Dialect = {
  name: 'postgres',
  parameter: (position) => `$${position}`,
  inList: (position, type, isNot) => `${isNot ? '<> ALL' : '= ANY'}($${position}::${type}[])`,
  set: (alias, columns, first, isCounted) => {
    const arrays = columns.map(({ type }, index) => `$${first + index}::${type}[]`);
    const names = [...columns.map(({ name }) => name), ...(isCounted ? ['n'] : [])];
    return `unnest(${arrays.join(', ')})${isCounted ? ' WITH ORDINALITY' : ''} AS ${alias}(${names.join(', ')})`;
  },
  isSetOneParameter: false,
  index: () => '',
  json: (column, key) => `(${column}::json ->> '${key}')`,
  next: (at) => `${at} + interval '1 millisecond'`,
  ownIds: 'OVERRIDING SYSTEM VALUE',
};

const compile = statementsOf(postgresDialect);

function bindNames(sql: string, values: Values): { readonly text: string; readonly bound: readonly Bound[] } {
  const { text, parameters } = compile(sql);
  return { text, bound: parameters.map((parameter) => bound(parameter, valueOf(parameter, values))) };
}

function bound(parameter: Parameter, value: Values[string]): Bound {
  if (parameter.kind === 'value') return scalarOf(value);
  if (parameter.kind === 'column') {
    const rows = value as readonly Readonly<Record<string, Scalar | undefined>>[];
    const cells = rows.map((row) => {
      const cell = row[parameter.member];
      if (cell === undefined) throw new TypeError(`A row of :${parameter.name} lacks ${parameter.member}`);
      return elementOf(cell);
    });
    // As texts, bytes would be twice as long.
    return parameter.type === 'bytea' ? encodeArray('bytea', cells) : cells;
  }
  return (value as readonly Scalar[]).map(elementOf);
}

function scalarOf(value: Values[string]): Bound {
  if (typeof value === 'string') return writeText(value);
  // A column of flags may be of integers or booleans: both take 0 and 1.
  if (typeof value === 'boolean') return Number(value);
  if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return value;
  // Statements of PostgreSQL alone take arrays.
  return (value as readonly Scalar[]).map(elementOf);
}

function elementOf(cell: Scalar): string | number | Buffer | null {
  if (typeof cell === 'string') return writeText(cell);
  if (typeof cell === 'boolean') return Number(cell);
  return typeof cell === 'bigint' ? String(cell) : cell;
}
