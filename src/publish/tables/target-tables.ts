import { createHash } from 'node:crypto';
import type { SyncError } from '../../core/errors.ts';
import type { FieldType } from '../../core/records.ts';
import {
  entityName,
  missingPublications,
  otherVersionAdvice,
  readManifest,
  type PublishedColumn,
  type PublishedEntity,
  type StoredManifest,
} from '../manifest.ts';
import type { EntityRows, PlannedEntity, Target, TargetCheck, WrittenEntity } from '../target.ts';
import type { StoredRecord } from '../../sinks/readings.ts';
import { quoted } from '../../sql/database.ts';

export type EntityName = Pick<PublishedEntity, 'connector' | 'entity'>;

/** The tables of a target in one state of its database, with the differences between databases. */
export interface TargetTables {
  /** Integers of rows are numbers, and names are in camel case. */
  readonly db: {
    rows<Row extends object>(sql: string): Promise<readonly Row[]>;
    run(sql: string): Promise<unknown>;
  };
  /** In front of the names of the target's own tables: their schema, with the point behind it. */
  readonly at: string;
  /** The type of a column, as `typesThere` gives it. */
  readonly typeOf: (type: FieldType) => string;
  /** Columns of a row that are not published ones. */
  readonly ownTypes: readonly (readonly [name: string, type: string])[];
  /** The name of an entity's table for people, and as statements have it. */
  readonly nameOf: (entity: EntityName) => string;
  readonly sqlName: (entity: EntityName) => string;
  /** Types of the columns of a table by their names; null where there is no such table. */
  readonly typesThere: (entity: EntityName) => Promise<ReadonlyMap<string, string> | null>;
  /** Why rows cannot be found by this key in a table that has its columns; null where they can. */
  readonly keyProblem: (entity: EntityName, given: GivenShape) => Promise<string | null>;
  /** Missing objects that were made with the table. */
  readonly lostWith: (known: KnownTable) => Promise<readonly string[]>;
  /** A view of that name was made for the table of another entity. */
  readonly isOwnView: (name: string) => Promise<boolean>;
  /** Its rows as `live`, deleted ones as `deleted` where the table keeps them, and `bytes`. */
  readonly countSql: (entity: EntityName) => string;
  /**
   * `lostTables` counts at most this many rows: of a larger table it only finds out that it has as many. Null: counting
   * costs nothing.
   */
  readonly mostCounted: number | null;
  /** A new generation gets another table; otherwise one that fits stays, with what others have attached to it. */
  readonly isReplaced: boolean;
  readonly incompatible: (found: string, advice: string) => SyncError;
}

/** An entity as `_published_tables` has it. */
export interface KnownTable extends EntityName {
  /** Names, as JSON. */
  readonly key: string;
  /** Names and types, as JSON. */
  readonly columns: string;
  /** Number of rows that the table should have; if deletes are marked, also that of deleted ones. */
  readonly liveRows: number;
  readonly deletedRows?: number;
  readonly hasLongKeys?: boolean;
  readonly viewName?: string | null;
}

type Column = Pick<PublishedColumn, 'name' | 'type'>;

export type GivenShape = ReturnType<typeof givenShape>;

/**
 * The shape that a table was made with, without the columns that all tables have. `hasLongKeys`: its unique index is on
 * hashes of the key's texts.
 */
function givenShape({ key, columns, hasLongKeys = false }: KnownTable) {
  return {
    key: JSON.parse(key) as readonly string[],
    columns: JSON.parse(columns) as readonly Column[],
    hasLongKeys,
  };
}

/** Reads the table of one entity, or all. */
export async function knownTables(
  { db, at }: Pick<TargetTables, 'db' | 'at'>,
  entity: EntityName | null,
): Promise<readonly KnownTable[]> {
  // Neither name has a quotation mark.
  const which = entity && `WHERE connector = '${entity.connector}' AND entity = '${entity.entity}'`;
  return await db.rows<KnownTable>(
    `SELECT * FROM ${at}_published_tables ${which ?? ''} ORDER BY connector, entity`,
  );
}

/**
 * The difference between a table and the one that was made; null if it can take rows. Columns and indexes of others do
 * not matter.
 */
