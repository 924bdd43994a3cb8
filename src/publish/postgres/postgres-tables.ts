import { binaryType, sqlType } from '../../sinks/postgres/column-types.ts';
import { tableName } from '../../sinks/postgres/records/names.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';
import { encodeRows, type BinaryType, type BinaryValue } from '../../sql/postgres/encode-binary.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import { quoted } from '../../sql/quoted.ts';
import type { EntityName, GivenShape, TargetTables } from '../tables/target-tables.ts';
import type { PlannedEntity } from '../target.ts';
import { incompatible } from './target-error.ts';

type Shape = Pick<PlannedEntity, 'columns' | 'key'>;

/** What a row has besides the published columns; no published name begins with `_`. */
const ownColumns: readonly (readonly [name: string, sql: string, type: BinaryType])[] = [
  ['_extra', 'json', 'json'],
  ['_seq', 'bigint NOT NULL', 'bigint'],
  ['_changed_at', 'timestamptz NOT NULL', 'timestamptz'],
  ['_run_id', 'text COLLATE "C" NOT NULL', 'text'],
  ['_deleted', 'boolean NOT NULL', 'boolean'],
  ['_deleted_at', 'timestamptz', 'timestamptz'],
];

/** Those that a deletion changes. */
export const markColumns: readonly string[] = ownColumns
  .map(([name]) => name)
  .filter((name) => name !== '_extra');

/** Quoted, in the order of a row. */
export function namesOf({ columns }: Pick<Shape, 'columns'>): readonly string[] {
  return [...columns.map(({ name }) => quoted(name)), ...ownColumns.map(([name]) => name)];
}

/** As `CREATE TABLE` has them. */
export function columnsSql({ columns, key }: Shape): string {
  const published = columns.map(
    ({ name, type }) => `${quoted(name)} ${sqlType[type]}${key.includes(name) ? ' NOT NULL' : ''}`,
  );
  return [...published, ...ownColumns.map(([name, sql]) => `${name} ${sql}`)].join(', ');
}

/** Puts records into a table of these columns. Of a deleted one the key alone: nothing else is sure to be there. */
export function copyInto(table: string, shape: Shape): (tx: Tx, records: readonly StoredRecord[]) => void {
  const { columns, key } = shape;
  const types = [...columns.map(({ type }) => binaryType[type]), ...ownColumns.map(([, , type]) => type)];
  const isKey = columns.map(({ name }) => key.includes(name));
  const sql = `COPY ${table} (${namesOf(shape).join(', ')}) FROM STDIN (FORMAT binary)`;
  const cells = ({ values, extra, seq, changedAt, run, isDeleted }: StoredRecord): readonly BinaryValue[] => {
    if (!isDeleted) return [...values, extra, seq, changedAt, run, 0, null];
    const keyAlone = values.map((value, index) => (isKey[index] === true ? value : null));
    return [...keyAlone, null, seq, changedAt, run, 1, changedAt];
  };
  return (tx, records) => {
    if (records.length > 0) tx.put(sql, {}, encodeRows(types, records.map(cells)));
  };
}

export interface PostgresTables extends TargetTables {
  readonly db: Tx;
}

/** The tables of the schema in the state that the transaction reads. */
export function postgresTables(db: Tx, at: string, place: string): PostgresTables {
  const nameOf = ({ connector, entity }: EntityName): string => tableName(connector, entity);
  const sqlName = (entity: EntityName): string => `${at}${quoted(nameOf(entity))}`;
  return {
    db,
    at,
    valueMark: ':',
    typeOf: (type) => binaryType[type],
    ownTypes: ownColumns.map(([name, , type]) => [name, type]),
    nameOf,
    sqlName,
    typesThere: async (entity) => await typesThere(db, sqlName(entity)),
    keyProblem: async (entity, given) =>
      (await uniqueIndexes(db, sqlName(entity))).some((index) => isOnKey(index, given))
        ? null
        : 'has lost the unique index on its key',
    lostWith: async ({ viewName = null }) => {
      if (viewName === null) return [];
      const view = `${at}${quoted(viewName)}`;
      const isThere = await db.rows('SELECT 1 WHERE to_regclass(:view) IS NOT NULL', { view });
      return isThere.length > 0 ? [] : [`view ${viewName} is gone`];
    },
    // An entity `a` has a view of the name that the table of an entity `a_current` has.
    isOwnView: async (name) =>
      (await db.rows(`SELECT 1 FROM ${at}_published_tables WHERE view_name = :name`, { name })).length > 0,
    countSql: (entity) =>
      `SELECT count(*) FILTER (WHERE NOT _deleted) AS live, count(*) FILTER (WHERE _deleted) AS deleted,
         pg_total_relation_size('${sqlName(entity).replaceAll("'", "''")}'::regclass) AS bytes FROM ${sqlName(entity)}`,
    mostCounted: 10_000,
    order: 'table_name',
    placeName: 'schema',
    isReplaced: false,
    incompatible: (found, advice) => incompatible(place, found, advice),
  };
}

/** Null where there is no such table or view. */
async function typesThere(tx: Tx, table: string): Promise<ReadonlyMap<string, string> | null> {
  const columns = await tx.rows<{ readonly name: string | null; readonly type: string }>(
    `SELECT a.attname::text AS name,
       CASE WHEN a.attgenerated <> '' OR a.attidentity = 'a' THEN 'generated ' ELSE '' END || format_type(a.atttypid, NULL) AS type
     FROM (SELECT to_regclass(:table) AS id) AS t
     LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.id AND a.attnum > 0 AND NOT a.attisdropped
     WHERE t.id IS NOT NULL`,
    { table },
  );
  if (columns.length === 0) return null;
  return new Map(
    columns.flatMap(({ name, type }): [string, string][] =>
      name === null ? [] : [[name, type.replace('timestamp with time zone', 'timestamptz')]],
    ),
  );
}

interface UniqueIndex {
  /** Those that it is on as they are. */
  readonly columns: readonly string[];
  /** The columns and expressions that it is on, as the server writes them. */
  readonly parts: readonly string[];
}

/** Others than these cannot tell where a row conflicts. */
async function uniqueIndexes(tx: Tx, table: string): Promise<readonly UniqueIndex[]> {
  return await tx.rows<UniqueIndex>(
    `SELECT array(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
         WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:(i.indnkeyatts - 1)])) AS columns,
       array(SELECT pg_get_indexdef(i.indexrelid, part, false) FROM generate_series(1, i.indnkeyatts) AS part) AS parts
     FROM pg_catalog.pg_index AS i WHERE i.indrelid = to_regclass(:table)
       AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL`,
    { table },
  );
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
