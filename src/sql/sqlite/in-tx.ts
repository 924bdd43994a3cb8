import { sqliteDialect, type SqliteTx, type Statements } from './sqlite-tx.ts';

/**
 * Runs `work` on a connection on which BEGIN was done, and waits for every statement. Throws what a statement has
 * failed with, also where `work` caught it. From then on every statement is refused.
 *
 * SQLite answers at once. A transaction that is still open when the event loop turns, while none of its statements
 * waits, waits for a timer, a file or another transaction, which may wait for this one: it fails, and `onStuck` is
 * called with the error first.
 */
export async function inTx<Result>(
  statements: Statements,
  work: (tx: SqliteTx) => Promise<Result>,
  delay: (() => Promise<void>) | undefined,
  onStuck: (error: unknown) => void = () => undefined,
): Promise<Result> {
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
  const checkFailure = (): void => {
    if (failure !== null) throw failure.error;
  };
  const doNow = <Answer>(statement: () => Answer): Answer => {
    refuseLate();
    checkFailure();
    try {
      return statement();
    } catch (error) {
      failure = { error };
      throw error;
    }
  };
  const ask = async <Answer>(statement: () => Answer): Promise<Answer> => {
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
  let result: Result;
  try {
    result = await Promise.race([work(tx), failed]);
  } finally {
    await last;
    isOver = true;
    if (idle !== null) clearImmediate(idle);
  }
  checkFailure();
  return result;
}
