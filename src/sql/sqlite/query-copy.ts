import { rmSync } from 'node:fs';
import { quoted } from '../quoted.ts';
import { openSqlite, type Connection } from './open-sqlite.ts';

/** A view, or what else a name stands for in a file, and those of its columns that are copied. */
export interface CopiedView {
  readonly name: string;
  readonly columns: readonly string[];
}

/** What a query gave, from its row `offset` on. */
export interface QueryRows {
  readonly columns: readonly string[];
  /** Integers are `bigint`. */
  readonly rows: Iterable<readonly unknown[]>;
}

/** Names and types of the views, without rows: what a query can be prepared against before anything is copied. */
export function openEmptyCopy(source: Connection, views: readonly CopiedView[]): Connection {
  const empty = openSqlite(':memory:');
  try {
    for (const { name, columns } of views) {
      const list = columns.map(quoted).join(', ');
      const typed = source.prepare(`SELECT ${list} FROM main.${quoted(name)}`).columns();
      const written = typed.map(({ type }, index) => `${quoted(columns[index] ?? '')} ${type ?? ''}`);
      empty.exec(`CREATE TABLE ${quoted(name)} (${written.join(', ')})`);
    }
    return empty;
  } catch (error) {
    empty.close();
    throw error;
  }
}

/**
 * The tables that a query reads, as SQLite has compiled it: those whose pages its program opens. `copy` has no indexes,
 * so that there is no other way to a row.
 */
export function tablesRead(copy: Connection, sql: string): readonly string[] {
  const program = copy.prepare<[], Operation>(`EXPLAIN ${selectOf(sql)}`).all();
  const pages = new Set(
    program
      .filter(({ opcode, p3 }) => opcode.startsWith('Open') && p3 === 0)
      .flatMap(({ opcode, p2 }) => (opcode === 'OpenRead' ? [p2] : [])),
  );
  const tables = copy.prepare<[], { name: string; rootpage: number }>(
    "SELECT name, rootpage FROM sqlite_schema WHERE type = 'table'",
  );
  return tables.all().flatMap(({ name, rootpage }) => (pages.has(rootpage) ? [name] : []));
}

interface Operation {
  readonly opcode: string;
  readonly p2: number;
  readonly p3: number;
}

/**
 * A database of rows of `views` alone, opened to be read; the other ones have no rows. In the state that `source`
 * reads, a connection that reads inside a transaction, which is over then. `file`: where it is put for the moment.
 */
export async function copyViews(
  source: Connection,
  { views, filled, file }: { views: readonly CopiedView[]; filled: ReadonlySet<string>; file: string },
): Promise<Connection> {
  for (const { name, columns } of views) {
    const list = columns.map(quoted).join(', ');
    const rows = filled.has(name) ? '' : ' LIMIT 0';
    source.exec(`CREATE TEMP TABLE ${quoted(name)} AS SELECT ${list} FROM main.${quoted(name)}${rows}`);
  }
  source.exec('COMMIT');
  // `attached` is not in the types.
  const how = { attached: 'temp', progress: () => allPages };
  await source.backup(file, how);
  const copy = openSqlite(file, { readonly: true, fileMustExist: true });
  try {
    // Where the system allows it, nothing is left of it once this process has ended, however it does.
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
 * Prepares a query that a stranger has written. As an operand of a SELECT the grammar of SQLite takes a query, and
 * nothing else: no statement that writes or attaches a file, no PRAGMA, some of which act when they are prepared.
 * Throws what SQLite says of a text that is none, and of a second statement.
 */
export function queryRows(copy: Connection, sql: string, offset: number): QueryRows {
  const statement = copy.prepare<[], unknown[]>(`${selectOf(sql)} LIMIT -1 OFFSET ${offset}`);
  if (!statement.reader || !statement.readonly) throw new TypeError('a query that reads was expected');
  const rows = statement.raw().safeIntegers();
  return { columns: statement.columns().map(({ name }) => name), rows: rows.iterate() };
}

/** A comment at the end of the text ends with its line. */
function selectOf(sql: string): string {
  return `SELECT * FROM (\n${sql.replace(/[;\s]+$/, '')}\n)`;
}
