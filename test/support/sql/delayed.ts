import type { Database, Snapshot, Tx, TransactHow, Values } from '../../../src/sql/database.ts';
import type { PostgresTx } from '../../../src/sql/postgres/session.ts';
import type { SqliteTx } from '../../../src/sql/sqlite/sqlite-tx.ts';

type Delay = () => Promise<void>;
type Work<Result> = (tx: Tx) => Promise<Result>;

/** The database, with statements that wait for `delay`, as they would on a slow server. */
export function delayed<Of extends Database>(db: Of, delay: Delay): Of {
  return {
    ...db,
    transact: async <Result>(work: Work<Result>, how?: TransactHow) =>
      await db.transact(inTurns(delay, work), how),
    read: async <Result>(work: Work<Result>) => await db.read(inTurns(delay, work)),
    openSnapshot: async (signal?: AbortSignal) => delayedSnapshot(await db.openSnapshot(signal), delay),
  };
}

function delayedSnapshot(snapshot: Snapshot, delay: Delay): Snapshot {
  return {
    read: async (work) => await snapshot.read(inTurns(delay, work)),
    batches: async function* (sql, values) {
      await delay();
      for await (const batch of snapshot.batches(sql, values)) {
        yield batch;
        await delay();
      }
    },
    [Symbol.asyncDispose]: async () => await snapshot[Symbol.asyncDispose](),
  };
}

/** Work with delayed statements. The transaction ends when all of them were given to the database. */
function inTurns<Result>(delay: Delay, work: Work<Result>): Work<Result> {
  return async (tx) => {
    const turns = openTurns(tx, delay);
    try {
      return await work(delayedTx(tx, turns));
    } finally {
      await turns.end();
    }
  };
}

/**
 * Statements are given in the order in which they were asked: in SQLite each has a turn of its own; on a server, those
 * that are asked for while one waits share its turn, and so its round trip.
 */
function openTurns({ dialect }: Tx, delay: Delay) {
  const isShared = dialect.name === 'postgres';
  let last: Promise<void> = Promise.resolve();
  let waiting = 0;
  let isOver = false;
  const next = (): Promise<void> => {
    if (isShared && waiting > 0) return last;
    waiting += 1;
    return (last = last.then(delay).then(() => void (waiting -= 1)));
  };
  return {
    take: async <Answer>(statement: () => Promise<Answer>): Promise<Answer> => {
      if (!isOver) await next();
      return await statement();
    },
    /** For a statement that the caller does not wait for; on a server it travels with the next one. */
    follow: (statement: () => void): void => {
      if (isOver || (isShared && waiting === 0)) {
        statement();
        return;
      }
      // The end of a transaction that failed refuses it.
      void next()
        .then(statement)
        .catch(() => undefined);
    },
    end: async (): Promise<void> => {
      await last;
      isOver = true;
    },
  };
}

function delayedTx<Of extends Tx>(tx: Of, { take, follow }: ReturnType<typeof openTurns>): Of {
  const { arrays, prepared } = tx as Partial<PostgresTx & SqliteTx>;
  return {
    ...tx,
    rows: async <Row extends object>(sql: string, values?: Values) =>
      await take(async () => await tx.rows<Row>(sql, values)),
    first: async <Row extends object>(sql: string, values?: Values) =>
      await take(async () => await tx.first<Row>(sql, values)),
    run: async (sql: string, values?: Values) => await take(async () => await tx.run(sql, values)),
    put: (sql: string, values?: Values, chunks?: Iterable<Buffer>) => {
      follow(() => {
        // `as`: SQLite's takes no chunks, and is given none.
        (tx as Of & PostgresTx).put(sql, values, chunks);
      });
    },
    ...(arrays && {
      arrays: async (...of: Parameters<typeof arrays>) => await take(async () => await arrays(...of)),
    }),
    ...(prepared && {
      prepared: async (...of: Parameters<typeof prepared>) => await take(async () => await prepared(...of)),
    }),
  };
}
