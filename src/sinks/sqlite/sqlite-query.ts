import { type SyncError, usage } from '../../core/errors.ts';
import { columnOf, type Tx } from '../../sql/database.ts';
import { inTx } from '../../sql/sqlite/sqlite-tx.ts';
import {
  columnsRead,
  copyViews,
  openEmptyCopy,
  queryRows,
  type QueryRows,
} from '../../sql/sqlite/query-copy.ts';
import { readerOn } from '../../sql/sqlite/open-sqlite-database.ts';
import { isSqliteError, storageFailure } from '../../sql/sqlite/sqlite-error.ts';
import { ledgerReader } from '../ledger/history/history.ts';
import {
  offeredViews,
  queryRefused,
  type OfferedTable,
  type OfferedView,
  type OnViews,
} from '../records/offered-views.ts';
import { openReadonlyDatabase, toSinkError } from './open-database.ts';
import { sqliteFormat } from './sqlite-schema.ts';
import { sqliteTables } from './sqlite-tables.ts';

interface ViewQuery {
  /** Database file of the sink. */
  readonly file: string;
  readonly offered: readonly OfferedTable[];
  /** Untrusted text of the query. */
  readonly sql: string;
  readonly offset: number;
  /** Path of the temporary copy of the data that the query reads. */
  readonly copy: string;
  readonly mostCopyBytes: number;
}

/** The views of a sink that are offered. Throws SINK_FAILED where there is no sink, SINK_INCOMPATIBLE. */
export async function listViews(file: string, offered: readonly OfferedTable[]) {
  return await inSink(file, async (_source, read) => await read((tx) => viewsIn(tx, offered)));
}

/**
 * Answers a query over views of a SQLite sink, in one state of it. The query has a connection to a file that holds the
 * rows of the views that it reads, and nothing else; SQLite here has no way from one open file to another but ATTACH,
 * which is no query. Throws USAGE for a query that is none.
 */
export async function queryViews<Facts>(
  { file, offered, sql, offset, copy: at, mostCopyBytes: mostBytes }: ViewQuery,
  onViews: OnViews<Facts>,
): Promise<{ readonly facts: Facts; readonly found: QueryRows; readonly views: readonly OfferedView[] }> {
  return await inSink(file, async (source, inState) => {
    const views = await inState((tx) => viewsIn(tx, offered));
    const empty = openEmptyCopy(source, views);
    const read = ofQuery(() => columnsRead(empty, sql), views);
    empty.close();
    const facts = await onViews(
      views.filter(({ name }) => read.has(name)),
      ledgerReader(sqliteTables, inState),
    );
    const copy = await copyViews(source, { views, read, file: at, mostBytes }).catch((error: unknown) => {
      throw storageFailure(error)?.isFull === true ? tooMuch(mostBytes) : error;
    });
    return ofQuery(() => {
      for (const [name, columns] of columnsRead(copy, sql)) {
        const isCopied = [...columns].every((column) => read.get(name)?.has(column) === true);
        if (!isCopied) throw new TypeError(`the query reads more of ${name} than is copied`);
      }
      return { facts, found: queryRows(copy, sql, offset), views };
    }, views);
  });
}

type Read = <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>;

async function inSink<Result>(
  file: string,
  work: (source: ReturnType<typeof openReadonlyDatabase>, read: Read) => Promise<Result>,
): Promise<Result> {
  const source = openReadonlyDatabase({ file, format: sqliteFormat });
  try {
    source.exec('BEGIN');
    const { statements } = readerOn(source);
    return await work(source, async (asked) => await inTx(statements, asked));
  } catch (error) {
    throw toSinkError(error, file);
  } finally {
    source.close();
  }
}

async function viewsIn(tx: Tx, offered: readonly OfferedTable[]): Promise<readonly OfferedView[]> {
  return await offeredViews(tx, offered, async (of, view) =>
    columnOf<string>(of, 'SELECT name FROM pragma_table_info(:view)', { view }),
  );
}

/** Runs work of a query, and translates SQLite's errors about its text and its values into a refusal. */
export function ofQuery<Result>(work: () => Result, views: readonly OfferedView[]): Result {
  try {
    return work();
  } catch (error) {
    if (!isSqliteError(error) && !(error instanceof RangeError)) throw error;
    throw queryRefused(error.message, views);
  }
}

function tooMuch(mostBytes: number): SyncError {
  return usage(
    `sql: what the query reads takes more than ${mostBytes / 1024 ** 2} MiB, or more than there is for temporary files. Ask for fewer columns: no *, no long texts. search, get and changes read records of any size.`,
  );
}
