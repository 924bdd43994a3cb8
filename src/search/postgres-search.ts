import { usage } from '../core/errors.ts';
import { openToRead, type PostgresPlace } from '../sinks/postgres/postgres-schema.ts';
import { tableName } from '../sinks/postgres/column-types.ts';
import { type Tx, quoted } from '../sql/database.ts';
import { hasEscape } from '../sql/postgres/encode-binary.ts';
import { sourceSql } from './field-value.ts';
import { hasTexts, inRange, oneOf, type Piece, piece, type SearchSql } from './narrowing.ts';
import { searchOf, type SearchOptions } from './open-search.ts';
import {
  readTarget,
  type FieldSource,
  type Searched,
  type SearchField,
  type SearchTarget,
  type StatedAnswer,
} from './search-target.ts';

/**
 * Searches of a sink in a schema of PostgreSQL, which write nothing. Throws `NoSinkYetError` where there is none, and
 * the errors of opening a sink.
 */
export async function openPostgresSearch(place: PostgresPlace) {
  const { db, records } = await openToRead(place);
  return {
    /** Searches as `searchOf` does. Where it rejects, the server has ended the search too. */
    search: async (searched: Searched, params: unknown, options: SearchOptions): Promise<StatedAnswer> => {
      const sqlFor = async (tx: Tx): Promise<SearchSql> => {
        await tx.run(settings, { deadline: String(options.deadlineMs) });
        return postgresSql;
      };
      return await searchOf({ db, records, tableName, sqlFor })(searched, params, options);
    },
    /**
     * Statements that make indexes for `keyword` and `fuzzy`, for a person to run. Throws USAGE where the server has
     * no `pg_trgm`.
     */
    indexSql: async (searched: Searched, signal: AbortSignal): Promise<readonly string[]> => {
      await using snapshot = await db.openSnapshot(signal);
      return await snapshot.read(async (tx) => {
        const found = await tx.first<{ readonly schema: string | null }>(extensionSql);
        if (found === undefined) {
          throw usage(
            `${db.place} has no pg_trgm: install the server's package of additional modules (postgresql-contrib), then print the SQL again.`,
          );
        }
        const { target } = await readTarget(tx, searched, tableName);
        return wordIndexSql(target, place.schema, found.schema);
      });
    },
    [Symbol.asyncDispose]: async (): Promise<void> => await db[Symbol.asyncDispose](),
  };
}

/**
 * Settings of the transaction: the planner must not favour the first rows, because every row of a stretch is read. The
 * server ends a statement at the deadline by itself where this process was killed.
 */
const settings = `SELECT set_config('cursor_tuple_fraction', '1', true), set_config('statement_timeout', :deadline, true)`;

const extensionSql = `SELECT (SELECT n.nspname::text FROM pg_catalog.pg_extension AS e
    JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'pg_trgm') AS schema
  FROM pg_catalog.pg_available_extensions WHERE name = 'pg_trgm'`;

const postgresSql: SearchSql = {
  position: 'strpos',
  isRespelled: (text) => piece(hasEscape(text)),
  isInRange: (rows) => inRange('r._row', rows),
  hasPart,
};

/** Mark for texts beyond ASCII, which only this program folds as it compares: a search finds all of them by it. */
const mark = 'zqxj';

/** Lower case of texts in ASCII; the mark for others. */
function folded(text: string): string {
  return `CASE WHEN octet_length(${text}) <> length(${text}) THEN '${mark}' ELSE lower(${text} COLLATE "C") END`;
}

/** One pattern: the text is folded once, and a trigram index on `folded` is asked once. */
function hasPart({ sources }: SearchField, parts: readonly string[]): Piece {
  // Letters and digits only: nothing in a part is a sign of patterns.
  const pattern = [...parts, mark].join('|');
  return oneOf(
    sources
      .filter(hasTexts)
      .map((source) => piece(`(${folded(textOf(source, sourceSql(source)))}) ~ CAST(? AS text)`, pattern)),
  );
}

function textOf(source: FieldSource, sql: string): string {
  return source.kind === 'extra' || source.type !== 'string' ? `CAST(${sql} AS text)` : sql;
}

/**
 * The statements that make trigram indexes for the texts of a table, one for each column. `extension`: the schema that
 * `pg_trgm` is in; null where it is still to be created.
 */
function wordIndexSql(target: SearchTarget, schema: string, extension: string | null): readonly string[] {
  const table = `${quoted(schema)}.${quoted(target.table)}`;
  const operators = `${quoted(extension ?? 'public')}.gin_trgm_ops`;
  const sources = [...target.fields.values()].flatMap((field) => field.sources);
  const texts = sources.flatMap((source) => {
    if (source.kind === 'parent' || !hasTexts(source)) return [];
    return [textOf(source, quoted(source.kind === 'extra' ? '_extra' : source.column))];
  });
  return [
    ...(extension === null ? ['CREATE EXTENSION pg_trgm SCHEMA public;'] : []),
    ...[...new Set(texts)].map(
      (text) =>
        `CREATE INDEX CONCURRENTLY ON ${table} USING gin ((${folded(text)}) ${operators}) WHERE _deleted_at IS NULL;`,
    ),
    `ANALYZE ${table};`,
  ];
}
