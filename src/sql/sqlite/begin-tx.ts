import { sqliteDialect } from './sqlite-dialect.ts';
import type { SqliteTx, Statements } from './sqlite-tx.ts';

export interface BegunTx {
  readonly tx: SqliteTx;
  /**
   * Waits for statements that were put, and throws what one of all statements has failed with. From then on every
   * statement is refused.
   */
  readonly end: () => Promise<void>;
  /** Rejects when the transaction waits for something else than its own statements. */
  readonly failed: Promise<never>;
}

/** A transaction on a connection on which BEGIN was done. `onStuck` is called with the error in front of `failed`. */
export function beginTx(
  statements: Statements,
  delay: (() => Promise<void>) | undefined,
  onStuck: (error: unknown) => void = () => undefined,
): BegunTx {
  let isOver = false;
  /** Statements that wait for their turn; without a delay there are never any. */
  let waiting = 0;
  let last: Promise<unknown> = Promise.resolve();
  /** Of the first statement that failed: none runs behind it, as on a server. */
  let failure: { readonly error: unknown } | null = null;
  let idle: NodeJS.Immediate | null = null;
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_resolve, reject) => (fail = reject));
  failed.catch(() => undefined);

  /**
   * SQLite answers at once. A transaction that is still open when the event loop turns, while none of its statements
   * waits, waits for a timer, a file or another transaction, which may wait for this one.
   */
  const watch = (): void => {
    idle ??= setImmediate(() => {
      idle = null;
      if (isOver) return;
      if (waiting > 0) {
        watch();
        return;
      }
      const error = new TypeError('A transaction waited for something else than its own statements');
      onStuck(error);
      fail(error);
    });
  };
  const refuseLate = (): void => {
    if (isOver) throw new TypeError('A statement was given after its transaction had ended');
  };
  const doNow = <Result>(statement: () => Result): Result => {
    refuseLate();
    if (failure !== null) throw failure.error;
    try {
      return statement();
    } catch (error) {
      failure = { error };
      throw error;
    }
  };
  const ask = async <Result>(statement: () => Result): Promise<Result> => {
    if (delay === undefined) return doNow(statement);
    refuseLate();
    waiting += 1;
    const turn = last.then(async () => {
      await delay();
      return doNow(statement);
    });
    last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      waiting -= 1;
    }
  };
  watch();
  const tx: SqliteTx = {
    dialect: sqliteDialect,
    rows: async <Row extends object>(sql: string, values = {}) =>
      await ask(() => statements.rows(sql, values) as Row[]),
    first: async <Row extends object>(sql: string, values = {}) =>
      await ask(() => statements.rows(sql, values)[0] as Row | undefined),
    run: async (sql, values = {}) => await ask(() => statements.run(sql, values)),
    put: (sql, values = {}) => {
      refuseLate();
      // Its error is that of the next statement, or of the end.
      ask(() => statements.run(sql, values)).catch(() => undefined);
    },
    prepared: async (sql, how = {}) => await ask(() => statements.prepared(sql, how)),
  };
  return {
    tx,
    end: async () => {
      await last;
      isOver = true;
      if (idle !== null) clearImmediate(idle);
      if (failure !== null) throw failure.error;
    },
    failed,
  };
}
