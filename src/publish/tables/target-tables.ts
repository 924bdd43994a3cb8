import type { SyncError } from '../../core/errors.ts';
import type { FieldType } from '../../core/records.ts';
import { quoted } from '../../sql/quoted.ts';
import type { PublishedColumn, PublishedEntity } from '../manifest.ts';

export type EntityName = Pick<PublishedEntity, 'connector' | 'entity'>;

/** The tables of a target in one state of its database: what differs between databases. */
export interface TargetTables {
  /** Integers of rows are numbers, and names are in camel case. */
  readonly db: {
    rows<Row extends object>(sql: string, values?: Values): Promise<readonly Row[]>;
    run(sql: string, values?: Values): Promise<unknown>;
  };
  /** In front of the names of the target's own tables: their schema, with the point behind it. */
  readonly at: string;
  /** In front of the name of a value in a statement. */
  readonly valueMark: ':' | '$';
  /** The type of a column, as `typesThere` gives it. */
  readonly typeOf: (type: FieldType) => string;
  /** What a row has besides the published columns. */
  readonly ownTypes: readonly (readonly [name: string, type: string])[];
  /** What the table of an entity is called, for people, and as statements name it. */
  readonly nameOf: (entity: EntityName) => string;
  readonly sqlName: (entity: EntityName) => string;
  /** Types of the columns of a table by their names; null where there is no such table. */
  readonly typesThere: (entity: EntityName) => Promise<ReadonlyMap<string, string> | null>;
  /** Why rows cannot be found by this key in a table that has its columns; null where they can. */
  readonly keyProblem: (entity: EntityName, given: GivenShape) => Promise<string | null>;
  /** What else is missing that came with the table. */
  readonly lostWith: (known: KnownTable) => Promise<readonly string[]>;
  /** A view of that name was made for the table of another entity. */
  readonly isOwnView: (name: string) => Promise<boolean>;
  /** Its rows as `live`, deleted ones as `deleted` where the table keeps them, and `bytes`. */
  readonly countSql: (entity: EntityName) => string;
  /** Of a table with more rows, `lostTables` only finds out that it has as many. Null: counting costs nothing. */
  readonly mostCounted: number | null;
  /** The columns by which `_published_tables` is in the order of its names. */
  readonly order: string;
  /** What the settings of the target call its place. */
  readonly placeName: 'schema' | 'path';
  /** A new generation gets another table; otherwise one that fits stays, with what others have attached to it. */
  readonly isReplaced: boolean;
  readonly incompatible: (found: string, advice: string) => SyncError;
}

type Values = Readonly<Record<string, string>>;

/** What `_published_tables` has of an entity. */
export interface KnownTable extends EntityName {
  /** Names, as JSON. */
  readonly key: string;
  /** As JSON: columns with their types, or their names alone. */
  readonly columns: string;
  /** How many rows the table should have; where deletes are marked, also how many deleted ones. */
  readonly liveRows: number;
  readonly deletedRows?: number;
  readonly hasLongKeys?: boolean;
  readonly viewName?: string | null;
}

export interface TableColumn {
  readonly name: string;
  /** Null: not known. */
  readonly type: PublishedColumn['type'] | null;
}

export type GivenShape = ReturnType<typeof givenShape>;

/**
 * What a table was made with, besides the columns that all have. `hasLongKeys`: its unique index is on hashes of the
 * key's texts.
 */
export function givenShape({ key, columns, hasLongKeys = false }: KnownTable) {
  const given = JSON.parse(columns) as readonly (TableColumn | string)[];
  return {
    key: JSON.parse(key) as readonly string[],
    columns: given.map((one): TableColumn => (typeof one === 'string' ? { name: one, type: null } : one)),
    hasLongKeys,
  };
}

/** Of one entity, or of all. */
export async function knownTables(
  { db, at, order, valueMark }: TargetTables,
  entity: EntityName | null,
): Promise<readonly KnownTable[]> {
  const which =
    entity === null ? '' : `WHERE connector = ${valueMark}connector AND entity = ${valueMark}entity`;
  return await db.rows<KnownTable>(
    `SELECT * FROM ${at}_published_tables ${which} ORDER BY ${order}`,
    entity === null ? {} : { connector: entity.connector, entity: entity.entity },
  );
}

/**
 * How a table differs from the one that was made; null where rows can go into it. Columns and indexes of others do not
 * matter.
 */
export async function shapeProblem(
  { typeOf, ownTypes, keyProblem }: TargetTables,
  entity: EntityName,
  given: GivenShape,
  there: ReadonlyMap<string, string> | null,
): Promise<string | null> {
  if (there === null) return 'is gone';
  const published = given.columns.map(({ name, type }) => [name, type && typeOf(type)] as const);
  for (const [name, type] of [...published, ...ownTypes]) {
    const found = there.get(name);
    if (found === undefined) return `has lost its column ${name}`;
    if (type !== null && found !== type) return `has ${found} in column ${name}, which should be ${type}`;
  }
  return await keyProblem(entity, given);
}

/** Of the rows of two tables, `t` and `s`: the same key. */
export function sameKey(key: readonly string[]): string {
  return key.map((name) => `t.${quoted(name)} = s.${quoted(name)}`).join(' AND ');
}

/**
 * Of several rows with one key, all but the newest are deleted. Keys that differ for the sink may be equal in a
 * database: lone surrogates, and the two zeros.
 */
export async function keepNewest(
  db: TargetTables['db'],
  table: string,
  key: readonly string[],
): Promise<void> {
  const names = key.map(quoted).join(', ');
  const twice = `SELECT 1 AS one FROM ${table} GROUP BY ${names} HAVING count(*) > 1 LIMIT 1`;
  if ((await db.rows(twice)).length === 0) return;
  await db.run(
    `DELETE FROM ${table} AS t USING (SELECT ${names}, max(_seq) AS newest FROM ${table} GROUP BY ${names}) AS s
      WHERE ${sameKey(key)} AND t._seq < s.newest`,
  );
}
