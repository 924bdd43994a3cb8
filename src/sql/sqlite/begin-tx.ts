import { sqliteDialect } from './sqlite-dialect.ts';
import type { SqliteTx, Statements } from './sqlite-tx.ts';

export interface BegunTx {
  readonly tx: SqliteTx;
  /** Waits for statements that were put; from then on every statement is refused. */
  readonly end: () => Promise<void>;
  /** Rejects when the transaction waits for something else than its own statements. */
  readonly failed: Promise<never>;
}

/** A transaction on a connection on which BEGIN was done. */
export function beginTx(statements: Statements, delay: (() => Promise<void>) | undefined): BegunTx {
  let isOver = false;
  /** Statements that wait for their turn; without a delay there are never any. */
  let waiting = 0;
  let last: Promise<unknown> = Promise.resolve();
  let putError: { readonly error: unknown } | null = null;
  let idle: NodeJS.Immediate | null = null;
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_resolve, reject) => (fail = reject));
  failed.catch(() => undefined);

  /**
   * SQLite answers at once. A transaction that is still open when the event loop turns, while none of its statements waits, waits for a timer, a file or
   * another transaction, which may wait for this one.
   */
  const watch = (): void => {
    idle ??= setImmediate(() => {
      idle = null;
      if (isOver) return;
      if (waiting > 0) watch();
      else fail(new TypeError('A transaction waited for something else than its own statements'));
    });
  };
  const doNow = <Result>(statement: () => Result): Result => {
    if (isOver) throw new TypeError('A statement was given after its transaction had ended');
    if (putError !== null) throw putError.error;
    return statement();
  };
  const ask = async <Result>(statement: () => Result): Promise<Result> => {
    if (delay === undefined) return doNow(statement);
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
      const failedPut = (error: unknown): void => void (putError ??= { error });
      if (delay !== undefined) {
        ask(() => statements.run(sql, values)).catch(failedPut);
        return;
      }
      try {
        doNow(() => statements.run(sql, values));
      } catch (error) {
        failedPut(error);
      }
    },
    prepared: async (sql, how = {}) => await ask(() => statements.prepared(sql, how)),
  };
  return {
    tx,
    end: async () => {
      await last;
      isOver = true;
      if (idle !== null) clearImmediate(idle);
      if (putError !== null) throw putError.error;
    },
    failed,
  };
}
