import type { ConnectorName, EntityName } from '../core/names.ts';
import type { Column, EntityTable, FieldType } from '../core/records.ts';
import type { Entity, SearchableField } from '../definitions/definition.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import { unfinishedCopyError } from '../sinks/sink-errors.ts';
import { tableName as fileTableName } from '../sinks/decisions/stored-table.ts';
import type { ConnectorStatus } from '../sinks/ledger-reader.ts';
import { knownTables } from '../sinks/ledger/tables.ts';
import type { ConnectorOverview, LedgerReader } from '../sinks/sink-access.ts';
import type { Tx } from '../sql/database.ts';
import {
  searchLimits,
  searchProblem,
  shownName,
  type FieldPath,
  type SearchAnswer,
} from './search-request.ts';
import { missingRowsSql } from '../sinks/ledger/deletes/noted-rows.ts';

/** Naming of a sink's tables of records. */
export type TableName = (connector: ConnectorName, entity: EntityName) => string;

interface TargetHow {
  /** The columns that the search may read; left out: all. */
  readonly only?: ReadonlySet<string> | undefined;
  readonly tableName?: TableName;
  readonly rows?: ShownRows | undefined;
}

/** Rows for a person who looks at a table as it is stored. */
export interface ShownRows {
  /** The table of an entity, or of the elements of its records. */
  readonly of: EntityName;
  readonly which: 'stored' | 'changed' | 'missing' | 'deleted' | 'all';
  /** The day from which rows are `changed`, such as 2026-11-30. */
  readonly since: string;
  /** Characters of a value; a longer one is cut. */
  readonly mostChars: number;
}

/** Table that a search reads: its rows, seen as records of searchable fields. */
export interface SearchTarget {
  /** Name of the SQL table. */
  readonly table: string;
  /** SQL of the rows that are there for a search. */
  readonly chosen: { readonly sql: string; readonly values: readonly string[] };
  /**
   * Where the rows are exploded elements: the table of the records they came from, joined by columns that both have.
   */
  readonly parent: { readonly table: string; readonly on: readonly string[] } | null;
  /** Fields by name, in the order in which results show them. */
  readonly fields: ReadonlyMap<string, SearchField>;
}

export interface SearchField {
  readonly name: string;
  /** A field of type string, integer, number or boolean has values of that type alone; the others may have any. */
  readonly type: FieldType;
  /** The first of these that has a value. Empty: nothing stored makes it, it is null. */
  readonly sources: readonly FieldSource[];
  /** `pairs`: an object by name is shown, filtered and sorted as an array of `{name, value}`. */
  readonly shape: 'asIs' | 'pairs';
}

/**
 * `extra`: a member of the row's `_extra`. `type` is the column's, which says how the value is stored.
 * `isAbsentWhenEmpty`: the column belongs to the key of exploded elements, where an empty text stands for an absent
 * part.
 */
export type FieldSource =
  | {
      readonly kind: 'column';
      readonly column: string;
      readonly type: FieldType;
      readonly isAbsentWhenEmpty?: true;
    }
  | { readonly kind: 'extra'; readonly name: string }
  | { readonly kind: 'parent'; readonly column: string; readonly type: FieldType };

/** Values of these types are stored as JSON text; a column holds those of the others as they are. */
export function isJsonType(type: FieldType): type is Extract<FieldType, 'object' | 'array' | 'any'> {
  return type === 'object' || type === 'array' || type === 'any';
}

/**
 * How an entity is searched. One that explodes is searched by element, and what the element lacks comes from the record
 * it came from. One without searchable fields is searched by all columns that it has. `stored` gives a table as the
 * file has it, null where it has none yet; names of columns are declared ones, or were accepted as such when they were
 * added. `only`: fields that are made of other columns are not there for the search.
 */
