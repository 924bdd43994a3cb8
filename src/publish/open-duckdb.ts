import type * as duckdb from '@duckdb/node-api';
import type { DuckDBType, DuckDBValue } from '@duckdb/node-api';
import { importOptional, SyncError } from '../core/errors.ts';
import type { ColumnValue } from '../core/records.ts';
import { type Advices, failedError } from './target.ts';
import { decimalDigits, withoutHalves } from './typed-columns.ts';
import { rowColumns, rowOf } from '../sql/statement.ts';

export type Library = typeof duckdb;

export type Duckdb = Awaited<ReturnType<typeof openDuckdb>>;

export type SentValue = string | number | boolean | null;

/** Values by the names that a statement has for them, as in `:name`. */
type Values = Readonly<Record<string, SentValue>>;

/**
 * Beyond this limit DuckDB uses the disk, except for the rows that it works on: 2,048 of a table at once, however long
 * they are.
 */
const memoryLimit = '256MB';
/** For rows of up to 256 KiB, each of which may take a block of that size, and for tables of many columns. */
export const largerLimit = '640MB';
/** The name of the open file in statements. */
export const fileName = 'published_file';

/**
 * Nothing is downloaded: the library has everything that these files need. The rest goes to a folder beside the file.
 */
const settings = {
  autoinstall_known_extensions: 'false',
  autoload_known_extensions: 'false',
  allow_community_extensions: 'false',
  memory_limit: memoryLimit,
  threads: '2',
  preserve_insertion_order: 'false',
};

/**
 * Throws `SyncError` PACKAGE_MISSING, and what `toDuckdbError` says. A file to write is one that no reader has: a crash
 * may spoil it.
 */
export async function openDuckdb(path: string, how: 'read' | 'write') {
  const library = await loadLibrary();
  const instance = await library.DuckDBInstance.create(':memory:', {
    ...settings,
    temp_directory: `${path}.tmp`,
  });
  const connection = await instance.connect();
  const dispose = (): void => {
    connection.closeSync();
    instance.closeSync();
  };
  try {
    await attach(connection, path, how);
  } catch (error) {
    dispose();
    throw error;
  }
  let appending: Appending | null = null;
  return {
    run: async (sql: string, values: Values): Promise<void> =>
      void (await connection.run(...named(sql, values))),
    /** Integers are numbers, and names are in camel case. */
    rows: async (sql: string, values: Values): Promise<readonly object[]> => {
      const reader = await connection.runAndReadAll(...named(sql, values));
      const columns = rowColumns(reader.columnNames());
      const numbered = (cell: unknown) => (typeof cell === 'bigint' ? Number(cell) : cell);
      return reader.getRows().map((cells) => rowOf(columns, cells, numbered));
    },
    /** Later rows go to the end of this table. */
    appendTo: async ({ catalog, schema, name, types }: AppendedTable): Promise<void> => {
      const fields = types.map((type) => fieldTypes[type]);
      // Reused, because the garbage collector does not see the memory that it holds outside the heap.
      const chunk = library.DuckDBDataChunk.create(fields.map(({ type }) => type(library)));
      appending = { appender: await connection.createAppender(name, schema, catalog), fields, chunk };
    },
    append: (rows: readonly AppendedRow[]): void => {
      const { appender, fields, chunk } = opened(appending);
      for (let first = 0; first < rows.length; first += chunkRows) {
        const some = rows.slice(first, first + chunkRows);
        chunk.reset();
        chunk.setColumns(
          fields.map(({ read }, index) =>
            some.map((row) => {
              const value = row[index] ?? null;
              return value === null ? null : read(value, library);
            }),
          ),
        );
        appender.appendDataChunk(chunk);
      }
    },
    flush: (): void => opened(appending).appender.flushSync(),
    endAppend: (): void => {
      opened(appending).appender.closeSync();
      appending = null;
    },
    [Symbol.dispose]: dispose,
  };
}

/** The size of DuckDB's vectors. */
const chunkRows = 2_048;

interface Appending {
  readonly appender: duckdb.DuckDBAppender;
  readonly fields: readonly Field[];
  readonly chunk: duckdb.DuckDBDataChunk;
}

function opened(appending: Appending | null): Appending {
  if (appending === null) throw new TypeError('Rows came before their table');
  return appending;
}

/** Statements with values have no text or name in quotes with a colon in it. */
function named(sql: string, values: Values): [sql: string, values?: Record<string, SentValue>] {
  const names = Object.keys(values);
  return names.length === 0 ? [sql] : [sql.replaceAll(/(?<!:):(?=[a-z])/g, '$'), { ...values }];
}

/**
 * Attaches without a log: all rows of a small transaction would pass through it, which takes three times their memory.
 * DuckDB before 1.5 always has one.
 */
async function attach(connection: duckdb.DuckDBConnection, path: string, how: 'read' | 'write') {
  const sql = `ATTACH '${path.replaceAll("'", "''")}' AS ${fileName}`;
  if (how === 'read') await connection.run(`${sql} (READ_ONLY)`);
  else await connection.run(`${sql} (RECOVERY_MODE no_wal_writes)`).catch(() => connection.run(sql));
  await connection.run(`USE ${fileName}`);
}

