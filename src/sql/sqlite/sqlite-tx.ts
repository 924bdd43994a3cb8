import type Database from 'better-sqlite3';
import type { Cells, Scalar, Tx, Values } from '../database.ts';
import {
  camelCase,
  onceEach,
  rowColumns,
  rowOf,
  statementsOf,
  valueOf,
  type CompiledStatement,
  type Dialect,
  type RowColumn,
  type SetColumn,
} from '../statement.ts';

/** A prepared statement, for a loop: better-sqlite3's own, without a promise for each row. */
type Prepared = Pick<Database.Statement, 'run' | 'get' | 'all' | 'iterate'>;

/** Transaction with calls that only SQLite offers. */
export interface SqliteTx extends Tx {
  /**
   * In the words of SQLite, with `?` for values; gives rows as arrays. The statement may be used until the transaction
   * ends.
   */
  prepared(sql: string): Promise<Prepared>;
}

/** The connection's side of a transaction of SQLite. Throws `TypeError` for one of another database. */
export function sqliteTx(tx: Tx): SqliteTx {
  if ('prepared' in tx) return tx as SqliteTx;
  throw new TypeError('A table of SQLite was asked in a transaction of another database');
}

interface Known extends CompiledStatement {
  readonly statement: Database.Statement;
  /** Null for a statement that gives no rows. */
  readonly columns: readonly RowColumn[] | null;
}

/** Lists and sets are JSON texts, which hold U+0000, lone surrogates and whole integers as bound values do. */
export const sqliteDialect: Dialect = {
  name: 'sqlite',
  parameter: (position) => `@p${position}`,
  inList: (position, type, isNot) => {
    const value = type === 'bytea' ? 'unhex(value)' : 'value';
    return `${isNot ? 'NOT ' : ''}IN (SELECT ${value} FROM json_each(@p${position}))`;
  },
  set: (alias, columns, first, isCounted) => {
    const cells = columns.map(setCell);
    if (isCounted) cells.push('key + 1 AS n');
    // The limit keeps SQLite from merging it into the statement, where it may parse the text again for each row of
    // another table: 12 s instead of 1 ms for an update of 1,000 rows among 20,000.
    return `(SELECT ${cells.join(', ')} FROM json_each(@p${first}) LIMIT -1) AS ${alias}`;
  },
  isSetOneParameter: true,
  index: (name) => `INDEXED BY ${name}`,
  json: (column, key) => `(${column} ->> '${key}')`,
  next: (at) => `strftime('%Y-%m-%dT%H:%M:%fZ', ${at}, '+0.001 seconds')`,
};

const compile = statementsOf(sqliteDialect);
/** Prepared statements kept at most; each takes some KiB. */
const mostPrepared = 1_000;

export type Statements = ReturnType<typeof statementsOn>;

/**
 * Statements of one connection, prepared once each. SQLite prepares them again by itself where the schema has changed.
 */
export function statementsOn(db: Database.Database) {
  const loops = new Map<string, Prepared>();
  const prepare = (sql: string): Known => {
    const compiled = compile(sql);
    const statement = db.prepare(compiled.text);
    const columns = statement.reader ? rowColumns(statement.columns().map(({ name }) => name)) : null;
    if (columns !== null) statement.raw(true).safeIntegers(true);
    return { ...compiled, statement, columns };
  };
  const knownOf = onceEach(mostPrepared, prepare);
  return {
    rows: (sql: string, values: Values): object[] => {
      const { statement, columns, parameters } = knownOf(sql);
      const bound = bind(parameters, values);
      if (columns === null) {
        statement.run(bound);
        return [];
      }
      const rows = statement.all(bound) as unknown[][];
      return rows.map((cells) => rowOf(columns, cells, cellOf));
    },
    run: (sql: string, values: Values): number => {
      const { statement, columns, parameters } = knownOf(sql);
      const bound = bind(parameters, values);
      if (columns === null) return statement.run(bound).changes;
      return statement.all(bound).length;
    },
    /**
     * Rows one by one. The statement is not among those that are kept: it cannot be stepped through twice at a time.
     */
    iterate: function* (sql: string, values: Values): Iterator<Cells> {
      const { statement, columns, parameters } = prepare(sql);
      if (columns === null) throw new TypeError('A statement that gives no rows was asked for some');
      for (const cells of statement.iterate(bind(parameters, values)) as Iterable<unknown[]>) {
        yield cells.map(cellOf);
      }
    },
    prepared: (sql: string): Prepared => {
      const found = loops.get(sql);
      if (found !== undefined) return found;
      const made = db.prepare(sql);
      if (made.reader) made.raw(true);
      if (loops.size >= mostPrepared) loops.clear();
      loops.set(sql, made);
      return made;
    },
  };
}

