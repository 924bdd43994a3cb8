import type * as duckdb from '@duckdb/node-api';
import type { DuckDBType, DuckDBValue } from '@duckdb/node-api';
import { SyncError } from '../../core/errors.ts';
import type { ColumnValue, FieldType } from '../../core/records.ts';
import { withoutHalves } from '../row-files.ts';
import type { PlannedEntity } from '../target.ts';
import { rowColumns, rowOf } from '../../sql/statement.ts';

export type Library = typeof duckdb;

export type Duckdb = Awaited<ReturnType<typeof openDuckdb>>;

type Values = Record<string, duckdb.DuckDBValue>;

/**
 * Beyond this limit DuckDB uses the disk, except for the rows that it works on: 2,048 of a table at once, however long
 * they are.
 */
const memoryLimit = '256MB';
/** For rows of up to 256 KiB, each of which may take a block of that size, and for tables of many columns. */
const largerLimit = '640MB';
/** Characters of a row: 2,048 such rows may need more than the usual memory. */
export const longChars = 32 * 1024;
/** The name of a file that is written. */
const fileName = 'published_file';

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
  const more = { ...settings, temp_directory: `${path}.tmp` };
  const instance =
    how === 'read'
      ? await library.DuckDBInstance.create(path, { ...more, access_mode: 'READ_ONLY' })
      : await library.DuckDBInstance.create(':memory:', more);
  const connection = await instance.connect();
  if (how === 'write') await attach(connection, path);
  return {
    library,
    connection,
    run: async (sql: string, values?: Values): Promise<void> => void (await connection.run(sql, values)),
    /** Integers are numbers, and names are in camel case. */
    rows: async <Row extends object>(sql: string, values?: Values): Promise<readonly Row[]> => {
      const reader = await connection.runAndReadAll(sql, values);
      const columns = rowColumns(reader.columnNames());
      return reader.getRows().map((cells) => rowOf(columns, cells, numbered) as Row);
    },
    [Symbol.dispose]: (): void => {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

function numbered(cell: unknown): unknown {
  return typeof cell === 'bigint' ? Number(cell) : cell;
}

/**
 * Attaches without a log: all rows of a small transaction would pass through it, which takes three times their memory.
 * DuckDB before 1.5 always has one.
 */
async function attach(connection: duckdb.DuckDBConnection, path: string): Promise<void> {
  const sql = `ATTACH ${quotedText(path)} AS ${fileName}`;
  await connection.run(`${sql} (RECOVERY_MODE no_wal_writes)`).catch(() => connection.run(sql));
  await connection.run(`USE ${fileName}`);
}

/** Raises the limit from now on. Other publications do not get as much, because DuckDB would fill it. */
export async function allowMoreMemory(db: Duckdb): Promise<void> {
  await db.run(`SET memory_limit = '${largerLimit}'`);
}

/** Version of the DuckDB in this process; empty before it is loaded. */
let version = '';

async function loadLibrary(): Promise<Library> {
  try {
    const library = await import('@duckdb/node-api');
    version = ` ${library.version()}`;
    return library;
  } catch (error) {
    const why = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND';
    const state = isMissing ? 'is not installed' : `cannot be loaded (${why.slice(0, 200)})`;
    throw new SyncError(
      `A target of type duckdb needs the package @duckdb/node-api, which ${state}. Install it beside this program: npm install @duckdb/node-api`,
      { code: 'PACKAGE_MISSING', recovery: 'stop' },
    );
  }
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
  const memory = /(?:failed to (?:pin|allocate)|could not allocate)[^\n]*/.exec(whole)?.[0];
  const isDisk = /failed to offload|max_temp_directory_size|no space left|disk full/i.test(whole);
  if (isDisk) {
    return new SyncError(
      `There is not enough space to build ${path} (${said}); nothing of this publication is there. Free space on its disk and publish again.`,
      { code: 'TARGET_FAILED', recovery: 'retry', context },
    );
  }
  if (memory !== undefined || kind === 'Out of Memory') {
    return new SyncError(
      `DuckDB's memory (${largerLimit}) does not do for ${path} (${(memory ?? said).slice(0, 200)}); nothing of this publication is there. Rows are too long, as it holds 2,048 of a table at once, or a table has hundreds of columns. Name only the other connectors in this target's \`connectors\`, and publish this one to a target of type files, s3 or postgres.`,
      { code: 'TARGET_FAILED', recovery: 'stop', context },
    );
  }
  return new SyncError(
    `DuckDB${version} failed on ${path}: ${said}. Check the file, its folder and the disk, and that @duckdb/node-api is a recent version (npm install @duckdb/node-api@latest).`,
    { code: 'TARGET_FAILED', recovery: 'stop', context },
  );
}

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

/**
 * The name of the open file, which statements put in front of a schema: alone, the schema's name may be the file's too.
 */
export async function catalogOf(db: Duckdb): Promise<string> {
  const [main] = await db.rows<{ readonly name: string }>('SELECT current_database() AS name');
  return main?.name ?? '';
}

/** A text in SQL. */
export function quotedText(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

export function incompatible(path: string, found: string, advice: string): SyncError {
  return new SyncError(`${path} cannot be used as a target: ${found}. ${advice}`, {
    code: 'TARGET_INCOMPATIBLE',
    recovery: 'stop',
    context: { path },
  });
}

export type BuiltEntity = Pick<
  PlannedEntity,
  'connector' | 'entity' | 'generation' | 'key' | 'columns' | 'isNewGeneration'
>;

/** The values of the columns, then `_extra`, `_seq`, `_changed_at`, `_run_id` and `_deleted` (0 or 1). */
export type BuiltRow = readonly ColumnValue[];

/** Number of characters in all texts of a row. */
export function charsOf(row: BuiltRow): number {
  let chars = 0;
  for (const value of row) if (typeof value === 'string') chars += value.length;
  return chars;
}

/** A column of a table: its type, and how a value becomes one of DuckDB. */
export interface Field {
  readonly name: string;
  readonly sql: string;
  readonly type: (library: Library) => DuckDBType;
  readonly read: (value: Exclude<ColumnValue, null>, library: Library) => DuckDBValue;
}

const text = { sql: 'VARCHAR', type: ({ VARCHAR }: Library) => VARCHAR, read: String };
const integer = {
  sql: 'BIGINT',
  type: ({ BIGINT }: Library) => BIGINT,
  read: (value: string | number | bigint) => BigInt(value),
};
const boolean = {
  sql: 'BOOLEAN',
  type: ({ BOOLEAN }: Library) => BOOLEAN,
  read: (value: string | number | bigint) => Number(value) !== 0,
};
/**
 * Its text, as it came, without `\ud83d` alone: DuckDB's functions on JSON fail on it, for all rows that a query
 * reads.
 */
const json = {
  sql: 'JSON',
  type: ({ VARCHAR }: Library) => VARCHAR,
  read: (value: string | number | bigint) => {
    const text = String(value);
    return /\\u[dD][89a-fA-F]/.test(text) ? withoutHalves(text, '\\ufffd') : text;
  },
};
const instant = {
  sql: 'TIMESTAMPTZ',
  type: ({ TIMESTAMPTZ }: Library) => TIMESTAMPTZ,
  read: (value: string | number | bigint, { DuckDBTimestampTZValue }: Library) =>
    new DuckDBTimestampTZValue(BigInt(Date.parse(String(value))) * 1_000n),
};

export const fieldTypes: Readonly<Record<FieldType, Omit<Field, 'name'>>> = {
  string: text,
  integer,
  number: { sql: 'DOUBLE', type: ({ DOUBLE }) => DOUBLE, read: Number },
  boolean,
  object: json,
  array: json,
  any: json,
};

const ownFields: readonly Field[] = [
  { name: '_extra', ...json },
  { name: '_seq', ...integer },
  { name: '_changed_at', ...instant },
  { name: '_run_id', ...text },
  { name: '_deleted', ...boolean },
  { name: '_deleted_at', ...instant },
];

export const ownTypes = ownFields.map(({ name, sql }) => [name, sql] as const);

/** In the order of a `BuiltRow`, except for `_deleted_at`, which is derived from the values before it. */
export function fieldsOf({ columns }: Pick<BuiltEntity, 'columns'>): readonly Field[] {
  return [...columns.map(({ name, type }) => ({ name, ...fieldTypes[type] })), ...ownFields];
}