export function searchTarget(
  entity: Entity,
  connector: ConnectorName,
  stored: (entity: EntityName) => EntityTable | null,
  { only, tableName = fileTableName, rows }: TargetHow = {},
): SearchTarget {
  const { explode } = entity;
  const declared = searchedTable(entity, rows);
  const table = stored(declared.entity) ?? declared;
  const parent =
    explode === null || rows !== undefined ? null : parentOf(entity, table, stored(entity.table.entity));
  const columns = new Map(table.columns.map((column) => [column.name, column]));
  const parentColumns = new Map((parent?.columns ?? []).map((column) => [column.name, column]));
  const absentWhenEmpty = new Set(table.key.filter((name) => explode?.carry.includes(name) === false));
  const sourceOf = (name: string): FieldSource => {
    const column = columns.get(name);
    if (column !== undefined) {
      const { type } = column;
      const isMarked = type === 'string' && absentWhenEmpty.has(name);
      return { kind: 'column', column: name, type, ...(isMarked && { isAbsentWhenEmpty: true }) };
    }
    const above = parentColumns.get(name);
    return above === undefined
      ? { kind: 'extra', name }
      : { kind: 'parent', column: above.name, type: above.type };
  };
  const searchable: Iterable<readonly [string, SearchableField]> =
    entity.searchable.size > 0 && rows === undefined
      ? entity.searchable
      : everyColumn([...parentColumns.values(), ...table.columns]);
  const fields = [...searchable]
    .map(([name, { type, from, shape }]): SearchField => ({ name, type, sources: from.map(sourceOf), shape }))
    .filter(
      ({ sources }) =>
        only === undefined || sources.every((source) => source.kind !== 'extra' && only.has(source.column)),
    );
  return {
    table: tableName(connector, table.entity),
    chosen: chosenRows(connector, table.entity, rows),
    parent: parent === null ? null : { table: tableName(connector, entity.name), on: entity.key },
    fields: new Map(
      [...fields, ...(rows === undefined ? [] : [changeNumber])].map((field) => [field.name, field]),
    ),
  };
}

/** A person sorts rows by their newest change with it. */
export const changeNumber: SearchField = {
  name: '_seq',
  type: 'integer',
  sources: [{ kind: 'column', column: '_seq', type: 'integer' }],
  shape: 'asIs',
};

function searchedTable({ table, explodedTable }: Entity, rows: ShownRows | undefined): EntityTable {
  return explodedTable !== null && rows?.of !== table.entity ? explodedTable : table;
}

function chosenRows(
  connector: ConnectorName,
  entity: EntityName,
  { which, since }: Pick<ShownRows, 'which' | 'since'> = { which: 'stored', since: '' },
): SearchTarget['chosen'] {
  const live = 'r._deleted_at IS NULL';
  const choices = {
    stored: { sql: live, values: [] },
    // Both databases begin the text of a time with its day.
    changed: { sql: `(${live} AND CAST(r._changed_at AS text) >= CAST(? AS text))`, values: [since] },
    deleted: { sql: 'r._deleted_at IS NOT NULL', values: [] },
    missing: { sql: `(${live} AND r._row IN (${missingRowsSql}))`, values: [connector, entity] },
    all: { sql: 'TRUE', values: [] },
  };
  return choices[which];
}

/** The parent's table, if its rows can be identified from what the elements carry. */
function parentOf(entity: Entity, elements: EntityTable, parent: EntityTable | null): EntityTable | null {
  const has = (table: EntityTable, name: string): boolean =>
    table.columns.some((column) => column.name === name);
  const isJoined =
    parent !== null &&
    entity.key.every(
      (name) => entity.explode?.carry.includes(name) === true && has(elements, name) && has(parent, name),
    );
  return isJoined ? parent : null;
}

/** Fields that serve a search of an entity without searchable fields. */
export function everyColumn(columns: readonly Column[]): readonly (readonly [string, SearchableField])[] {
  return columns.map(({ name, type }) => [name, { type, from: [name], shape: 'asIs' }]);
}

/** Where a condition, a sort or a result looks. `type` is null where only the record knows: inside of values. */
export interface FoundField {
  readonly path: FieldPath;
  readonly type: ScalarType | null;
}

export type ScalarType = Extract<FieldType, 'string' | 'integer' | 'number' | 'boolean'>;

/**
 * Reads a name as people write it: the whole name is tried first, then dots lead into the value. `tags[]` is the array
 * `tags`. Throws SEARCH_INVALID.
 */
export function findField(target: SearchTarget, name: string, at: string): FoundField {
  return target.fields.has(name) ? fieldAt(target, [name], at) : fieldAt(target, namesIn(name, at), at);
}

