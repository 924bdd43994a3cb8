import type Database from 'better-sqlite3';
import { quoted } from '../../sinks/sqlite/quoted.ts';
import type { SearchTarget } from '../search-target.ts';
import { columnIndexName, columnIndexPrefix } from './index-names.ts';

/** A statement that makes or drops one index; one transaction each, so that a writer of the sink waits for one alone. */
export type IndexStatement = string;

/**
 * What it takes until each column that is searched by its value has an index: texts and numbers. SQLite ends every index with the
 * row number, which is how equal values are sorted. Indexes of columns that are not searched any more are dropped.
 */
export function columnIndexStatements(
  db: Database.Database,
  target: SearchTarget,
): readonly IndexStatement[] {
  const wanted = new Map(
    indexedColumns(target).map((column) => [columnIndexName(target.table, column), column]),
  );
  const prefix = columnIndexPrefix(target.table);
  const there = db
    .prepare<[string], string>("SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?")
    .pluck()
    .all(target.table)
    .filter((name) => name.startsWith(prefix));
  return [
    ...there.filter((name) => !wanted.has(name)).map((name) => `DROP INDEX IF EXISTS ${quoted(name)}`),
    ...[...wanted]
      .filter(([name]) => !there.includes(name))
      .map(
        ([name, column]) =>
          `CREATE INDEX IF NOT EXISTS ${quoted(name)} ON ${quoted(target.table)} (${quoted(column)})`,
      ),
  ];
}

function indexedColumns({ fields }: SearchTarget): readonly string[] {
  const columns = [...fields.values()].flatMap(({ sources }) =>
    sources.flatMap((source) =>
      source.kind === 'column' && ordered.has(source.type) ? [source.column] : [],
    ),
  );
  return [...new Set(columns)];
}

const ordered: ReadonlySet<string> = new Set(['string', 'integer', 'number']);
