import { createHash, randomBytes } from 'node:crypto';
import {
  access,
  chmod,
  constants,
  copyFile,
  open,
  readdir,
  realpath,
  rename,
  rm,
  stat,
  type FileHandle,
} from 'node:fs/promises';
import path from 'node:path';
import { type Child, startChild } from '../child/start-child.ts';
import type { Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { createNamedDirectory } from '../files/private-file.ts';
import type { PublishPlace } from '../settings/settings.ts';
import { quoted, type Values } from '../sql/database.ts';
import { tableName } from '../sinks/postgres/column-types.ts';
import { type Lock, takeLock } from '../sql/sqlite/lock.ts';
import type { DuckdbCalls } from './duckdb-process.ts';
import { explained, nullWithout, synced, toFileError } from './folder-store.ts';
import { columnsOf } from './manifest.ts';
import {
  type AppendedRow,
  type AppendedTable,
  fileName,
  largerLimit,
  type SentValue,
} from './open-duckdb.ts';
import { charsOf, sliceRecords } from './row-files.ts';
import {
  columnsSql,
  duckdbTypes,
  keepNewest,
  namesOf,
  openTableTarget,
  ownTables,
  publicationColumns,
  sameKey,
  type NamedEntity,
  type Stage,
  type TableChange,
  type TableDatabase,
  type TablePlan,
  type TableTargetOptions,
  type TargetTables,
} from './table-target.ts';
import { unusableTarget, type Leftover, type PlannedEntity, type Target } from './target.ts';

type DuckdbPlace = Pick<Extract<PublishPlace, { readonly type: 'duckdb' }>, 'path'>;

/**
 * A DuckDB file with the current rows of every entity. Each publication builds another file beside it, which takes its
 * place: readers keep theirs.
 */
export function openDuckdbTarget({ path: given }: DuckdbPlace, how: TableTargetOptions): Target {
  return openTableTarget(openDuckdbDatabase(given, how), how);
}

function openDuckdbDatabase(given: string, { clock, signal }: TableTargetOptions): TableDatabase {
  let running: Child<DuckdbCalls> | null = null;
  const duckdb = (): Child<DuckdbCalls> => (running ??= startDuckdbProcess(signal));
  const end = async (): Promise<void> => {
    const ending = running;
    running = null;
    await ending?.[Symbol.asyncDispose]();
  };
  const file = async (): Promise<string> => await realpath(given).catch(() => given);
  const build = async (at: string, isErasing: boolean): Promise<TableChange> =>
    await openBuild({ file: at, isErasing, duckdb: duckdb(), end, clock, signal });
  return {
    explained: async (work) => await work(),
    read: async (work, until) => {
      const at = await file();
      if (!(await isThere(at))) return null;
      if (until !== undefined) {
        // A separate process, because the signal ends it.
        await using checking = startDuckdbProcess(AbortSignal.any([signal, until]));
        return await readFile(checking, at, work);
      }
      try {
        return await readFile(duckdb(), at, work);
      } catch (error) {
        await end();
        throw error;
      }
    },
    begin: async (purpose) => {
      const at = await file();
      if (purpose !== 'probe') return await build(at, purpose === 'erase');
      if (await isThere(at)) {
        await access(at, constants.R_OK).catch((error: unknown) => {
          throw toFileError(error, at);
        });
      }
      // A file that is removed: DuckDB is there, and can write here.
      const folder = await existingFolder(path.dirname(at));
      return await build(path.join(folder, `${path.basename(at)}.probe`), false);
    },
    leftovers: async () => await leftBuilds(await file()),
    incompatible: (found, advice) => unusableTarget(given, found, advice),
    [Symbol.asyncDispose]: end,
  };
}

async function readFile<Result>(
  duckdb: Asking,
  file: string,
  work: (tables: TargetTables) => Promise<Result>,
): Promise<Result | null> {
  await using session = await openSession(duckdb, file, 'read');
  return (await isTarget(session, file)) ? await work(tablesIn(session, file)) : null;
}

type Asking = Pick<Child<DuckdbCalls>, 'ask'>;

type Session = Awaited<ReturnType<typeof openSession>>;

/** A file that the process has open. */
async function openSession({ ask }: Asking, file: string, how: 'read' | 'write') {
  const id = await ask('open', { path: file, how });
  return {
    rows: async <Row extends object>(sql: string, values: Values = {}) =>
      (await ask('rows', { id, sql, values: given(values) })) as readonly Row[],
    run: async (sql: string, values: Values = {}) => await ask('run', { id, sql, values: given(values) }),
    appendTo: async (table: AppendedTable) => await ask('appendTo', { id, table }),
    append: async (rows: readonly AppendedRow[]) => await ask('append', { id, rows }),
    flush: async () => await ask('flush', { id }),
    endAppend: async () => await ask('endAppend', { id }),
    /** Raises the limit from now on. Other publications do not get as much, because DuckDB would fill it. */
    allowMoreMemory: () => ask('run', { id, sql: `SET memory_limit = '${largerLimit}'`, values: {} }),
    close: async () => await ask('close', { id }),
    // An error of work is the one to report, and a process that has ended has closed its files.
    [Symbol.asyncDispose]: async () => await ask('close', { id }).catch(() => undefined),
  };
}

/** Values as messages between processes have them. */
function given(values: Values): Readonly<Record<string, SentValue>> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, Buffer.isBuffer(value) ? value.toString() : value]),
  ) as Readonly<Record<string, SentValue>>;
}

