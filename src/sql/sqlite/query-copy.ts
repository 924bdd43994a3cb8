import { rmSync } from 'node:fs';
import { quoted } from '../database.ts';
import { openSqlite, type Connection } from './open-sqlite.ts';

/** A view or other relation of a file, and the columns to copy from it. */
export interface CopiedView {
  readonly name: string;
  readonly columns: readonly string[];
}

/** Result of a query, from its row `offset` on. Integers are `bigint`. */
export type QueryRows = Readonly<ReturnType<typeof queryRows>>;

/** Names and types of the views, without rows: a query is prepared against them before anything is copied. */
export function openEmptyCopy(source: Connection, views: readonly CopiedView[]): Connection {
  const empty = openSqlite(':memory:');
  try {
    for (const view of views) empty.exec(`CREATE TABLE ${tableOf(source, view)}`);
    return empty;
  } catch (error) {
    empty.close();
    throw error;
  }
}

function tableOf(source: Connection, { name, columns }: CopiedView): string {
  const typed = source.prepare(`SELECT ${listed(columns)} FROM main.${quoted(name)}`).columns();
  const written = typed.map(({ type }, index) => `${quoted(columns[index] ?? '')} ${type ?? ''}`);
  return `${quoted(name)} (${written.join(', ')})`;
}

function listed(columns: readonly string[]): string {
  return columns.map(quoted).join(', ');
}

/**
 * Columns that a query reads, from the program that SQLite compiled: the tables whose pages it opens, and the columns
 * that it takes of their rows. `copy` has no indexes, so there is no other way to a row.
 */
export function columnsRead(copy: Connection, sql: string): ReadonlyMap<string, ReadonlySet<string>> {
  const program = copy.prepare<[], Operation>(`EXPLAIN ${selectOf(sql, 0)}`).all();
  const tables = copy.prepare<[], { name: string; rootpage: number; columns: string }>(
    `SELECT name, rootpage, (SELECT json_group_array(name) FROM pragma_table_info(t.name)) AS columns
     FROM sqlite_schema AS t WHERE type = 'table'`,
  );
  const read = new Map<string, ReadonlySet<string>>();
  for (const { name, rootpage, columns } of tables.all()) {
    const cursors = program.filter(
      ({ opcode, p2, p3 }) => opcode === 'OpenRead' && p2 === rootpage && p3 === 0,
    );
    if (cursors.length === 0) continue;
    const taken = program.filter(
      ({ opcode, p1 }) => opcode === 'Column' && cursors.some((cursor) => cursor.p1 === p1),
    );
    // `as`: made above.
    const names = JSON.parse(columns) as readonly string[];
    read.set(name, new Set(taken.flatMap(({ p2 }) => names[p2] ?? [])));
  }
  return read;
}

interface Operation {
  readonly opcode: string;
  readonly p1: number;
  readonly p2: number;
  readonly p3: number;
}

interface CopyOptions {
  readonly views: readonly CopiedView[];
  /** Columns to copy, by view; other columns are NULL, and other views have no rows. */
  readonly read: ReadonlyMap<string, ReadonlySet<string>>;
  /** Temporary path of the copy. */
  readonly file: string;
  readonly mostBytes: number;
}

/**
 * A database of rows of `views` alone, opened to be read. In the state that `source` reads, a connection that reads
 * inside a transaction, which is over then. Throws SQLITE_FULL above `mostBytes`.
 */
export async function copyViews(source: Connection, { views, read, file, mostBytes }: CopyOptions) {
  for (const view of views) source.exec(`CREATE TEMP TABLE ${tableOf(source, view)}`);
  const pageBytes = Number(source.pragma('temp.page_size', { simple: true }));
  source.pragma(`temp.max_page_count = ${Math.ceil(mostBytes / pageBytes)}`);
  for (const { name, columns } of views) {
    const taken = read.get(name);
    if (taken === undefined) continue;
    const copied = columns.filter((column) => taken.has(column));
    // A query that takes no column counts the rows.
    const [into, from] = copied.length > 0 ? [copied, listed(copied)] : [columns.slice(0, 1), 'NULL'];
    source.exec(
      `INSERT INTO temp.${quoted(name)} (${listed(into)}) SELECT ${from} FROM main.${quoted(name)}`,
    );
  }
  source.exec('COMMIT');
  // `attached` is not in the types.
  const how = { attached: 'temp', progress: () => allPages };
  await source.backup(file, how);
  const copy = openSqlite(file, { readonly: true, fileMustExist: true });
  try {
    // Where the system allows it, the copy is gone once this process has ended, however it ends.
    rmSync(file, { force: true });
  } catch {
    // Windows removes no open file: the caller does, later.
  }
  for (const pragma of ['query_only = ON', 'trusted_schema = OFF', 'temp_store = MEMORY', 'mmap_size = 0']) {
    copy.pragma(pragma);
  }
  return copy;
}

const allPages = 2 ** 31 - 1;

/**
 * Prepares an untrusted query. As an operand of a SELECT, the grammar of SQLite accepts a query and nothing else: no
 * statement that writes or attaches a file, no PRAGMA (some PRAGMAs take effect when they are prepared). Throws
 * SQLite's error for a text that is no query, and for a second statement.
 */
export function queryRows(copy: Connection, sql: string, offset: number) {
  const statement = copy.prepare<[], unknown[]>(selectOf(sql, offset));
  if (!statement.reader || !statement.readonly) throw new TypeError('a query that reads was expected');
  const rows = statement.raw().safeIntegers();
  return { columns: statement.columns().map(({ name }) => name), rows: rows.iterate() };
}

/** A comment at the end of the text ends with its line. */
function selectOf(sql: string, offset: number): string {
  return `SELECT * FROM (\n${sql.replace(/[;\s]+$/, '')}\n) LIMIT -1 OFFSET ${offset}`;
}