/** Version of the DuckDB in this process; empty before it is loaded. */
let version = '';

async function loadLibrary(): Promise<Library> {
  const load = async () => await import('@duckdb/node-api');
  const library = await importOptional('A target of type duckdb', '@duckdb/node-api', load);
  version = ` ${library.version()}`;
  return library;
}

/**
 * Converts a failure of DuckDB to an error of the target at `path`; a `SyncError` is returned unchanged. Leaves out a
 * message that may quote values.
 */
export function toDuckdbError(error: unknown, path: string): SyncError {
  if (error instanceof SyncError) return error;
  const whole = error instanceof Error ? error.message : String(error);
  const kind = /^(\w[\w ]*) Error:/.exec(whole)?.[1] ?? 'unknown';
  const isSafe = /^(IO|Catalog|Binder|Out of Memory|Serialization)$/.test(kind);
  const said = isSafe ? (whole.split('\n')[0] ?? '').slice(0, 300) : withoutValues(error);
  const context = { path, cause: kind };
  return failedError(`DuckDB${version} failed on ${path}: ${said}`, whole, advices, { context });
}

const advices: Advices = [
  [
    /lock is held|could not set lock/i,
    'Another process has it open for writing: open published files with -readonly, close the other one, and publish again.',
    'retry',
  ],
  [
    /not a valid DuckDB database|database file was created with|storage version/i,
    'It is no DuckDB file that this version reads: name another path, or use a newer @duckdb/node-api.',
    'stop',
    'TARGET_INCOMPATIBLE',
  ],
  [
    /failed to offload|max_temp_directory_size|no space left|disk full/i,
    'Free space on its disk, and publish again.',
    'retry',
  ],
  [
    /^Out of Memory|failed to (?:pin|allocate)|could not allocate/i,
    `${largerLimit} of memory do not do. Rows are too long, as it holds 2,048 of a table at once, or a table has hundreds of columns. Name only the other connectors in this target's \`connectors\`, and publish this one to a target of type files, s3 or postgres.`,
  ],
  [
    /^/,
    'Check the file, its folder and the disk, and that @duckdb/node-api is a recent version (npm install @duckdb/node-api@latest).',
  ],
];

/**
 * A value of a row may stand behind the first quote or digit, and anywhere in what JavaScript says of a value that it
 * cannot convert.
 */
function withoutValues(error: unknown): string {
  if (!(error instanceof Error) || error.name !== 'Error') {
    return error instanceof Error ? error.name : 'unknown error';
  }
  const [said = ''] = error.message.split(/["'`\d\n]/);
  const text = said.slice(0, 300).trim();
  return text.length < error.message.length ? `${text} …` : text;
}

/** Where rows are appended, and the types of its columns. */
export interface AppendedTable {
  readonly catalog: string;
  readonly schema: string;
  readonly name: string;
  readonly types: readonly (keyof typeof fieldTypes)[];
}

/** The values of the columns, as far as they are not null at the end. */
export type AppendedRow = readonly ColumnValue[];

/** How a value becomes one of DuckDB. */
interface Field {
  readonly type: (library: Library) => DuckDBType;
  readonly read: (value: Exclude<ColumnValue, null>, library: Library) => DuckDBValue;
}

const { precision, scale } = decimalDigits;

/** By the names that `columnsOf` has for them. */
const fieldTypes = {
  text: { type: ({ VARCHAR }) => VARCHAR, read: String },
  bigint: { type: ({ BIGINT }) => BIGINT, read: (value) => BigInt(value) },
  'double precision': { type: ({ DOUBLE }) => DOUBLE, read: Number },
  boolean: { type: ({ BOOLEAN }) => BOOLEAN, read: (value) => Number(value) !== 0 },
  /**
   * Its text, as it came, without `\ud83d` alone: DuckDB's functions on JSON fail on it, for all rows that a query
   * reads.
   */
  json: {
    type: ({ VARCHAR }) => VARCHAR,
    read: (value) => {
      const json = String(value);
      return /\\u[dD][89a-fA-F]/.test(json) ? withoutHalves(json, '\\ufffd') : json;
    },
  },
  jsonb: { type: ({ VARCHAR }) => VARCHAR, read: String },
  timestamptz: {
    type: ({ TIMESTAMPTZ }) => TIMESTAMPTZ,
    read: (value, { DuckDBTimestampTZValue }) =>
      new DuckDBTimestampTZValue(
        typeof value === 'bigint' ? value : BigInt(Date.parse(String(value))) * 1_000n,
      ),
  },
  date: {
    type: ({ DATE }) => DATE,
    read: (value, { DuckDBDateValue }) => new DuckDBDateValue(Number(value)),
  },
  numeric: {
    type: ({ DECIMAL }) => DECIMAL(precision, scale),
    read: (value, { DuckDBDecimalValue }) => new DuckDBDecimalValue(BigInt(value), precision, scale),
  },
} satisfies Record<string, Field>;