export async function shapeProblem(
  { typeOf, ownTypes, keyProblem }: TargetTables,
  entity: EntityName,
  given: GivenShape,
  there: ReadonlyMap<string, string> | null,
): Promise<string | null> {
  if (there === null) return 'is gone';
  const published = given.columns.map(({ name, type }) => [name, typeOf(type)] as const);
  for (const [name, type] of [...published, ...ownTypes]) {
    const found = there.get(name);
    if (found === undefined) return `has lost its column ${name}`;
    if (found !== type) return `has ${found} in column ${name}, which should be ${type}`;
  }
  return await keyProblem(entity, given);
}

/** Condition that rows of two tables, `t` and `s`, have the same key. */
export function sameKey(key: readonly string[]): string {
  return key.map((name) => `t.${quoted(name)} = s.${quoted(name)}`).join(' AND ');
}

/**
 * Deletes all but the newest of several rows with one key. Keys that differ in the sink may be equal in a database:
 * lone surrogates, and the two zeros.
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

/** A manifest as a table of publications has it. */
export interface PublicationText {
  readonly number: number;
  readonly manifest: string;
  /** Hash of the text, taken when it was written. */
  readonly sha256: string;
}

/** Up to `limit` publications by their numbers, from `first` on; the newest one where that is null. */
type ReadPublications = (first: number | null, limit: number) => Promise<readonly PublicationText[]>;

export async function publicationsOf(
  { db, at }: Pick<TargetTables, 'db' | 'at'>,
  first: number | null,
  limit: number,
): Promise<readonly PublicationText[]> {
  const which = first === null ? 'ORDER BY number DESC' : `WHERE number >= ${first} ORDER BY number`;
  const sql = `SELECT number, manifest, sha256 FROM ${at}_publications ${which} LIMIT ${limit}`;
  return await db.rows<PublicationText>(sql);
}

const readAtOnce = 20;

export async function* publicationsFrom(
  read: (first: number, limit: number) => Promise<readonly PublicationText[]>,
  first: number,
): AsyncGenerator<PublicationText> {
  for (let from = first; ;) {
    const some = await read(from, readAtOnce);
    yield* some;
    const last = some.at(-1);
    if (last === undefined || some.length < readAtOnce) return;
    from = last.number + 1;
  }
}

/** Publications of a target, from its table `_publications`. */
export function tablePublications(
  read: ReadPublications,
  incompatible: (found: string, advice: string) => SyncError,
): Pick<Target, 'layout' | 'newest' | 'manifests'> {
  const manifestOf = ({ number, manifest }: PublicationText): StoredManifest => {
    try {
      return readManifest(manifest);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw incompatible(
        `the manifest of publication ${number} in _publications cannot be read (${why})`,
        `${otherVersionAdvice} Else restore it from a backup.`,
      );
    }
  };
  return {
    layout: null,
    newest: async () => {
      const [newest] = await read(null, 1);
      return newest === undefined ? null : manifestOf(newest);
    },
    manifests: async function* (first) {
      for await (const publication of publicationsFrom(read, first)) yield manifestOf(publication);
    },
  };
}

/** Hands on the changes of an entity batch by batch, and counts them. */
export async function writeChanges(
  { changes }: EntityRows,
  write: (records: readonly StoredRecord[]) => Promise<void>,
): Promise<WrittenEntity> {
  let [upserts, deletes] = [0, 0];
  for await (const records of changes) {
    const removed = records.filter(({ isDeleted }) => isDeleted).length;
    deletes += removed;
    upserts += records.length - removed;
    await write(records);
  }
  return { upserts, deletes, files: [], snapshot: null };
}

/** Changes to an entity's table before rows are written to it. */
export interface TablePlan {
  /**
   * `empty`: the table stays, with what others have attached to it; its rows go. `replace`: another one takes its
   * place.
   */
  readonly kind: 'make' | 'replace' | 'empty' | 'keep';
  readonly name: string;
  /** Dropped columns of a table that stays: those that replace them have another type. */
  readonly dropped: readonly string[];
  /** Columns that it lacks then. */
  readonly added: readonly Column[];
  /** All that it has in the end: also those that are no longer published, which stay null. */
  readonly columns: readonly Column[];
  /** Its unique index is on hashes of the key's texts. */
  readonly hasLongKeys: boolean;
}

type Wanted = EntityName & Pick<PlannedEntity, 'key' | 'columns' | 'isNewGeneration'>;

