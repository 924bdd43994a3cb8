import type * as duckdb from '@duckdb/node-api';
import { SyncError } from '../../core/errors.ts';

export type Library = typeof duckdb;

/** An open file. */
export interface Duckdb extends Disposable {
  readonly library: Library;
  readonly connection: duckdb.DuckDBConnection;
  readonly run: (sql: string, values?: Record<string, duckdb.DuckDBValue>) => Promise<void>;
  readonly rows: <Row extends object>(
    sql: string,
    values?: Record<string, duckdb.DuckDBValue>,
  ) => Promise<readonly Row[]>;
}

/** Nothing is downloaded: what these files need is in the library. The rest goes to a folder beside the file. */
const settings = {
  autoinstall_known_extensions: 'false',
  autoload_known_extensions: 'false',
  allow_community_extensions: 'false',
  memory_limit: '256MB',
  threads: '2',
  preserve_insertion_order: 'false',
};

/** Throws `SyncError` PACKAGE_MISSING, and what `toDuckdbError` says. */
export async function openDuckdb(path: string, how: 'read' | 'write'): Promise<Duckdb> {
  const library = await loadLibrary();
  const instance = await library.DuckDBInstance.create(path, {
    ...settings,
    access_mode: how === 'read' ? 'READ_ONLY' : 'READ_WRITE',
    temp_directory: `${path}.tmp`,
  });
  const connection = await instance.connect();
  return {
    library,
    connection,
    run: async (sql, values) => void (await connection.run(sql, values)),
    rows: async <Row extends object>(sql: string, values?: Record<string, duckdb.DuckDBValue>) => {
      const reader = await connection.runAndReadAll(sql, values);
      return reader.getRowObjects() as readonly object[] as readonly Row[];
    },
    [Symbol.dispose]: () => {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

async function loadLibrary(): Promise<Library> {
  try {
    return await import('@duckdb/node-api');
  } catch (error) {
    const why = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
    throw new SyncError(
      `A target of type duckdb needs the package @duckdb/node-api, which cannot be loaded (${why.slice(0, 200)}). Add it: npm install @duckdb/node-api`,
      { code: 'PACKAGE_MISSING', recovery: 'stop' },
    );
  }
}

/** What a failure of DuckDB means for the target at `path`; a `SyncError` is given back as it came. A message that may quote values is left out. */
export function toDuckdbError(error: unknown, path: string): SyncError {
  if (error instanceof SyncError) return error;
  const whole = error instanceof Error ? error.message : String(error);
  const kind = /^(\w[\w ]*) Error:/.exec(whole)?.[1] ?? 'unknown';
  const said = /^(IO|Catalog|Binder|Out of Memory|Serialization)$/.test(kind)
    ? (whole.split('\n')[0] ?? '').slice(0, 300)
    : `${kind} error`;
  const context = { path, cause: kind };
  if (/lock is held|could not set lock/i.test(whole)) {
    return new SyncError(
      `${path} is open for writing in another process (${said}). Open published files with -readonly, close the other one, and publish again.`,
      { code: 'TARGET_FAILED', recovery: 'retry', context },
    );
  }
  if (/not a valid DuckDB database|database file was created with|storage version/i.test(whole)) {
    return new SyncError(
      `${path} is no DuckDB file that this version of DuckDB can read (${said}). Name another path, or use a newer @duckdb/node-api.`,
      { code: 'TARGET_INCOMPATIBLE', recovery: 'stop', context },
    );
  }
  if (kind === 'Out of Memory' || /no space left|disk full/i.test(whole)) {
    return new SyncError(
      `There is not enough space to build ${path} (${said}); nothing of this publication is there. Free space on its disk and publish again.`,
      { code: 'TARGET_FAILED', recovery: 'retry', context },
    );
  }
  return new SyncError(
    `DuckDB could not do its work on ${path} (${said}). Check the file, its folder and the disk, and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'stop', context },
  );
}

/** Always quoted, so that no name is a keyword. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function incompatible(path: string, found: string, advice: string): SyncError {
  return new SyncError(`${path} cannot be used as a target: ${found}. ${advice}`, {
    code: 'TARGET_INCOMPATIBLE',
    recovery: 'stop',
    context: { path },
  });
}