/**
 * False for a file without any table. Throws `SyncError` TARGET_INCOMPATIBLE for a file that has tables but no
 * publications of this version.
 */
async function isTarget(session: Session, file: string): Promise<boolean> {
  const columns = await session.rows<{ readonly name: string }>(
    `SELECT column_name AS name FROM duckdb_columns()
     WHERE database_name = current_database() AND schema_name = 'main' AND table_name = '_publications' ORDER BY column_index`,
  );
  if (columns.map(({ name }) => name).join() === publicationColumns.join()) return true;
  const tables = await session.rows('SELECT 1 FROM duckdb_tables() WHERE NOT internal AND NOT temporary');
  if (tables.length === 0) return false;
  throw unusableTarget(
    file,
    `it holds ${tables.length} tables of another program or version, and no publication of this one`,
    'Name another path.',
  );
}

const at = `${fileName}.main.`;

/** With the name of the file: alone, the schema's name may be that of a file too. */
function sqlName({ connector, entity }: NamedEntity): string {
  return [fileName, connector, entity].map(quoted).join('.');
}

/** The name that it has in PostgreSQL and in sinks too, so that they answer the same queries. */
function viewOf({ connector, entity }: NamedEntity): string {
  return `${tableName(connector, entity)}_current`;
}

function viewName(entity: NamedEntity): string {
  return `${at}${quoted(viewOf(entity))}`;
}

/** The tables of an open file. */
function tablesIn(session: Session, file: string): TargetTables {
  return {
    db: session,
    at,
    nameOf: ({ connector, entity }) => `${connector}.${entity}`,
    sqlName,
    typeNames: duckdbTypes,
    typesThere: async (entity) => await typesThere(session, entity),
    hasLatest: async () => (await typesThere(session, { connector: 'main', entity: '_latest' })) !== null,
    mostCounted: null,
    isKeyed: () => Promise.resolve(true),
    incompatible: (found, advice) => unusableTarget(file, found, advice),
  };
}

/** DuckDB's names of the types that a table has. */
const typeNames: Readonly<Record<string, string>> = {
  VARCHAR: 'text',
  BIGINT: 'bigint',
  DOUBLE: 'double precision',
  BOOLEAN: 'boolean',
  JSON: 'json',
  'TIMESTAMP WITH TIME ZONE': 'timestamptz',
};

async function typesThere(session: Session, { connector, entity }: Record<keyof NamedEntity, string>) {
  const columns = await session.rows<{ readonly name: string; readonly type: string }>(
    `SELECT column_name AS name, data_type AS type FROM duckdb_columns()
     WHERE database_name = current_database() AND schema_name = :connector AND table_name = :entity`,
    { connector, entity },
  );
  if (columns.length === 0) return null;
  return new Map(columns.map(({ name, type }) => [name, typeNames[type] ?? type.toLowerCase()]));
}