/**
 * Compares the table with the one that is needed, and locks nothing. Throws `SyncError` TARGET_INCOMPATIBLE where a
 * table of that name is another program's, or ours was changed so that it cannot take the rows, unless a new
 * generation replaces it.
 */
export async function planTable(tables: TargetTables, wanted: Wanted): Promise<TablePlan> {
  const { isNewGeneration, key } = wanted;
  const name = tables.nameOf(wanted);
  const [known] = await knownTables(tables, wanted);
  const there = await tables.typesThere(wanted);
  const fresh = { name, dropped: [], added: [], columns: typed(wanted.columns), hasLongKeys: false };
  if (known === undefined) {
    const isThere = there !== null && !(await tables.isOwnView(name));
    if (isNewGeneration && !isThere) return { kind: 'make', ...fresh };
    throw unlistedError(tables, name, isThere, isNewGeneration);
  }
  if (isNewGeneration && (tables.isReplaced || there === null)) {
    return { kind: there === null ? 'make' : 'replace', ...fresh };
  }
  const had = givenShape(known);
  const { kept, dropped, added } = columnChange(tables, had, wanted);
  const [before, now] = [JSON.stringify(had.key), JSON.stringify(key)];
  const foreign = added.find((one) => there?.has(one.name) === true && !dropped.includes(one.name));
  const problem =
    there !== null && before !== now
      ? `has the key ${before} and should have ${now}`
      : ((await shapeProblem(tables, wanted, { ...had, columns: kept }, there)) ??
        // A column that others have added is not filled with published values.
        (foreign === undefined
          ? null
          : `has a column ${foreign.name} that was added by hand, and needs that name for a column of the source`));
  if (problem === null) {
    const kind = isNewGeneration ? 'empty' : 'keep';
    const { hasLongKeys } = had;
    return { kind, name, dropped, added, columns: [...kept, ...typed(added)], hasLongKeys };
  }
  if (isNewGeneration) return { kind: 'replace', ...fresh };
  throw tables.incompatible(`its table ${name} ${problem}`, 'Undo that, or publish with --new-generation.');
}

/**
 * Explains a table that `_published_tables` lacks: a published one cannot take the changes alone, and one of another
 * program is not touched.
 */
function unlistedError(
  { incompatible }: TargetTables,
  table: string,
  isThere: boolean,
  isNewGeneration: boolean,
): Error {
  if (!isThere) {
    const found = `_published_tables does not list ${table}, which was published`;
    return incompatible(found, 'Publish with --new-generation.');
  }
  return incompatible(
    `it has a table ${table} that _published_tables does not list`,
    `Rename that table, ${isNewGeneration ? 'or publish to another place' : 'and publish with --new-generation'}.`,
  );
}

/** The columns alone, as `_published_tables` has them. */
function typed(columns: readonly Column[]): readonly Column[] {
  return columns.map(({ name, type }) => ({ name, type }));
}

/**
 * A column with another type is another column. Types change with a generation alone: one that has another type without
 * that left with an earlier generation, and is empty.
 */
function columnChange({ typeOf }: TargetTables, had: GivenShape, { columns, key }: Wanted) {
  const wanted = new Map(columns.map(({ name, type }) => [name, type]));
  /** With the types that they should have. */
  const kept = had.columns.flatMap(({ name, type }) => {
    const needed = wanted.get(name) ?? type;
    return typeOf(needed) === typeOf(type) || key.includes(name) ? [{ name, type: needed }] : [];
  });
  const names = new Set(kept.map(({ name }) => name));
  return {
    kept,
    dropped: had.columns.map(({ name }) => name).filter((name) => !names.has(name)),
    added: columns.filter(({ name }) => !names.has(name)),
  };
}

/**
 * Compares every table, its columns and its number of rows with the publications, and follows the chain of manifests.
 */
