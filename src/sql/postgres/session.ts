import pg from 'pg';
import type { Scalar, Tx, Values } from '../database.ts';
import { rowColumns, rowOf, statementsOf, valueOf, type Dialect, type Parameter } from '../statement.ts';
import { encodeArray, writeText, readText } from './encode-binary.ts';
import type { Duplex } from 'node:stream';

/** Transaction with calls that only PostgreSQL offers. */
export interface PostgresTx extends Tx {
  /** Rows in the order of their columns. */
  arrays(sql: string, values?: Values): Promise<readonly (readonly unknown[])[]>;
  /** `chunks`: input of a `COPY ... FROM STDIN`, generated while it is sent. */
  put(sql: string, values?: Values, chunks?: Iterable<Buffer>): void;
}

/** The side of a transaction that only PostgreSQL has. Throws `TypeError` for one of another database. */
export function postgresTx(tx: Tx): PostgresTx {
  if ('arrays' in tx) return tx as PostgresTx;
  throw new TypeError('A table of PostgreSQL was asked in a transaction of another database');
}

export interface Session extends PostgresTx {
  /** Sends the queued statements, and waits until they are done. */
  sent(): Promise<void>;
  /**
   * Ends the transaction: statements that were not sent are refused, and so are later ones. Parallel steps do not all
   * end when one fails.
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

/** `heard` is called with each answer. */
export function txOn(client: pg.ClientBase, heard: () => void = () => undefined): Session {
  let waiting: Statement[] = [];
  let isDue = false;
  let isClosed = false;
  /**
   * Error of the first failed statement. The server would answer a later COMMIT without an error, and store nothing.
   */
  let failure: { readonly error: unknown } | null = null;
  const send = (): void => {
    const statements = waiting;
    waiting = [];
    isDue = false;
    if (statements.length > 0) client.query(packetOf(statements, heard, (error) => (failure ??= { error })));
  };
  /** Sends at the end of this turn of the event loop, together with the other statements of the turn. */
  const sendSoon = (): void => {
    if (isDue) return;
    isDue = true;
    queueMicrotask(() => process.nextTick(send));
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
      const answered = new Promise<Answer>((resolve, reject) => {
        waiting.push({ ...last, resolve, reject });
      });
      send();
      try {
        last.resolve(await answered);
      } catch (error) {
        last.reject(error);
        throw error;
      }
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

/** A value as the server takes it. */
type Bound =
  string | number | bigint | boolean | null | Buffer | readonly (string | number | Buffer | null)[];

/** A statement, and the handlers of its answer. */
interface Statement {
  readonly text: string;
  readonly values: readonly Bound[];
  /** Input of a `COPY ... FROM STDIN`. */
  readonly chunks: Iterable<Buffer>;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

interface Answer {
  readonly columns: readonly string[];
  /** In the order of the columns. */
  readonly rows: readonly (readonly unknown[])[];
  /** Number of rows that were written or read. */
  readonly count: number;
}

/** The messages of `pg`'s connection that a packet is made of. */
interface Wire {
  readonly stream: Duplex;
  parse(message: { text: string; name: string }): void;
  bind(message: { values: readonly (string | Buffer | null)[] }): void;
  describe(message: { type: 'P'; name: string }): void;
  execute(message: { portal: string; rows: number }): void;
  sendCopyFail(why: string): void;
  sync(): void;
}

const copyDone = Buffer.from([0x63, 0, 0, 0, 4]);

/**
 * Sends statements in one go and waits once for all of their answers: one round trip, whatever their number. They run
 * in their order; after a failed one none runs, and its error is that of all. `pg` calls a packet a query.
 */
function packetOf(statements: readonly Statement[], heard: () => void, onFailure: (error: unknown) => void) {
  const answers: Answer[] = [];
  let rows: unknown[][] = [];
  let fields: readonly Field[] = [];
  let readers: readonly Reader[] = [];
  let isOver = false;
  /** Error of this process while it wrote the packet. */
  let ownError: unknown = null;

  const fail = (error: unknown): void => {
    if (isOver) return;
    isOver = true;
    onFailure(ownError ?? error);
    for (const { reject } of statements) reject(ownError ?? error);
  };
  const send = async (wire: Wire): Promise<void> => {
    const { stream } = wire;
    stream.cork();
    try {
      for (const { text, values, chunks } of statements) {
        wire.parse({ text, name: '' });
        wire.bind({ values: values.map(boundValue) });
        wire.describe({ type: 'P', name: '' });
        wire.execute({ portal: '', rows: 0 });
        if (chunks === noChunks) continue;
        await sendChunks(stream, chunks, () => isOver);
        stream.write(copyDone);
      }
    } catch (error) {
      ownError = error;
      wire.sendCopyFail('the client has failed');
    }
    wire.sync();
    stream.uncork();
  };
  return {
    submit: (connection) => void send(connection as unknown as Wire),
    handleRowDescription: (message: { readonly fields: readonly Field[] }) => {
      ({ fields } = message);
      readers = fields.map(readerOf);
    },
    handleDataRow: (message: { readonly fields: readonly (string | null)[] }) => {
      rows.push(message.fields.map((text, index) => (text === null ? null : readers[index]?.(text))));
    },
    handleCommandComplete: ({ text }: { readonly text: string }) => {
      heard();
      const columns = fields.map(({ name }) => name);
      answers.push({ columns, rows, count: Number(/\d+$/.exec(text)?.[0] ?? 0) });
      rows = [];
      fields = [];
    },
    handleCopyInResponse: () => undefined,
    handleError: fail,
    handleReadyForQuery: () => {
      if (ownError !== null || answers.length < statements.length) {
        fail(new TypeError(`${answers.length} of ${statements.length} statements were answered`));
        return;
      }
      isOver = true;
      for (const [index, { resolve }] of statements.entries()) {
        const answer = answers[index];
        if (answer !== undefined) resolve(answer);
      }
    },
  } as pg.Submittable;
}

/** Chunks of a statement that reads nothing from the client. */
const noChunks: Iterable<Buffer> = [];

/**
 * Sends the chunks. If there are several, the server begins with the first ones while the rest is still being encoded.
 */
async function sendChunks(stream: Duplex, chunks: Iterable<Buffer>, isOver: () => boolean): Promise<void> {
  let sent = 0;
  try {
    for (const chunk of chunks) {
      // The server skips the input after its error up to the end of the packet.
      if (isOver() || stream.destroyed) return;
      if (sent === 1) stream.uncork();
      sent += 1;
      const header = Buffer.from([0x64, 0, 0, 0, 0]);
      header.writeUInt32BE(chunk.length + 4, 1);
      stream.write(header);
      if (!stream.write(chunk) && sent > 1) await drained(stream);
    }
  } finally {
    if (sent > 1) stream.cork();
  }
}

async function drained(stream: Duplex): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}

function boundValue(value: Bound): string | Buffer | null {
  if (value === null || typeof value === 'string' || Buffer.isBuffer(value)) return value;
  return typeof value === 'object' ? `{${value.map(element).join(',')}}` : textOf(value);
}

/** An integer with all of its digits: `String` gives only as many as a double needs. */
function textOf(value: string | number | bigint | boolean): string {
  const isLong = typeof value === 'number' && Number.isInteger(value) && Math.abs(value) < 1e21;
  return String(isLong ? BigInt(value) : value);
}

/** Element of an array in the server's text format. */
function element(value: string | number | Buffer | null): string {
  if (value === null) return 'NULL';
  const text = Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : textOf(value);
  return typeof value === 'number' ? text : `"${text.replaceAll(/["\\]/g, '\\$&')}"`;
}

interface Field {
  readonly name: string;
  readonly dataTypeID: number;
}

type Reader = (text: string) => unknown;

function readerOf({ dataTypeID }: Field): Reader {
  if (dataTypeID === timestamptz) return instantReader();
  return ownReaders.get(dataTypeID) ?? pg.types.getTypeParser(dataTypeID, 'text');
}

/** Reads times. Rows that one commit has written have the same time, which is parsed once. */
function instantReader(): Reader {
  let [lastText, lastInstant] = ['', ''];
  return (text) => {
    if (text !== lastText) [lastText, lastInstant] = [text, new Date(text).toISOString()];
    return lastInstant;
  };
}

const { builtins } = pg.types;
const timestamptz: number = builtins.TIMESTAMPTZ;
/** Answers come as text; `json` stays text, and times are instants. */
const ownReaders: ReadonlyMap<number, Reader> = new Map<number, Reader>([
  [builtins.INT8, readInteger],
  [builtins.TEXT, readText],
  [builtins.VARCHAR, readText],
  [builtins.JSON, (text) => text],
]);

function readInteger(text: string): number | bigint {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}