function cellOf(cell: unknown): unknown {
  return typeof cell === 'bigint' && cell <= mostSafe && cell >= -mostSafe ? Number(cell) : cell;
}

const mostSafe = BigInt(Number.MAX_SAFE_INTEGER);

function bind(parameters: CompiledStatement['parameters'], values: Values): Record<string, Scalar> {
  const bound: Record<string, Scalar> = {};
  for (const [index, parameter] of parameters.entries()) {
    const value = valueOf(parameter, values);
    if (parameter.kind === 'value') bound[`p${index + 1}`] = scalarOf(value);
    else if (parameter.kind === 'set') bound[`p${index + 1}`] = setText(value as object[], parameter.columns);
    else bound[`p${index + 1}`] = `[${(value as readonly unknown[]).map(cellText).join(',')}]`;
  }
  return bound;
}

function scalarOf(value: Values[string]): Scalar {
  if (typeof value === 'boolean') return Number(value);
  if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return value;
  throw new TypeError('A statement wants one value where it was given a list');
}

function setCell({ name, type }: SetColumn, index: number): string {
  const cell = `value ->> ${index}`;
  return `${type === 'bytea' ? `unhex(${cell})` : cell} AS ${name}`;
}

/** The text of a set: each row as an array, in the order of the columns. */
function setText(rows: readonly object[], columns: readonly SetColumn[]): string {
  const members = columns.map(({ name }) => camelCase(name));
  return `[${rows
    .map((row) => {
      const cells = members.map((member) => cellText((row as Readonly<Record<string, unknown>>)[member]));
      return `[${cells.join(',')}]`;
    })
    .join(',')}]`;
}

function cellText(cell: unknown): string {
  if (typeof cell === 'bigint') return String(cell);
  if (cell instanceof Uint8Array) return `"${Buffer.from(cell).toString('hex')}"`;
  if (typeof cell === 'boolean') return cell ? '1' : '0';
  if (cell === undefined) throw new TypeError('A row of a set lacks a member that its statement names');
  return JSON.stringify(cell);
}

/** SQLite answers at once: work that lasts longer waits for something else, which may wait for its connection. */
const mostWaitMs = 10_000;

/**
 * Runs `work` on a connection after BEGIN. Throws the error of a failed statement, even if `work` caught it. From then
 * on every statement is refused. Throws `TypeError` where `work` waits for a transaction inside it.
 */
export async function inTx<Result>(statements: Statements, work: (tx: SqliteTx) => Promise<Result>) {
  let isOver = false;
  /** Error of the first failed statement: no statement runs after it, as on a server. */
  let failure: { readonly error: unknown } | null = null;
  const refuseLate = (): void => {
    if (isOver) throw new TypeError('A statement was given after its transaction had ended');
  };
  const checkFailure = (): void => {
    if (failure !== null) throw failure.error;
  };
  const ask = async <Answer>(statement: () => Answer): Promise<Answer> => {
    refuseLate();
    checkFailure();
    try {
      return statement();
    } catch (error) {
      failure = { error };
      throw error;
    }
  };
  const tx: SqliteTx = {
    dialect: sqliteDialect,
    rows: <Row extends object>(sql: string, values = {}) => ask(() => statements.rows(sql, values) as Row[]),
    first: async <Row extends object>(sql: string, values = {}) =>
      await ask(() => statements.rows(sql, values)[0] as Row | undefined),
    run: async (sql, values = {}) => await ask(() => statements.run(sql, values)),
    put: (sql, values = {}) => {
      refuseLate();
      // Its error is thrown by the next statement, or by the end of the transaction.
      ask(() => statements.run(sql, values)).catch(() => undefined);
    },
    prepared: async (sql) => await ask(() => statements.prepared(sql)),
  };
  let timer: NodeJS.Timeout | undefined;
  const stuck = new Promise<never>((_resolve, reject) => {
    const fail = (): void => reject(new TypeError('A transaction waited for more than its own statements'));
    timer = setTimeout(fail, mostWaitMs);
  });
  try {
    const result = await Promise.race([work(tx), stuck]);
    checkFailure();
    return result;
  } finally {
    clearTimeout(timer);
    isOver = true;
  }
}