export async function checkTables(tables: TargetTables): Promise<Omit<TargetCheck, 'files'>> {
  const problems: string[] = [];
  let publications = 0;
  let newest: PublicationText | null = null;
  const read = async (first: number, limit: number): Promise<readonly PublicationText[]> =>
    await publicationsOf(tables, first, limit);
  for await (const publication of publicationsFrom(read, 0)) {
    problems.push(...chainProblem(newest, publication));
    publications += 1;
    newest = publication;
  }
  const known = await knownTables(tables, null);
  problems.push(...unlistedEntities(newest, known));
  let [rows, bytes] = [0, 0];
  for (const table of known) {
    const name = tables.nameOf(table);
    const there = await tables.typesThere(table);
    const problem = await shapeProblem(tables, table, givenShape(table), there);
    if (problem !== null) problems.push(`table ${name} ${problem}`);
    problems.push(...(await tables.lostWith(table)));
    const { liveRows, deletedRows } = table;
    // Rows are counted by these columns.
    const isCountable =
      deletedRows === undefined ? there?.has('_seq') === true : there?.get('_deleted') === 'boolean';
    if (!isCountable) continue;
    const [found] = await tables.db.rows<{ live: number; deleted?: number; bytes: number }>(
      tables.countSql(table),
    );
    const { live = 0, deleted = 0 } = found ?? {};
    rows += live + deleted;
    bytes += found?.bytes ?? 0;
    if (live === liveRows && deleted === (deletedRows ?? 0)) continue;
    const expected = `${liveRows} rows${deletedRows === undefined ? '' : ` and ${deletedRows} deleted ones`}`;
    const counted = deletedRows === undefined ? `${live}` : `${live} and ${deleted}`;
    problems.push(`table ${name} should have ${expected}, and has ${counted}`);
  }
  return { publications, rows, bytes, problems };
}

/**
 * Tables of these entities that are missing, differ from the table that was made, or have fewer rows than were
 * published.
 */
export async function lostTables(
  tables: TargetTables,
  entities: readonly EntityName[],
): Promise<readonly string[]> {
  const lost: string[] = [];
  for (const entity of entities) {
    const name = tables.nameOf(entity);
    const [known] = await knownTables(tables, entity);
    if (known === undefined) {
      lost.push(`_published_tables does not list ${name}, which was published`);
      continue;
    }
    const problem = await shapeProblem(tables, entity, givenShape(known), await tables.typesThere(entity));
    if (problem !== null) {
      lost.push(`table ${name} ${problem}`);
      continue;
    }
    const published = known.liveRows + (known.deletedRows ?? 0);
    const needed = Math.min(published, tables.mostCounted ?? published);
    const found = await countUpTo(tables, entity, needed);
    if (found < needed) lost.push(`table ${name} should have ${published} rows, and has ${found}`);
  }
  return lost;
}

async function countUpTo(
  { db, sqlName, mostCounted }: TargetTables,
  entity: EntityName,
  most: number,
): Promise<number> {
  const table = sqlName(entity);
  const from = mostCounted === null ? table : `(SELECT 1 FROM ${table} LIMIT ${most}) AS counted`;
  const [found] = await db.rows<{ readonly rows: number }>(`SELECT count(*) AS rows FROM ${from}`);
  return found?.rows ?? 0;
}

/** Entities of the newest manifest that `_published_tables` lacks. Null: no publication remains. */
function unlistedEntities(newest: PublicationText | null, tables: readonly KnownTable[]): readonly string[] {
  if (newest === null) {
    return tables.length === 0 ? [] : ['_publications is empty, and there are tables of publications'];
  }
  const known = new Set(tables.map(entityName));
  try {
    return readManifest(newest.manifest)
      .manifest.entities.map(entityName)
      .filter((name) => !known.has(name))
      .map((name) => `_published_tables lacks ${name}, which was published`);
  } catch {
    // `chainProblem` has reported that it cannot be read.
    return [];
  }
}

/** Problems of a publication that comes after `before` in the order of their numbers. */
function chainProblem(
  before: PublicationText | null,
  { number, manifest: text, sha256 }: PublicationText,
): readonly string[] {
  if (createHash('sha256').update(text).digest('hex') !== sha256) {
    return [`the manifest of publication ${number} was changed: its SHA-256 is another one`];
  }
  let stored: StoredManifest;
  try {
    stored = readManifest(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return [`the manifest of publication ${number} cannot be read (${why})`];
  }
  const { publication: named, previous } = stored.manifest;
  if (named !== number) return [`publication ${number} has the manifest of publication ${named}`];
  if (before === null) return [];
  if (before.number !== number - 1) return [missingPublications(before.number + 1, number - 1)];
  return previous?.sha256 === before.sha256
    ? []
    : [`publication ${number} does not follow the publication ${before.number} that is there`];
}
