import { explained } from '../explained.ts';
import { openTurns } from '../turns.ts';
import { inOneState, readerOn, type Reader, type ReadSqliteOptions } from './read-sqlite.ts';
import type { SqliteTx } from './sqlite-tx.ts';

export type WatchedSqlite = ReturnType<typeof watchSqlite>;

/**
 * A SQLite file that is read for days on one connection, which stays open. One connection serves both, one call after
 * the other: a worker watches many files, and each connection costs descriptors and pages in memory. Numbers of two
 * connections have nothing to do with each other, so it is never replaced. Nothing is opened before something is asked.
 */
export function watchSqlite(options: ReadSqliteOptions) {
  const { file, openReader, explain, cacheKiB, delay } = options;
  const turns = openTurns();
  let opened: Reader | null = null;
  let isClosed = false;

  const use = async <Result>(work: (reader: Reader) => Promise<Result>): Promise<Result> =>
    await turns.take(
      async () =>
        await explained(explain, async () => {
          if (isClosed) throw new TypeError(`${file} was closed`);
          opened ??= readerOn(openReader(), cacheKiB);
          return await work(opened);
        }),
    );

  return {
    read: async <Result>(work: (tx: SqliteTx) => Promise<Result>) =>
      await use(async (reader) => await inOneState(reader, work, delay)),
    /**
     * Another number whenever something was committed to the file, by this process or another. Asked for in front of a
     * read, it shows later whether that read is still current.
     */
    mark: async () => await use(async ({ db }) => Number(db.pragma('data_version', { simple: true }))),
    [Symbol.asyncDispose]: async () =>
      await turns.take(async () => {
        isClosed = true;
        opened?.db.close();
        opened = null;
      }),
  };
}
