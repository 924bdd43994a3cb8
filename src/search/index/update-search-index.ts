import { setImmediate } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import { instant, systemClock } from '../../core/clock.ts';
import { isSinkThere, openDatabase, openReadonlyDatabase } from '../../sinks/ledger/open-database.ts';
import { toSinkError } from '../../sinks/ledger/sink-error.ts';
import { quoted } from '../../sinks/sqlite/quoted.ts';
import type { SearchTarget } from '../search-target.ts';
import { indexBatch } from './index-batch.ts';
import { columnIndexName, columnIndexPrefix } from './index-names.ts';
import { isTableThere } from './index-state.ts';
import { indexedFields } from './indexed-fields.ts';

interface UpdateOptions {
  /** Ends the update after the transaction that it is in. */
  readonly signal: AbortSignal;
  /** Rows so far, after each transaction. */
  readonly onProgress?: (rows: number) => void;
}

/**
 * Brings the search index of one table of a SQLite sink up to its newest change; the first time it makes it. In transactions of some
 * thousand rows: a kill at any point leaves an index that says how far it has come, and the next update resumes from there.
 * Any number may run at once, beside searches and a sync; each takes what is next. Gives how many rows it took, 0 too where there is no such table yet.
 * Rejects with the signal's reason, and with `SyncError` SINK_FAILED, SINK_FULL or SINK_INCOMPATIBLE.
 */
export async function updateSearchIndex(
  file: string,
  target: SearchTarget,
  { signal, onProgress }: UpdateOptions,
): Promise<{ readonly rows: number }> {
  signal.throwIfAborted();
  // Says what is missing; opening to write would make an empty sink.
  if (!isSinkThere(file)) openReadonlyDatabase({ file, kind: 'sqlite' }).close();
  const now = instant(systemClock.now());
  // Nothing is lost by a power loss that the next update would not find again.
  const db = openDatabase({ file, kind: 'sqlite', durability: 'normal', now });
  try {
    if (!isTableThere(db, target.table)) return { rows: 0 };
    const fields = indexedFields(target);
    const nextBatch = db.transaction((mayBegin: boolean) => indexBatch(db, target.table, fields, mayBegin));
    let rows = 0;
    // Two updates for different fields would restart each other for ever: only the last one started continues.
    for (let batch = nextBatch.immediate(true); batch > 0; batch = nextBatch.immediate(false)) {
      rows += batch;
      onProgress?.(rows);
      await setImmediate();
      signal.throwIfAborted();
    }
    const statements = columnIndexStatements(db, target);
    for (const statement of statements) {
      db.transaction(() => db.exec(statement)).immediate();
      await setImmediate();
      signal.throwIfAborted();
    }
    if (statements.length > 0 || rows >= manyRows) {
      db.pragma('analysis_limit = 1000');
      db.exec(`ANALYZE ${quoted(target.table)}`);
    }
    return { rows };
  } catch (error) {
    throw toSinkError(error, file);
  } finally {
    db.close();
  }
}

/** So many changes may have altered which of two indexes leads to fewer rows; a sample of each is looked at again. */
const manyRows = 1_000;

/** A statement that makes or drops one index; one transaction each, so that a writer of the sink waits for one alone. */
type IndexStatement = string;

/**
 * What it takes until each column that is searched by its value has an index: texts and numbers. SQLite ends every index with the
 * row number, which is how equal values are sorted. Indexes of columns that are not searched any more are dropped.
 */
function columnIndexStatements(db: Database.Database, target: SearchTarget): readonly IndexStatement[] {
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
