import type { Connection } from './open-sqlite.ts';
import { statementsOn, type Statements } from './sqlite-tx.ts';

/** Readers that nothing was asked of for so long are closed. */
const idleMs = 5_000;
/** Open at once, at most; further reads wait. */
const mostReaders = 4;

interface Reader {
  readonly db: Connection;
  readonly statements: Statements;
}

/** Connections that read. Each read has one for itself; the file shows what was committed in front of it. */
export function openReaders({ openReader }: { readonly openReader: () => Connection }) {
  const idle: Reader[] = [];
  const all = new Set<Reader>();
  const waiting: ((reader: Reader) => void)[] = [];
  let timer: NodeJS.Timeout | null = null;

  const closeIdle = (): void => {
    for (const reader of idle.splice(0)) {
      all.delete(reader);
      reader.db.close();
    }
  };
  const take = async (): Promise<Reader> => {
    const known = idle.pop();
    if (known !== undefined) return known;
    if (all.size >= mostReaders) return await new Promise((resolve) => void waiting.push(resolve));
    const db = openReader();
    const reader = { db, statements: statementsOn(db) };
    all.add(reader);
    return reader;
  };
  const giveBack = (reader: Reader): void => {
    const next = waiting.shift();
    if (next !== undefined) {
      next(reader);
      return;
    }
    idle.push(reader);
    if (timer !== null) timer.refresh();
    else timer = setTimeout(closeIdle, idleMs).unref();
  };
  return {
    use: async <Result>(work: (reader: Reader) => Promise<Result>): Promise<Result> => {
      const reader = await take();
      try {
        return await work(reader);
      } finally {
        giveBack(reader);
      }
    },
    close: async (): Promise<void> => {
      if (timer !== null) clearTimeout(timer);
      closeIdle();
    },
  };
}