function namesIn(name: string, at: string): FieldPath {
  const [array, ...inside] = name.split('[].');
  if (inside.length > 0) {
    throw searchProblem(
      at,
      `expected a path that ends at the array; of its elements ask {"any": {${JSON.stringify(array)}: condition}}`,
    );
  }
  return name.replace(/\[\]$/, '').split('.');
}

/**
 * The same for a path whose names are taken apart already. A field that is made from others can be asked for by their
 * names too.
 */
export function fieldAt(target: SearchTarget, path: FieldPath, at: string): FoundField {
  checkLength(path, at);
  const [asked = '', ...inside] = path;
  const name = target.fields.has(asked) ? asked : (madeFrom(target, asked) ?? asked);
  const field = target.fields.get(name);
  if (field === undefined) {
    const suggestion = suggestName(name.slice(0, 64), target.fields.keys());
    throw searchProblem(at, `expected a searchable field, got ${shownName(name)}${suggestion}`);
  }
  const type = isJsonType(field.type) ? null : field.type;
  if (type !== null && inside.length > 0) {
    throw searchProblem(at, `expected ${name} without anything behind it: it is of type ${type}`);
  }
  return { path: [name, ...inside], type };
}

function madeFrom({ fields }: SearchTarget, asked: string): string | undefined {
  const isAsked = (source: FieldSource): boolean =>
    (source.kind === 'extra' ? source.name : source.column) === asked;
  return [...fields.values()].find(({ sources }) => sources.some(isAsked))?.name;
}

/** Inside an array's element nothing is declared. */
export function elementField(name: string, at: string): FoundField {
  const path = namesIn(name, at);
  checkLength(path, at);
  return { path, type: null };
}

function checkLength(path: FieldPath, at: string): void {
  if (path.length > searchLimits.pathParts) {
    throw searchProblem(at, `expected a path of at most ${searchLimits.pathParts} names, got ${path.length}`);
  }
}

/** An entity of a connector that is searched. */
export interface Searched {
  readonly connector: ConnectorName;
  readonly entity: Entity;
  /** The columns that the search may read; left out: all. */
  readonly only?: readonly string[] | undefined;
  /** Whether the answer has how the connector stands. */
  readonly withState?: boolean | undefined;
  /** Present: a person sees these, with all columns and values as `ShownValue`. */
  readonly rows?: ShownRows | undefined;
}

/** State of a connector at the time of the search. */
export interface SearchedState {
  readonly status: ConnectorStatus | null;
  readonly freshness: ConnectorOverview['freshness'];
}

/** `state`, `table`: where they were asked for. */
export interface StatedAnswer extends SearchAnswer {
  readonly state?: SearchedState;
  /** The SQL table of `rows`, and its columns. */
  readonly table?: { readonly name: string; readonly columns: readonly Pick<Column, 'name' | 'type'>[] };
}

/** State for the answer; `history` is of the state that is searched. Throws COPY_UNFINISHED. */
export async function searchedState(
  history: Pick<LedgerReader, 'connectors' | 'freshness' | 'unfinishedCopy'>,
  { connector, withState = false }: Searched,
): Promise<Pick<StatedAnswer, 'state'>> {
  if (!withState) return {};
  const unfinished = await history.unfinishedCopy(connector);
  if (unfinished !== null) throw unfinishedCopyError(unfinished);
  const [status = null] = await history.connectors([connector]);
  return { state: { status, freshness: await history.freshness(connector) } };
}

/** Search target for the entity's present tables. `isThere`: its rows have a table. */
export async function readTarget(tx: Tx, { connector, entity, only, rows }: Searched, tableName: TableName) {
  const { table, explodedTable } = entity;
  const entities = [table, ...(explodedTable === null ? [] : [explodedTable])].map((one) => one.entity);
  const known = await knownTables(tx, { connector, entities });
  const stored = (name: EntityName): EntityTable | null => {
    const found = known.get(name);
    return found === undefined ? null : { entity: name, columns: found.stored, key: found.key };
  };
  const target = searchTarget(entity, connector, stored, { only: only && new Set(only), tableName, rows });
  return { target, isThere: known.has(searchedTable(entity, rows).entity) };
}
