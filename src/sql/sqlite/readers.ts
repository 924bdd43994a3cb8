import type { Connection } from './open-sqlite.ts';
import { statementsOn, type Statements } from './sqlite-tx.ts';

/** Readers that nothing was asked of for so long are closed. */
const idleMs = 5_000;
/** Open at once, at most; further reads wait. */
export const mostReaders = 4;

export interface Reader {
  readonly db: Connection;
  readonly statements: Statements;
}

/** Connections that read, opened when they are first needed. Each read has one to itself. */
export interface Readers {
  use<Result>(work: (reader: Reader) => Promise<Result>): Promise<Result>;
  /** Refuses reads from now on; resolves when those that have begun are over and every connection is closed. */
  close(): Promise<void>;
}

export function openReaders(openReader: () => Connection, closedError: () => Error): Readers {
  const idle: Reader[] = [];
  const waiting: (() => void)[] = [];
  let inUse = 0;
  let isClosed = false;
  let timer: NodeJS.Timeout | null = null;
  let drained: () => void = () => undefined;

  const closeIdle = (): void => {
    for (const { db } of idle.splice(0)) db.close();
  };
  /** The caller has a place among the readers from here on. */
  const enter = async (): Promise<void> => {
    if (isClosed) throw closedError();
    if (inUse < mostReaders) {
      inUse += 1;
      return;
    }
    // The place is handed over: it is never free in between.
    await new Promise<void>((resolve) => void waiting.push(resolve));
  };
  const leave = (): void => {
    const next = waiting.shift();
    if (next !== undefined) {
      next();
      return;
    }
    inUse -= 1;
    if (isClosed && inUse === 0) drained();
  };
  const giveBack = (reader: Reader): void => {
    idle.push(reader);
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(closeIdle, idleMs).unref();
  };
  return {
    use: async (work) => {
      await enter();
      try {
        const reader = idle.pop() ?? readerOn(openReader());
        try {
          return await work(reader);
        } finally {
          giveBack(reader);
        }
      } finally {
        leave();
      }
    },
    close: async () => {
      isClosed = true;
      if (inUse > 0) await new Promise<void>((resolve) => (drained = resolve));
      if (timer !== null) clearTimeout(timer);
      closeIdle();
    },
  };
}

function readerOn(db: Connection): Reader {
  return { db, statements: statementsOn(db) };
}
