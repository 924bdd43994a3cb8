import type pg from 'pg';
import { noChunks, packetOf, type Answer, type Statement, type Value } from './packet.ts';
import { writeText } from './text.ts';

/** For `:name` in a statement. Texts are escaped on the way in and back on the way out: PostgreSQL stores no U+0000. */
export type Values = Readonly<Record<string, Value>>;

/**
 * One transaction on one connection. Statements run one after the other, in the order in which they were given. Those that are asked for without waiting
 * in between (`Promise.all`) share a round trip.
 */
export interface Tx {
  /** Rows by column name, `started_at` as `startedAt`. bigint columns are numbers as far as those are exact. */
  rows<Row extends object>(sql: string, values?: Values): Promise<readonly Row[]>;
  first<Row extends object>(sql: string, values?: Values): Promise<Row | undefined>;
  /** Rows in the order of their columns. */
  arrays(sql: string, values?: Values): Promise<readonly (readonly unknown[])[]>;
  /** How many rows the statement wrote. */
  run(sql: string, values?: Values): Promise<number>;
  /**
   * Travels with the next statement that is waited for, or with the COMMIT: nobody waits for it alone. Where it fails, that one does. `chunks`: what a
   * `COPY ... FROM STDIN` reads; they are made when they are sent.
   */
  put(sql: string, values?: Values, chunks?: Iterable<Buffer>): void;
}

export interface Session extends Tx {
  /** Sends what was put, and waits until it is done. */
  sent(): Promise<void>;
  /** The transaction is over: what was not sent is refused, and so is what is asked for from now on. Steps side by side do not all end when one fails. */
  close(): void;
}

/** The server's settings, as `SET` has them. */
export type Settings = Readonly<Record<string, string>>;

/** One statement for all of them, for the rest of the transaction or of the session. */
export function settingSql(settings: Settings, until: 'transaction' | 'session'): string {
  const isLocal = until === 'transaction';
  const set = Object.entries(settings).map(
    ([name, value]) => `set_config('${name}', '${value}', ${isLocal})`,
  );
  return `SELECT ${set.join(', ')}`;
}

/** `heard` is called with each answer. */
export function txOn(client: pg.ClientBase, heard: () => void = () => undefined): Session {
  let waiting: Statement[] = [];
  let isDue = false;
  let isClosed = false;
  const send = (): void => {
    const statements = waiting;
    waiting = [];
    isDue = false;
    if (statements.length > 0) client.query(packetOf(statements, heard));
  };
  /** At the end of this turn of the event loop: what else is asked for in it travels along. */
  const sendSoon = (): void => {
    if (isDue) return;
    isDue = true;
    queueMicrotask(() => process.nextTick(send));
  };
  const put = (sql: string, values: Values = {}, chunks = noChunks): void => {
    const { text, bound } = bindNames(sql, values);
    waiting.push({ text, values: bound, chunks, resolve: () => undefined, reject: () => undefined });
  };
  const ask = async (sql: string, values: Values = {}): Promise<Answer> => {
    const { text, bound } = bindNames(sql, values);
    if (isClosed) throw closedError();
    return await new Promise((resolve, reject) => {
      waiting.push({ text, values: bound, chunks: noChunks, resolve, reject });
      sendSoon();
    });
  };
  const rows = async <Row extends object>(sql: string, values?: Values): Promise<readonly Row[]> => {
    const answer = await ask(sql, values);
    const names = answer.columns.map(camelCase);
    return answer.rows.map(
      (cells) => Object.fromEntries(cells.map((cell, index) => [names[index] ?? '', cell])) as Row,
    );
  };
  return {
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

/** `::type` is a cast, not a name. */
const nameOrText = /'(?:[^']|'')*'|"(?:[^"]|"")*"|::|:([a-zA-Z]\w*)/g;
const positions = new Map<string, { readonly text: string; readonly names: readonly string[] }>();
/** Statements are made of few texts; those about single entities' tables are as many as there are tables. */
const mostKnown = 2_000;

function bindNames(sql: string, values: Values): { readonly text: string; readonly bound: readonly Value[] } {
  let known = positions.get(sql);
  if (known === undefined) {
    const names: string[] = [];
    const text = sql.replace(nameOrText, (token, name: string | undefined) => {
      if (name === undefined) return token;
      if (!names.includes(name)) names.push(name);
      return `$${names.indexOf(name) + 1}`;
    });
    known = { text, names };
    if (positions.size >= mostKnown) positions.clear();
    positions.set(sql, known);
  }
  return { text: known.text, bound: known.names.map((name) => bindValue(values[name])) };
}

function bindValue(value: Value | undefined): Value {
  if (value === undefined) throw new TypeError('A statement names a value that it was not given');
  if (typeof value === 'string') return writeText(value);
  if (value === null || typeof value !== 'object' || Buffer.isBuffer(value)) return value;
  return value.map((one) => (typeof one === 'string' ? writeText(one) : one));
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
