import { randomUUID } from 'node:crypto';
import { type Clock, instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { StoredRecord } from '../sinks/readings.ts';
import { quoted, type Values } from '../sql/database.ts';
import {
  columnsOf,
  databaseType,
  entityName,
  gapsBetween,
  latestText,
  manifestText,
  otherVersionAdvice,
  ownColumns,
  readManifest,
  withLatest,
  type Manifest,
  type PublishedColumn,
  type PublishedEntity,
  type StoredManifest,
  type TableShape,
} from './manifest.ts';
import {
  removeOld,
  type Leftover,
  nothingChecked,
  type EntityRows,
  type OpenPublication,
  type PlannedEntity,
  type Target,
  type TargetCheck,
  type WrittenEntity,
} from './target.ts';
import { isOwnView, viewColumns, viewComment, type ViewColumn, type ViewDialect } from './current-views.ts';
import { decimalDigits } from './typed-columns.ts';

/**
 * A database with tables that show the newest publication, one for each entity. `openTableTarget` has all that happens
 * there, in statements that DuckDB and PostgreSQL share; this interface has what differs between them.
 */
export interface TableDatabase extends AsyncDisposable {
  /** Runs work on a `TableChange`, and explains its failure. */
  explained<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Runs `work` on one state of the database; null: there is no target yet. `until` ends long work. */
  read<Result>(work: (tables: TargetTables) => Promise<Result>, until?: AbortSignal): Promise<Result | null>;
  /**
   * Begins a transaction, with the target's own tables in it. `probe`: it will not be committed, and what it creates
   * goes with it. `erase`: removed rows do not stay in free parts of a file.
   */
  begin(purpose: 'publish' | 'probe' | 'erase'): Promise<TableChange>;
  /** Leftovers of killed publishers. */
  leftovers(): Promise<readonly Leftover[]>;
  readonly incompatible: (found: string, advice: string) => SyncError;
}

/** `text`: texts are compared byte by byte. */
export type TypeNames = Readonly<{ text: string; numeric?: string; jsonb?: string }>;

/** Without a collation: DuckDB refuses to compare a column of one with a text of another. */
export const duckdbTypes: TypeNames = {
  text: 'text',
  numeric: `decimal(${decimalDigits.precision},${decimalDigits.scale})`,
  jsonb: 'json',
};

export type NamedEntity = Pick<PublishedEntity, 'connector' | 'entity'>;

/** The tables of a target in one state of its database. */
export interface TargetTables {
  /** Integers of rows are numbers, and names are in camel case. */
  readonly db: {
    rows<Row extends object>(sql: string, values?: Values): Promise<readonly Row[]>;
    run(sql: string, values?: Values): Promise<unknown>;
  };
  /** In front of the names of the target's own tables: their schema, with the point behind it. */
  readonly at: string;
  /** The name of an entity's table for people, and as statements have it. */
  readonly nameOf: (entity: NamedEntity) => string;
  readonly sqlName: (entity: NamedEntity) => string;
  /** Types that have another name than the one in `columnsOf`. */
  readonly typeNames: TypeNames;
  /** Types of the columns of a table by their names, as in `typeNames`; null where there is no such table. */
  readonly typesThere: (entity: NamedEntity) => Promise<ReadonlyMap<string, string> | null>;
  /** Rows that a brief examination counts at most: a larger table only has to have as many. Null: counting is quick. */
  readonly mostCounted: number | null;
  /** Whether there is a table `_latest`: targets of earlier versions have none before the next publication. */
  readonly hasLatest: () => Promise<boolean>;
  /** Whether rows are found by this key in a table that has its columns. */
  readonly isKeyed: (entity: NamedEntity, key: readonly string[]) => Promise<boolean>;
  readonly incompatible: TableDatabase['incompatible'];
}

/** A transaction. Disposed without `commit`, nothing of it is stored. */
export interface TableChange extends TargetTables, AsyncDisposable {
  /**
   * No reader sees the tables before `commit`: they change at once, and a new generation gets other tables. Else they
   * change at the end, to lock them briefly, and one that fits stays, with what others have attached to it.
   */
  readonly isPrivate: boolean;
  readonly dialect: ViewDialect;
  /** The name of an entity's view of current rows, as statements have it. */
  readonly viewName: (entity: NamedEntity) => string;
  /** Drops the view of another entity that has the name of this entity's table. */
  readonly freeName: (entity: NamedEntity) => Promise<void>;
  /** The comment on the view, null where it has none; undefined: there is no such view. */
  readonly viewComment: (entity: NamedEntity) => Promise<{ readonly text: string | null } | undefined>;
  /** Makes or changes the view. */
  putView(entity: NamedEntity, columns: readonly ViewColumn[]): Promise<void>;
  /** Changes the table of an entity with `change`, and what hangs on it. */
  reshape(plan: TablePlan, entity: PlannedEntity, change: () => Promise<void>): Promise<void>;
  stage(plan: TablePlan, entity: PlannedEntity): Promise<Stage>;
  /** Runs the statement that takes a number. False: another process has taken it meanwhile. */
  takeNumber(insert: () => Promise<unknown>): Promise<boolean>;
  /**
   * `attempt`: the publication's, by which it is found if the answer is lost. False: another process was faster, and
   * nothing is stored.
   */
  commit(attempt: string | null): Promise<boolean>;
}

/** The changed rows of one entity. */
export interface Stage {
  append(records: readonly StoredRecord[]): Promise<void>;
  /**
   * Brings them into the entity's table, which is as planned: the newest `_seq` of each key wins. Gives the number of
   * rows that it has then.
   */
  merge(): Promise<{ readonly live: number; readonly deleted: number }>;
}

export interface TableTargetOptions {
  /** Time that a manifest is kept after a newer one is there; null: forever. */
  readonly keepMs: number | null;
  readonly clock: Clock;
  /** Ends the work in progress, which rejects with the signal's reason. */
  readonly signal: AbortSignal;
}

export function openTableTarget(database: TableDatabase, { keepMs, clock }: TableTargetOptions): Target {
  const read = async (first: number | null, limit: number): Promise<readonly StoredManifest[]> =>
    (await database.read(async (tables) => await publicationsOf(tables, first, limit))) ?? [];
  const newest = async () => await database.read(newestOf);
  return {
    layout: null,
    newest,
    manifests: (first) => publicationsFrom(read, first),
    lost: async (_newest, entities) =>
      (await database.read((tables) => examineTables(tables, entities, 'briefly')))?.problems ?? [],
    tell: async (stored) => {
      await using change = await database.begin('publish');
      return await database.explained(async () => {
        if ((await newestOf(change))?.sha256 !== stored.sha256) return false;
        await writeLatest(change, stored);
        return await change.commit(null);
      });
    },
    begin: async () => {
      const change = await database.begin('publish');
      return openPublication(database, change, keepMs === null ? null : clock.now() - keepMs);
    },
    probe: async () => {
      await newest();
      await using change = await database.begin('probe');
      await database.explained(async () => await addPublication(change, probePublication));
    },
    check: async (until) => (await database.read(checkTables, until)) ?? nothingChecked,
    prune: async (keepFromMs, isDryRun, isErasing = false) => {
      const how = { isDryRun, isErasing };
      const publications = keepFromMs === null ? 0 : await forgetOld(database, instant(keepFromMs), how);
      // Last: copies of a file that was replaced just now are over, too.
      const { removed, waiting } = await removeOld(await database.leftovers(), clock.now(), isDryRun);
      return { publications, ...removed, waiting };
    },
    [Symbol.asyncDispose]: async () => await database[Symbol.asyncDispose](),
  };
}

/** `keepFromMs`: manifests that were not the newest one at this instant or later go with it; null: none. */
function openPublication(
  database: TableDatabase,
  change: TableChange,
  keepFromMs: number | null,
): OpenPublication {
  /** Steps that wait for the commit. */
  const waiting: (() => Promise<void>)[] = [];
  const write: OpenPublication['write'] = async (entity, rows) => {
    const plan = await planTable(change, entity);
    if (change.isPrivate) await shapeTable(change, plan, entity);
    const stage = await change.stage(plan, entity);
    const written = await writeChanges(rows, stage);
    const hasRows = written.upserts + written.deletes > 0;
    if (change.isPrivate) {
      await mergeStage(change, stage, plan, entity);
      await describeTable(change, entity);
    } else if (hasRows || plan.kind !== 'keep' || plan.added.length > 0) {
      waiting.push(async () => {
        await shapeTable(change, plan, entity);
        await mergeStage(change, stage, plan, entity);
        await describeTable(change, entity);
      });
    }
    return written;
  };
  const commit: OpenPublication['commit'] = async (manifest) => {
    const attempt = randomUUID();
    if (!(await takeNumber(change, manifest, attempt))) return 'taken';
    for (const step of waiting) await step();
    await writeLatest(change, readManifest(manifestText(manifest)));
    if (keepFromMs !== null) await forget(change, instant(keepFromMs));
    return (await change.commit(attempt)) ? 'published' : 'taken';
  };
  return {
    write: async (entity, rows) => await database.explained(async () => await write(entity, rows)),
    commit: async (manifest) => await database.explained(async () => await commit(manifest)),
    [Symbol.asyncDispose]: async () => await change[Symbol.asyncDispose](),
  };
}

/** Hands on the changes of an entity batch by batch, and counts them. */
async function writeChanges({ changes }: EntityRows, stage: Stage): Promise<WrittenEntity> {
  let [upserts, deletes] = [0, 0];
  for await (const records of changes) {
    const removed = records.filter(({ isDeleted }) => isDeleted).length;
    deletes += removed;
    upserts += records.length - removed;
    await stage.append(records);
  }
  return { upserts, deletes, files: [], snapshot: null };
}

/** As `CREATE TABLE` has them. */
export function columnsSql(shape: TableShape, names: TypeNames, separator = ', '): string {
  return columnsOf(shape)
    .map((one) => `${quoted(one.name)} ${typeName(one.type, names)}${one.isRequired ? ' NOT NULL' : ''}`)
    .join(separator);
}

export function typeName(type: string, names: TypeNames): string {
  return (names as Readonly<Record<string, string | undefined>>)[type] ?? type;
}

/** Quoted, in the order of a row. */
export function namesOf(shape: TableShape): readonly string[] {
  return columnsOf(shape).map(({ name }) => quoted(name));
}

/** Makes or changes the table as planned. */
async function shapeTable(change: TableChange, plan: TablePlan, entity: PlannedEntity): Promise<void> {
  const { db, typeNames } = change;
  const { kind } = plan;
  const table = change.sqlName(entity);
  await change.reshape(plan, entity, async () => {
    const isChanged = kind === 'replace' || plan.dropped.length > 0;
    if (isChanged && isOwnView(await change.viewComment(entity))) {
      await db.run(`DROP VIEW ${change.viewName(entity)}`);
    }
    if (kind === 'replace') await db.run(`DROP TABLE IF EXISTS ${table}`);
    if (kind === 'make' || kind === 'replace') {
      await change.freeName(entity);
      await db.run(`CREATE TABLE ${table} (${columnsSql(entity, typeNames)})`);
      return;
    }
    for (const name of plan.dropped) {
      await db.run(`ALTER TABLE ${table} DROP COLUMN IF EXISTS ${quoted(name)}`);
    }
    for (const column of plan.added) {
      const type = typeName(databaseType(column), typeNames);
      await db.run(`ALTER TABLE ${table} ADD COLUMN ${quoted(column.name)} ${type}`);
    }
  });
}

/**
 * Makes the view of current rows, and the comments on the table, unless they are there. A view of others that has its
 * name stays.
 */
async function describeTable(change: TableChange, entity: PlannedEntity): Promise<void> {
  const { db, dialect } = change;
  const columns = viewColumns(entity, dialect);
  const [table, view] = [change.sqlName(entity), change.viewName(entity)];
  const { described } = entity;
  const comments = [
    ...(described?.description ? [[`TABLE ${table}`, described.description] as const] : []),
    ...[...entity.columns, ...ownColumns.map((one) => ({ ...one, field: one.name }))].flatMap((column) => {
      const text = 'description' in column ? column.description : described?.columns[column.field];
      return text === undefined ? [] : [[`COLUMN ${table}.${quoted(column.name)}`, text] as const];
    }),
  ];
  const wanted = viewComment(entity, JSON.stringify([columns, comments, columnsOf(entity)]));
  const there = await change.viewComment(entity);
  if (there?.text === wanted) return;
  const isOwn = there === undefined || isOwnView(there);
  if (isOwn) await change.putView(entity, columns);
  for (const [of, text] of [...comments, ...(isOwn ? [[`VIEW ${view}`, wanted] as const] : [])]) {
    await db.run(`COMMENT ON ${of} IS '${text.replaceAll("'", "''")}'`);
  }
}

/** Brings the staged rows into the table, and notes how it is now. */
async function mergeStage(
  { db, at }: TableChange,
  stage: Stage,
  plan: TablePlan,
  { connector, entity, generation, key }: PlannedEntity,
): Promise<void> {
  const counted = await stage.merge();
  const columns = JSON.stringify(plan.columns);
  await db.run(
    `INSERT INTO ${at}_published_tables
       (connector, entity, table_name, generation, key, columns, live_rows, deleted_rows)
     VALUES (:connector, :entity, :table, :generation, :key, :columns, :live, :deleted)
     ON CONFLICT (connector, entity) DO UPDATE SET generation = excluded.generation, key = excluded.key, columns = excluded.columns,
       live_rows = excluded.live_rows, deleted_rows = excluded.deleted_rows`,
    { connector, entity, table: plan.name, generation, key: JSON.stringify(key), columns, ...counted },
  );
}

/** False: the number is taken, or the newest publication is not the one that the manifest follows. */
async function takeNumber(change: TableChange, manifest: Manifest, attempt: string): Promise<boolean> {
  const [newest] = await publicationsOf(change, null, 1);
  const { previous, publication: number, createdAt } = manifest;
  if ((newest?.manifest.publication ?? 0) !== (previous?.publication ?? 0)) return false;
  if (newest?.sha256 !== previous?.sha256) return false;
  const text = manifestText(manifest);
  return await change.takeNumber(() => addPublication(change, { number, createdAt, text, attempt }));
}

/** The newest publication, as fresh as `_latest` says. */
async function newestOf(tables: TargetTables): Promise<StoredManifest | null> {
  const [newest = null] = await publicationsOf(tables, null, 1);
  if (newest === null || !(await tables.hasLatest())) return newest;
  const [told] = await tables.db.rows<{ readonly state: string }>(`SELECT state FROM ${tables.at}_latest`);
  return withLatest(newest, told?.state ?? '');
}

async function writeLatest({ db, at, hasLatest }: TargetTables, newest: StoredManifest): Promise<void> {
  if (!(await hasLatest())) await db.run(latestTable(at));
  await db.run(
    `INSERT INTO ${at}_latest (one, publication, checked_at, state)
     VALUES (1, :publication, :checkedAt::timestamptz, :state)
     ON CONFLICT (one) DO UPDATE SET publication = excluded.publication, checked_at = excluded.checked_at, state = excluded.state`,
    {
      publication: newest.manifest.publication,
      checkedAt: newest.checkedAt,
      state: Buffer.from(latestText(newest)),
    },
  );
}

interface NewPublication {
  readonly number: number;
  readonly createdAt: string;
  readonly text: string;
  readonly attempt: string;
}

async function addPublication({ db, at }: TableChange, { text, ...rest }: NewPublication): Promise<void> {
  await db.run(
    `INSERT INTO ${at}_publications (${publicationColumns.join(', ')})
     VALUES (:number, :createdAt::timestamptz, :manifest, :attempt::uuid)`,
    { ...rest, manifest: Buffer.from(text) },
  );
}

const oldOnes = (at: string): string =>
  `FROM ${at}_publications WHERE number < (SELECT max(number) FROM ${at}_publications WHERE created_at < :keepFrom::timestamptz)`;

async function forget({ db, at }: TableChange, keepFrom: string): Promise<void> {
  await db.run(`DELETE ${oldOnes(at)}`, { keepFrom });
}

/** Removes manifests that were not the newest one at this instant or later, and gives their number. */
async function forgetOld(
  database: TableDatabase,
  keepFrom: string,
  { isDryRun, isErasing }: { readonly isDryRun: boolean; readonly isErasing: boolean },
): Promise<number> {
  const old = await database.read(
    async ({ db, at }) => (await db.rows(`SELECT number ${oldOnes(at)}`, { keepFrom })).length,
  );
  if (old === null || isDryRun || (old === 0 && !isErasing)) return old ?? 0;
  await using change = await database.begin(isErasing ? 'erase' : 'publish');
  const isDone = await database.explained(async () => {
    await forget(change, keepFrom);
    return await change.commit(null);
  });
  if (isDone) return old;
  if (!isErasing) return 0;
  throw new SyncError('The target was published to again meanwhile. Prune it again.', {
    code: 'TARGET_FAILED',
    recovery: 'retry',
  });
}

const probePublication: NewPublication = {
  number: -1,
  createdAt: instant(0),
  text: '{}',
  attempt: randomUUID(),
};

/** Columns of `_publications`, by which a target knows it. */
export const publicationColumns: readonly string[] = ['number', 'created_at', 'manifest', 'attempt'];

/**
 * The tables of the target's own. `_publications`: the number is given once, which makes a publication happen exactly
 * once. `_published_tables`: each entity's table, the columns and the key that it was given, and how many rows it
 * should have. `_latest`: how fresh the newest publication is.
 */
export function ownTables(at: string): readonly string[] {
  return [
    `CREATE TABLE IF NOT EXISTS ${at}_publications (
       number bigint PRIMARY KEY,
       created_at timestamptz NOT NULL,
       manifest json NOT NULL,
       attempt uuid NOT NULL)`,
    `CREATE TABLE IF NOT EXISTS ${at}_published_tables (
       connector text COLLATE "C" NOT NULL,
       entity text COLLATE "C" NOT NULL,
       table_name text COLLATE "C" NOT NULL UNIQUE,
       generation bigint NOT NULL,
       key json NOT NULL,
       columns json NOT NULL,
       live_rows bigint NOT NULL,
       deleted_rows bigint NOT NULL,
       PRIMARY KEY (connector, entity))`,
    latestTable(at),
  ];
}

/** One row, which is replaced. */
const latestTable = (at: string): string =>
  `CREATE TABLE IF NOT EXISTS ${at}_latest (
     one integer PRIMARY KEY,
     publication bigint NOT NULL,
     checked_at timestamptz NOT NULL,
     state json NOT NULL)`;

/** An entity as `_published_tables` has it. */
interface KnownTable extends NamedEntity {
  /** Names, as JSON. */
  readonly key: string;
  /** Names and types, as JSON. */
  readonly columns: string;
  /** Numbers of rows that the table should have. */
  readonly liveRows: number;
  readonly deletedRows: number;
}

type Column = Pick<PublishedColumn, 'name' | 'type' | 'as'>;

type GivenShape = ReturnType<typeof givenShape>;

/** The shape that a table was made with, without the columns that all tables have. */
function givenShape({ key, columns }: KnownTable) {
  return {
    key: JSON.parse(key) as readonly string[],
    columns: JSON.parse(columns) as readonly Column[],
  };
}

/** Reads the table of one entity, or all. */
async function knownTables({ db, at }: TargetTables, entity: NamedEntity | null) {
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
async function shapeProblem(tables: TargetTables, entity: NamedEntity, given: GivenShape) {
  const there = await tables.typesThere(entity);
  if (there === null) return 'is gone';
  for (const { name, type } of columnsOf(given)) {
    const found = there.get(name);
    if (found === undefined) return `has lost its column ${name}`;
    const should = type === 'text' ? type : typeName(type, tables.typeNames);
    if (found !== should) return `has ${found} in column ${name}, which should be ${should}`;
  }
  return (await tables.isKeyed(entity, given.key)) ? null : 'has lost the unique index on its key';
}

/** Condition that rows of two tables, `t` and `s`, have the same key. */
export function sameKey(key: readonly string[]): string {
  return key.map((name) => `t.${quoted(name)} = s.${quoted(name)}`).join(' AND ');
}

/**
 * Deletes all but the newest of several rows with one key. Keys that differ in the sink may be equal in a database:
 * lone surrogates, and the two zeros.
 */
export async function keepNewest(db: TargetTables['db'], table: string, key: readonly string[]) {
  const names = key.map(quoted).join(', ');
  const twice = `SELECT 1 AS one FROM ${table} GROUP BY ${names} HAVING count(*) > 1 LIMIT 1`;
  if ((await db.rows(twice)).length === 0) return;
  await db.run(
    `DELETE FROM ${table} AS t USING (SELECT ${names}, max(_seq) AS newest FROM ${table} GROUP BY ${names}) AS s
      WHERE ${sameKey(key)} AND t._seq < s.newest`,
  );
}

/** Up to `limit` publications by their numbers, from `first` on; the newest one where that is null. */
async function publicationsOf({ db, at, incompatible }: TargetTables, first: number | null, limit: number) {
  const which = first === null ? 'ORDER BY number DESC' : `WHERE number >= ${first} ORDER BY number`;
  const found = await db.rows<{ readonly number: number; readonly manifest: string }>(
    `SELECT number, manifest FROM ${at}_publications ${which} LIMIT ${limit}`,
  );
  return found.map(({ number, manifest }) => {
    try {
      return readManifest(manifest, number);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw incompatible(
        `the manifest of publication ${number} in _publications cannot be read (${why})`,
        `${otherVersionAdvice} Else restore it from a backup.`,
      );
    }
  });
}

const readAtOnce = 20;

async function* publicationsFrom(
  read: (first: number, limit: number) => Promise<readonly StoredManifest[]>,
  first: number,
): AsyncGenerator<StoredManifest> {
  for (let from = first; ;) {
    const some = await read(from, readAtOnce);
    yield* some;
    const last = some.at(-1);
    if (last === undefined || some.length < readAtOnce) return;
    from = last.manifest.publication + 1;
  }
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
  /** Numbers of rows that it has. */
  readonly before: { readonly live: number; readonly deleted: number };
}

type Wanted = NamedEntity & Pick<PlannedEntity, 'key' | 'columns' | 'isNewGeneration'>;

/**
 * Compares the table with the one that is needed, and locks nothing. Throws `SyncError` TARGET_INCOMPATIBLE where a
 * table of that name is another program's, or ours was changed so that it cannot take the rows, unless a new
 * generation replaces it.
 */
async function planTable(tables: TableChange, wanted: Wanted): Promise<TablePlan> {
  const { isNewGeneration, key } = wanted;
  const name = tables.nameOf(wanted);
  const [known] = await knownTables(tables, wanted);
  const there = await tables.typesThere(wanted);
  const isThere = there !== null;
  const none = { live: 0, deleted: 0 };
  const columns = typed(wanted.columns);
  const fresh = { name, dropped: [], added: [], columns, before: none };
  if (known === undefined) {
    if (isNewGeneration && !isThere) return { kind: 'make', ...fresh };
    // A published one cannot take the changes alone, and one of another program is not touched.
    throw tables.incompatible(
      `_published_tables does not list its table ${name}`,
      'If there is such a table, rename it. Then publish with --new-generation.',
    );
  }
  if (isNewGeneration && (tables.isPrivate || !isThere)) {
    return { kind: isThere ? 'replace' : 'make', ...fresh };
  }
  const had = givenShape(known);
  const { kept, dropped, added } = columnChange(had, wanted);
  const [before, now] = [JSON.stringify(had.key), JSON.stringify(key)];
  // Values that others have written to it are not replaced by published ones.
  const foreign = added.find((one) => there?.has(one.name) === true && !dropped.includes(one.name));
  const problem =
    isThere && before !== now
      ? `has the key ${before} and should have ${now}`
      : foreign !== undefined
        ? `has a column ${foreign.name} that others have added, and the source has one now`
        : await shapeProblem(tables, wanted, { ...had, columns: kept });
  if (problem === null) {
    const kind = isNewGeneration ? 'empty' : 'keep';
    const before = isNewGeneration ? none : { live: known.liveRows, deleted: known.deletedRows };
    return { kind, name, dropped, added, columns: [...kept, ...typed(added)], before };
  }
  if (isNewGeneration) return { kind: 'replace', ...fresh };
  throw tables.incompatible(`its table ${name} ${problem}`, 'Undo that, or publish with --new-generation.');
}

/** The columns alone, as `_published_tables` has them. */
function typed(columns: readonly Column[]): readonly Column[] {
  return columns.map(({ name, type, as }) => ({ name, type, ...(as === undefined ? {} : { as }) }));
}

/**
 * A column with another type is another column. Types change with a generation alone: one that has another type without
 * that left with an earlier generation, and is empty.
 */
function columnChange(had: GivenShape, { columns, key }: Wanted) {
  const wanted = new Map(typed(columns).map((column) => [column.name, column]));
  /** With the types that they should have. */
  const kept = had.columns.flatMap((column) => {
    const needed = wanted.get(column.name) ?? column;
    return databaseType(needed) === databaseType(column) || key.includes(column.name) ? [needed] : [];
  });
  const names = new Set(kept.map(({ name }) => name));
  return {
    kept,
    dropped: had.columns.map(({ name }) => name).filter((name) => !names.has(name)),
    added: columns.filter(({ name }) => !names.has(name)),
  };
}

/** Follows the chain of manifests, and examines every table of the newest one. */
async function checkTables(tables: TargetTables): Promise<TargetCheck> {
  const gaps: string[] = [];
  let publications = 0;
  let newest: StoredManifest | null = null;
  const read = async (first: number, limit: number): Promise<readonly StoredManifest[]> =>
    await publicationsOf(tables, first, limit);
  for await (const publication of publicationsFrom(read, 0)) {
    gaps.push(...gapsBetween(newest, publication));
    publications += 1;
    newest = publication;
  }
  if (newest === null && (await knownTables(tables, null)).length > 0) {
    gaps.push('_publications is empty, and there are tables of publications');
  }
  const { rows, problems } = await examineTables(tables, newest?.manifest.entities ?? [], 'thoroughly');
  return { ...nothingChecked, publications, rows, problems: [...gaps, ...problems] };
}

/**
 * Finds tables of these entities that are missing, differ from the table that was made, or have fewer rows than were
 * published. `thoroughly`: counts all rows, and reads their blocks, whose checksums the database compares.
 */
async function examineTables(
  tables: TargetTables,
  entities: readonly NamedEntity[],
  how: 'briefly' | 'thoroughly',
) {
  const knownByName = new Map((await knownTables(tables, null)).map((one) => [entityName(one), one]));
  const problems: string[] = [];
  let rows = 0;
  for (const entity of entities) {
    const name = tables.nameOf(entity);
    const known = knownByName.get(entityName(entity));
    if (known === undefined) {
      problems.push(`_published_tables does not list ${name}, which was published`);
      continue;
    }
    const problem = await shapeProblem(tables, entity, givenShape(known));
    if (problem !== null) {
      problems.push(`table ${name} ${problem}`);
      continue;
    }
    const table = tables.sqlName(entity);
    const most = how === 'thoroughly' ? null : tables.mostCounted;
    const counted = most === null ? table : `(SELECT * FROM ${table} LIMIT ${most}) AS counted`;
    const [found] = await tables.db.rows<{ readonly live: number; readonly deleted: number }>(
      `SELECT count(*) FILTER (WHERE NOT _deleted) AS live, count(*) FILTER (WHERE _deleted) AS deleted, sum(_seq) AS sum
       FROM ${counted}`,
    );
    const { live = 0, deleted = 0 } = found ?? {};
    const { liveRows, deletedRows } = known;
    rows += live + deleted;
    const isWhole =
      how === 'thoroughly'
        ? live === liveRows && deleted === deletedRows
        : live + deleted >= Math.min(liveRows + deletedRows, most ?? Infinity);
    if (isWhole) continue;
    problems.push(
      `table ${name} should have ${liveRows} rows and ${deletedRows} deleted ones, and has ${live} and ${deleted}`,
    );
  }
  return { rows, problems };
}