interface BuildOptions {
  /** The target file, not a link to it. */
  readonly file: string;
  /** Copies only the existing rows, without free blocks, which hold data of removed ones. */
  readonly isErasing: boolean;
  readonly duckdb: Asking;
  /** Ends the process, which closes its open files. */
  readonly end: () => Promise<void>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A file that is being built beside the one whose place it takes. Disposed before that, it is removed. */
async function openBuild({
  file,
  isErasing,
  duckdb,
  end,
  clock,
  signal,
}: BuildOptions): Promise<TableChange> {
  let staging = '';
  let old: FileHandle | null = null;
  let isPlaced = false;
  const dispose = async (): Promise<void> => {
    await old?.close();
    old = null;
    if (isPlaced || staging === '') return;
    await end();
    for (const name of [staging, `${staging}.wal`, `${staging}.tmp`]) {
      await rm(name, { recursive: true, force: true });
    }
  };
  const begin = async (): Promise<Session> => {
    createNamedDirectory(path.dirname(file));
    old = await openOld(file);
    staging = `${file}.new-${await baseOf(old)}${randomBytes(4).toString('hex')}`;
    await checkNoLog(file);
    const session =
      old === null
        ? await openSession(duckdb, staging, 'write')
        : await openCopy(duckdb, file, staging, isErasing);
    await session.run('BEGIN');
    for (const sql of ownTables(at)) await session.run(sql);
    return session;
  };
  const session = await begin().catch(async (error: unknown) => {
    await dispose();
    throw toFileError(error, file);
  });
  return {
    ...tablesIn(session, file),
    isPrivate: true,
    dialect: 'duckdb',
    viewName,
    // Tables are in other schemas than views.
    freeName: () => Promise.resolve(),
    viewComment: async (entity) => {
      const [found] = await session.rows<{ readonly text: string | null }>(
        `SELECT comment AS text FROM duckdb_views()
         WHERE database_name = current_database() AND schema_name = 'main' AND view_name = :view`,
        { view: viewOf(entity) },
      );
      return found;
    },
    putView: async (entity, columns) => {
      const { connector, entity: table } = entity;
      const select = columns.map(({ name, sql }) => `${sql} AS ${quoted(name)}`).join(', ');
      // Without the name of the file, which is another one for each reader.
      await session.run(
        `CREATE OR REPLACE VIEW ${viewName(entity)} AS SELECT ${select} FROM ${quoted(connector)}.${quoted(table)}`,
      );
    },
    reshape: async (_plan, { connector }, change) => {
      await session.run(`CREATE SCHEMA IF NOT EXISTS ${fileName}.${quoted(connector)}`);
      await change();
    },
    stage: async (plan, entity) => await openStage(session, plan, entity),
    takeNumber: async (insert) => {
      await insert();
      return true;
    },
    commit: async () => {
      try {
        await finish(session, staging);
        isPlaced = await place({ staging, file, old, clock, signal });
        return isPlaced;
      } catch (error) {
        throw toFileError(error, file);
      }
    },
    [Symbol.asyncDispose]: dispose,
  };
}

/** Keeps the old file open for reading during the copy, so that no other process writes to it. */
async function openCopy(duckdb: Asking, from: string, to: string, isErasing: boolean): Promise<Session> {
  await using old = await openSession(duckdb, from, 'read');
  await isTarget(old, from);
  if (isErasing) return await openCompacted(duckdb, from, to);
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  return await openSession(duckdb, to, 'write');
}

/** Copies table by table. DuckDB copies those of others without regard to their foreign keys. */
async function openCompacted(duckdb: Asking, from: string, to: string): Promise<Session> {
  const session = await openSession(duckdb, to, 'write');
  try {
    await session.run(`ATTACH '${from.replaceAll("'", "''")}' AS copied_from (READ_ONLY)`);
    await session.run(`COPY FROM DATABASE copied_from TO ${fileName}`);
    await session.run('DETACH copied_from');
    await chmod(to, (await stat(from)).mode);
    return session;
  } catch (error) {
    if (!(error instanceof SyncError) || error.context['cause'] !== 'Constraint') throw error;
    throw new SyncError(
      `${from} cannot be written table by table: tables of others in it refer to each other. Remove it, then publish again.`,
      { code: 'TARGET_FAILED', recovery: 'stop', context: { path: from } },
    );
  }
}

/** The table for the next rows of a table that has rows already. It ends with the connection. */
const stageTable = 'temp.main.stage';

/** Most characters of one message, except for a single longer record. */
const messageChars = 1024 * 1024;
/**
 * Characters of rows to append before a merge. An appender holds them outside DuckDB's memory, and a merge may hold
 * them twice within it.
 */
const heldChars = 32 * 1024 * 1024;
/** Characters of a row: 2,048 such rows may need more than the usual memory. */
const longChars = 32 * 1024;
/**
 * Tables with this many columns get more memory. With 210,000 rows of random numbers, 100 columns fitted and 150 did
 * not.
 */
const manyColumns = 64;

/** Appends rows to a new table itself, else to a stage that is merged whenever it is full. */
async function openStage(session: Session, { kind }: TablePlan, entity: PlannedEntity): Promise<Stage> {
  const { columns, key } = entity;
  const table = sqlName(entity);
  const isNew = kind !== 'keep';
  const types = columnsOf(entity).map(({ type }) => type);
  const begin = async (): Promise<void> => {
    if (!isNew) {
      await session.run(`CREATE OR REPLACE TEMPORARY TABLE stage (${columnsSql(entity, duckdbTypes)})`);
    }
    const to = isNew
      ? { catalog: fileName, schema: entity.connector, name: entity.entity }
      : { catalog: 'temp', schema: 'main', name: 'stage' };
    await session.appendTo({ ...to, types });
  };
  /** Merges the rows that have come so far. */
  const mergeStage = async (): Promise<void> => {
    await session.endAppend();
    await keepNewest(session, stageTable, key);
    const same = sameKey(key);
    const names = namesOf(entity).join(', ');
    await session.run(`DELETE FROM ${table} AS t USING ${stageTable} AS s WHERE ${same} AND t._seq < s._seq`);
    await session.run(
      `DELETE FROM ${stageTable} AS s WHERE _deleted OR EXISTS (SELECT 1 FROM ${table} AS t WHERE ${same})`,
    );
    // Without a join, which would hold long rows.
    await session.run(`INSERT INTO ${table} (${names}) SELECT ${names} FROM ${stageTable}`);
  };
  /** Characters of the rows that the appender holds. */
  let chars = 0;
  if (columns.length >= manyColumns) await session.allowMoreMemory();
  await begin();
  return {
    append: async (records) => {
      if (records.some((record) => charsOf(record) >= longChars)) await session.allowMoreMemory();
      for (const some of sliceRecords(records, messageChars)) {
        await session.append(
          some.map(({ values, extra, seq, changedAt, run, isDeleted }): AppendedRow => {
            return [...values, extra, seq, changedAt, run, isDeleted ? 1 : 0];
          }),
        );
        for (const record of some) chars += charsOf(record);
        if (chars < heldChars) continue;
        chars = 0;
        if (isNew) {
          await session.flush();
        } else {
          await mergeStage();
          await begin();
        }
      }
    },
    merge: async () => {
      if (isNew) {
        await session.endAppend();
        await keepNewest(session, table, key);
        await session.run(`DELETE FROM ${table} WHERE _deleted`);
      } else {
        await mergeStage();
        await session.run(`DROP TABLE ${stageTable}`);
      }
      const [found] = await session.rows<{ readonly live: number }>(`SELECT count(*) AS live FROM ${table}`);
      return { live: found?.live ?? 0, deleted: 0 };
    },
  };
}

/** Closes the file, complete and on the disk. */
async function finish(session: Session, staging: string): Promise<void> {
  // Needed whatever rows came: rows that were in the file already may be written again.
  await session.allowMoreMemory();
  await session.run('COMMIT');
  await session.run('CHECKPOINT');
  await session.close();
  await synced(staging);
}

interface Placed extends Pick<BuildOptions, 'file' | 'clock' | 'signal'> {
  readonly staging: string;
  readonly old: FileHandle | null;
}

/** Puts the file in the target's place. False: the old file is no longer the one that was copied, and stays. */
async function place({ staging, file, old, clock, signal }: Placed): Promise<boolean> {
  const lock = await lockWithin(`${file}.lock`, clock, signal);
  try {
    if (!(await isSame(file, old))) return false;
    await checkNoLog(file);
    await rename(staging, file);
  } finally {
    lock.release();
  }
  await synced(path.dirname(file));
  return true;
}

const lockMs = 30_000;
const pauseMs = 50;

/** Held open until the end, so that no other file gets its number. Null: there is none. */
async function openOld(file: string): Promise<FileHandle | null> {
  return await nullWithout(open(file, 'r'));
}

/** True if no other process has replaced or written to the file since it was opened. */
async function isSame(file: string, old: FileHandle | null): Promise<boolean> {
  await using now = await openOld(file);
  return (await baseOf(now)) === (await baseOf(old));
}

/** A text that differs for each file that takes the target's place, and after each write to it. */
async function baseOf(file: FileHandle | null): Promise<string> {
  if (file === null) return noBase;
  const { dev, ino, mtimeNs } = await file.stat({ bigint: true });
  return createHash('sha256').update(`${dev} ${ino} ${mtimeNs}`).digest('hex').slice(0, noBase.length);
}

const noBase = '0'.repeat(24);

/** Files of builds that were killed or are in progress. `isOver`: built on another base than the file has now. */
export async function leftBuilds(file: string): Promise<readonly Leftover[]> {
  await using now = await openOld(file);
  const base = await baseOf(now);
  const folder = path.dirname(file);
  const begin = `${path.basename(file)}.new-`;
  const found: Leftover[] = [];
  const names = await explained(folder, async () => await nullWithout(readdir(folder)));
  for (const name of names ?? []) {
    const rest = name.startsWith(begin) ? name.slice(begin.length) : '';
    if (!/^[0-9a-f]{32}(\.wal|\.tmp)?$/.test(rest)) continue;
    const at = path.join(folder, name);
    // Null: its builder has just removed it.
    const stats = await stat(at).catch(() => null);
    if (stats === null) continue;
    const remove = async (): Promise<void> => await rm(at, { recursive: true, force: true });
    const facts = { files: 1, bytes: stats.size, modifiedAtMs: stats.mtimeMs };
    found.push({ ...facts, isOver: !rest.startsWith(base), remove });
  }
  return found;
}

/** The log of another writer would be taken for a log of the new file. */
async function checkNoLog(file: string): Promise<void> {
  const log = await stat(`${file}.wal`).catch(() => null);
  if (log === null) return;
  throw new SyncError(
    `Another program writes to ${file}: there is a ${path.basename(file)}.wal beside it. Open published files with -readonly; open and close it once with DuckDB, and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'stop', context: { file } },
  );
}

/** A rename has no condition, so the process that renames holds a lock meanwhile, which ends with that process. */
async function lockWithin(file: string, clock: Clock, signal: AbortSignal): Promise<Lock> {
  for (let waitedMs = 0; waitedMs < lockMs; waitedMs += pauseMs) {
    const lock = takeLock(file);
    if (lock !== null) return lock;
    await clock.sleep(pauseMs, signal);
  }
  throw new SyncError(
    `Another process holds ${file}, which publishers hold for a moment only. End that process and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { file } },
  );
}

