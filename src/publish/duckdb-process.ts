import { answerParent } from '../child/start-child.ts';
import type { SyncError } from '../core/errors.ts';
import type { AppendedRow, AppendedTable, Duckdb, SentValue } from './open-duckdb.ts';
import { openDuckdb, toDuckdbError } from './open-duckdb.ts';

/** The entry point of the process that uses DuckDB. */
process.umask(0o077);
/** Open files, by numbers that are given once. */
const files = new Map<number, { readonly db: Duckdb; readonly path: string }>();
let lastId = 0;

interface OfFile {
  readonly id: number;
}
type Statement = OfFile & { readonly sql: string; readonly values: Readonly<Record<string, SentValue>> };

const calls = {
  open: async ({ path, how }: { readonly path: string; readonly how: 'read' | 'write' }): Promise<number> => {
    const db = await openDuckdb(path, how);
    files.set((lastId += 1), { db, path });
    return lastId;
  },
  rows: async ({ id, sql, values }: Statement) => await opened(id).rows(sql, values),
  run: async ({ id, sql, values }: Statement) => await opened(id).run(sql, values),
  appendTo: ({ id, table }: OfFile & { readonly table: AppendedTable }) => opened(id).appendTo(table),
  append: ({ id, rows }: OfFile & { readonly rows: readonly AppendedRow[] }) => opened(id).append(rows),
  flush: ({ id }: OfFile) => opened(id).flush(),
  endAppend: ({ id }: OfFile) => opened(id).endAppend(),
  close: ({ id }: OfFile): void => {
    files.get(id)?.db[Symbol.dispose]();
    files.delete(id);
  },
};

export type DuckdbCalls = typeof calls;

// Killed, the process frees every lock and leaves the file that is being built, which no reader opens.
answerParent(calls, { explain, end: 'kill' });

function explain(error: unknown, _name: string, given: unknown): SyncError {
  const { id = 0, path = files.get(id)?.path ?? '' } = Object(given) as { id?: number; path?: string };
  return toDuckdbError(error, path.replace(/\.new-[0-9a-f]{32}$/, ''));
}

function opened(id: number): Duckdb {
  const file = files.get(id);
  if (file === undefined) throw new TypeError('A statement came for a file that is not open');
  return file.db;
}
