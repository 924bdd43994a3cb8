import { binaryType } from '../../sinks/postgres/column-types.ts';
import { tableName } from '../../sinks/postgres/records/names.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import { quoted } from '../../sql/quoted.ts';
import type { PublishedColumn } from '../manifest.ts';
import { columnProblem, type KnownTable, type TablesReader } from '../published-tables.ts';
import { ownColumns } from './row-columns.ts';
import { publicationsOf } from './target-schema.ts';

export type TableColumn = Pick<PublishedColumn, 'name' | 'type'>;

/** What a table was made with, besides the columns that all have. */
export interface GivenShape {
  readonly columns: readonly TableColumn[];
  readonly key: readonly string[];
  readonly hasLongKeys: boolean;
}

/** The same as `_published_tables` has it. */
export interface KnownShape {
  readonly key: string;
  readonly columns: string;
  readonly hasLongKeys: boolean;
}

export function givenShape({ key, columns, hasLongKeys }: KnownShape): GivenShape {
  return {
    key: JSON.parse(key) as readonly string[],
    columns: JSON.parse(columns) as readonly TableColumn[],
    hasLongKeys,
  };
}

/** A table as it is. */
export interface TableThere {
  /** Types by name. */
  readonly columns: ReadonlyMap<string, string>;
  readonly uniqueIndexes: readonly UniqueIndex[];
}

interface UniqueIndex {
  /** Those that it is on as they are. */
  readonly columns: readonly string[];
  /** The columns and expressions that it is on, as the server writes them. */
  readonly parts: readonly string[];
}

/** Null where there is no such table or view. */
export async function tableThere(tx: Tx, table: string): Promise<TableThere | null> {
  const [columns, uniqueIndexes] = await Promise.all([
    tx.rows<{ readonly name: string | null; readonly type: string }>(
      `SELECT a.attname::text AS name,
         CASE WHEN a.attgenerated <> '' OR a.attidentity = 'a' THEN 'generated ' ELSE '' END || format_type(a.atttypid, NULL) AS type
       FROM (SELECT to_regclass(:table) AS id) AS t
       LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.id AND a.attnum > 0 AND NOT a.attisdropped
       WHERE t.id IS NOT NULL`,
      { table },
    ),
    // Others than these cannot tell where a row conflicts.
    tx.rows<UniqueIndex>(
      `SELECT array(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
           WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:(i.indnkeyatts - 1)])) AS columns,
         array(SELECT pg_get_indexdef(i.indexrelid, part, false) FROM generate_series(1, i.indnkeyatts) AS part) AS parts
       FROM pg_catalog.pg_index AS i WHERE i.indrelid = to_regclass(:table)
         AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL`,
      { table },
    ),
  ]);
  if (columns.length === 0) return null;
  const named = columns.flatMap(({ name, type }): [string, string][] =>
    name === null ? [] : [[name, type.replace('timestamp with time zone', 'timestamptz')]],
  );
  return { columns: new Map(named), uniqueIndexes };
}

/**
 * How a table differs from the one that was made; null where rows can go into it. Columns and indexes of others do not
 * matter.
 */
export function shapeProblem(given: GivenShape, there: TableThere | null): string | null {
  if (there === null) return 'is gone';
  const published = given.columns.map(({ name, type }) => [name, binaryType[type]] as const);
  const own = ownColumns.map(([name, , type]) => [name, type] as const);
  const problem = columnProblem([...published, ...own], there.columns);
  if (problem !== null) return problem;
  return there.uniqueIndexes.some((index) => isOnKey(index, given))
    ? null
    : 'has lost the unique index on its key';
}

/**
 * Of a text in a key that may be long. An upsert would not find its conflicts by another expression.
 */
const hashOfText = /^sha256\(decode\(replace\(.+, E?'\\+'::text, E?'\\+'::text\), 'escape'::text\)\)$/;

function isOnKey({ columns, parts }: UniqueIndex, { key, hasLongKeys }: GivenShape): boolean {
  if (parts.length !== key.length || !columns.every((name) => key.includes(name))) return false;
  const hashed = parts.filter((part) => hashOfText.test(part)).length;
  return hasLongKeys ? hashed > 0 && columns.length + hashed === key.length : columns.length === key.length;
}

interface ListedTable extends KnownTable, KnownShape {
  /** Null: it has none, or the one that it should have is there. */
  readonly lostView: string | null;
}

/** The tables of the schema in the state that the transaction reads. */
export function tablesReader(tx: Tx, at: string): TablesReader<ListedTable> {
  const nameOf: TablesReader<ListedTable>['nameOf'] = ({ connector, entity }) => tableName(connector, entity);
  const sqlName = (known: KnownTable): string => `${at}${quoted(nameOf(known))}`;
  return {
    nameOf,
    mostCounted: 10_000,
    publications: async (first, limit) => await publicationsOf(tx, at, first, limit),
    known: async (entity) => {
      const which = entity === null ? '' : 'WHERE connector = :connector AND entity = :entity';
      const listed = await tx.rows<Omit<ListedTable, 'rows'> & { liveRows: number; deletedRows: number }>(
        `SELECT connector, entity, key, columns, has_long_keys, live_rows, deleted_rows,
           CASE WHEN to_regclass(:at || quote_ident(view_name)) IS NULL THEN view_name END AS lost_view
         FROM ${at}_published_tables ${which} ORDER BY table_name`,
        { at, ...(entity === null ? {} : { connector: entity.connector, entity: entity.entity }) },
      );
      return listed.map((one) => ({ ...one, rows: [one.liveRows, one.deletedRows] }));
    },
    problemsOf: async (known) => {
      const there = await tableThere(tx, sqlName(known));
      return {
        ofTable: shapeProblem(givenShape(known), there),
        others: known.lostView === null ? [] : [`view ${known.lostView} is gone`],
        isCountable: there?.columns.get('_deleted') === 'boolean',
      };
    },
    count: async (known) => {
      const table = sqlName(known);
      const found = await tx.first<{ live: number; deleted: number; bytes: number }>(
        `SELECT count(*) FILTER (WHERE NOT _deleted) AS live, count(*) FILTER (WHERE _deleted) AS deleted,
           pg_total_relation_size(to_regclass(:table)) AS bytes FROM ${table}`,
        { table },
      );
      const { live = 0, deleted = 0, bytes = 0 } = found ?? {};
      return { rows: [live, deleted], bytes };
    },
    countUpTo: async (known, most) => {
      const found = await tx.first<{ readonly rows: number }>(
        `SELECT count(*) AS rows FROM (SELECT 1 FROM ${sqlName(known)} LIMIT ${most}) AS counted`,
      );
      return found?.rows ?? 0;
    },
  };
}