/** Rows wait in DuckDB's memory, which has a separate limit. */
const maxHeapMiB = 256;

/**
 * Runs DuckDB in a separate process because it is native code: if it crashes or takes too much memory, no worker ends,
 * and its locks on files are those of a process. It is killed once the signal is aborted. Calls reject with the
 * signal's reason, and with TARGET_FAILED if the process ended unexpectedly.
 */
export function startDuckdbProcess(signal: AbortSignal, module: string | URL = 'publish/duckdb-process') {
  // Memory freed by the library's threads stays in the arenas of glibc: a tenth of the process with 30 columns.
  const env = { MALLOC_ARENA_MAX: '2' };
  return startChild<DuckdbCalls>({ module, maxHeapMiB, env, signal, died: diedError });
}

function diedError(how: string): SyncError {
  return new SyncError(
    `The process that uses DuckDB ended unexpectedly (${how}); nothing of this publication is there. Check that the machine has a gigabyte of memory free, and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { how } },
  );
}

async function isThere(file: string): Promise<boolean> {
  return (await explained(file, async () => await nullWithout(stat(file)))) !== null;
}

/** The nearest existing folder on the path. */
async function existingFolder(folder: string): Promise<string> {
  const parent = path.dirname(folder);
  return parent === folder || (await isThere(folder)) ? folder : await existingFolder(parent);
}
