import { SyncError } from '../core/errors.ts';
import {
  columnsSql,
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
import { isOwnView, type ViewColumn } from './current-views.ts';
import { columnsOf, ownColumns } from './manifest.ts';
import { type Advices, failedError, type PlannedEntity, type Target, unusableTarget } from './target.ts';
import type { PublishPlace } from '../settings/settings.ts';
import { sqlType, tableName } from '../sinks/postgres/column-types.ts';
import type { StoredRecord } from '../sinks/readings.ts';
import { keepalives } from '../sql/postgres/connections.ts';
import { type BinaryValue, encodeRows } from '../sql/postgres/encode-binary.ts';
import {
  codeOf,
  connectProblem,
  dropValues,
  failingOf,
  isServerError,
} from '../sql/postgres/postgres-error.ts';
import { openServer, type Server } from '../sql/postgres/server.ts';
import { type PostgresTx as Tx, type Session, settingSql, txOn } from '../sql/postgres/session.ts';
import { valueSettings } from '../sql/postgres/transaction-settings.ts';
import { quoted } from '../sql/database.ts';

export type PostgresPlace = Extract<PublishPlace, { readonly type: 'postgres' }>;

/** Tables in a schema of PostgreSQL. Nothing is asked of the server before it is needed. */
export function openPostgresTarget(place: PostgresPlace, how: TableTargetOptions): Target {
  return openTableTarget(openPostgresDatabase(place, how.signal), how);
}

interface Opened {
  readonly server: Server;
  /** The schema, quoted, with the point behind it. */
  readonly at: string;
  readonly deletes: PostgresPlace['deletes'];
}

/**
 * A publication is one transaction: rows come into temporary tables, which lock nothing that others use, and only
 * `commit` touches the tables of the target. A publisher that is killed leaves nothing.
 */
function openPostgresDatabase(
  { connection, schema, deletes }: PostgresPlace,
  signal: AbortSignal,
): TableDatabase {
  const server = openServer({
    connection,
    direct: null,
    schema,
    connections: 2,
    durability: 'full',
    explain: toTargetError,
    signal,
  });
  const { place } = server;
  const opened: Opened = { server, at: `${quoted(schema)}.`, deletes };
  const isThere = async (tx: Tx): Promise<boolean> => await isTargetThere(tx, schema, place);
  const explained: TableDatabase['explained'] = async (work) => await asked({ place, signal }, work);
  return {
    explained,
    read: async (work, until) => {
      const readIn = async (tx: Tx) => ((await isThere(tx)) ? await work(tablesIn(tx, opened)) : null);
      if (until === undefined) return await explained(async () => await server.read(readIn));
      const either = AbortSignal.any([signal, until]);
      return await asked({ place, signal: either }, async () => {
        await using transaction = await openTransaction(server, 'read', either);
        return await readIn(transaction.tx);
      });
    },
    begin: async (purpose) =>
      await explained(async () => {
        if (purpose !== 'probe' && !(await server.read(isThere))) {
          await server.transact(async (tx) => await makeTarget(tx, schema, place));
        }
        const change = changeIn(await openTransaction(server, 'write', signal), opened);
        if (purpose !== 'probe') return change;
        try {
          await makeTarget(change.db, schema, place);
          return change;
        } catch (error) {
          await change[Symbol.asyncDispose]();
          throw error;
        }
      }),
    leftovers: () => Promise.resolve([]),
    incompatible: (found, advice) => incompatible(place, found, advice),
    [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose](),
  };
}

const typeNames = { text: sqlType.string };

interface PostgresTables extends TargetTables {
  readonly db: Tx;
}

/** The tables of the schema in the state that the transaction reads. */
function tablesIn(db: Tx, { server: { place }, at }: Opened): PostgresTables {
  const nameOf = ({ connector, entity }: NamedEntity): string => tableName(connector, entity);
  const sqlName = (entity: NamedEntity): string => `${at}${quoted(nameOf(entity))}`;
  return {
    db,
    at,
    nameOf,
    sqlName,
    typeNames,
    typesThere: async (entity) => await typesThere(db, sqlName(entity)),
    hasLatest: async () => (await typesThere(db, `${at}_latest`)) !== null,
    mostCounted: 10_000,
    isKeyed: async (entity, key) => await isKeyed(db, sqlName(entity), key),
    incompatible: (found, advice) => incompatible(place, found, advice),
  };
}

function viewName({ at, nameOf }: TargetTables, entity: NamedEntity): string {
  return `${at}${quoted(`${nameOf(entity)}_current`)}`;
}

/** Keeps the view, with rights and views of others on it, where its columns only become more. */
async function putView(tables: PostgresTables, entity: NamedEntity, columns: readonly ViewColumn[]) {
  const { db: tx, sqlName } = tables;
  const view = viewName(tables, entity);
  const selectOf = (all: readonly ViewColumn[]): string =>
    `SELECT ${all.map(({ name, sql }) => `${sql} AS ${quoted(name)}`).join(', ')} FROM ${sqlName(entity)} WHERE NOT _deleted`;
  tx.put(`CREATE TEMPORARY VIEW next_view AS ${selectOf(columns)}`);
  const next = await typesThere(tx, 'pg_temp.next_view');
  tx.put('DROP VIEW pg_temp.next_view');
  const before = [...((await typesThere(tx, view)) ?? [])];
  const isKept = before.every(([name, type]) => next?.get(name) === type);
  const grants = isKept ? [] : await grantsOn(tx, view);
  if (!isKept) tx.put(`DROP VIEW ${view}`);
  const kept = isKept ? before.flatMap(([name]) => columns.find((column) => column.name === name) ?? []) : [];
  const ordered = [...kept, ...columns.filter((column) => !kept.includes(column))];
  tx.put(`CREATE OR REPLACE VIEW ${view} AS ${selectOf(ordered)}`);
  for (const grant of grants) tx.put(grant);
}

type Transaction = Awaited<ReturnType<typeof openTransaction>>;

function changeIn(transaction: Transaction, opened: Opened): TableChange & PostgresTables {
  const { tx } = transaction;
  const tables = tablesIn(tx, opened);
  let stages = 0;
  return {
    ...tables,
    isPrivate: false,
    dialect: 'postgres',
    viewName: (entity) => viewName(tables, entity),
    freeName: async (entity) => {
      const name = tables.sqlName(entity);
      const found = await tx.first<{ readonly text: string | null }>(
        `SELECT obj_description(oid, 'pg_class') AS text FROM pg_class WHERE oid = to_regclass(:name) AND relkind = 'v'`,
        { name },
      );
      if (isOwnView(found)) tx.put(`DROP VIEW ${name}`);
    },
    viewComment: async (entity) =>
      await tx.first<{ readonly text: string | null }>(
        `SELECT obj_description(id, 'pg_class') AS text FROM to_regclass(:view) AS t(id) WHERE id IS NOT NULL`,
        { view: viewName(tables, entity) },
      ),
    putView: async (entity, columns) => await putView(tables, entity, columns),
    reshape: async ({ kind, name }, entity, change) => {
      const table = tables.sqlName(entity);
      if (kind === 'empty') await emptyTable(tables, name, table);
      const grants = kind === 'replace' ? await grantsOn(tx, table) : [];
      await change();
      for (const grant of grants) tx.put(grant);
      if (kind === 'make' || kind === 'replace') {
        tx.put(`ALTER TABLE ${table} ADD PRIMARY KEY (${entity.key.map(quoted).join(', ')})`);
      }
    },
    stage: (plan, entity) => {
      const name = `stage_${(stages += 1)}`;
      tx.put(`CREATE TEMPORARY TABLE ${name} (${columnsSql(entity, typeNames)}) ON COMMIT DROP`);
      const stage = `pg_temp.${name}`;
      const copy = copyInto(stage, entity);
      return Promise.resolve<Stage>({
        append: async (records) => {
          copy(tx, records);
          await tx.sent();
        },
        merge: async () =>
          await mergeRows(tables, opened.deletes, plan, entity, stage).catch((error: unknown) => {
            if (codeOf(error) !== '54000') throw error;
            // The server does not always name it.
            throw tables.incompatible(
              `a row has a key that is too long for the index of ${plan.name} (2,700 bytes)`,
              'Leave this connector out of `connectors` of the target, and publish it to one of another type.',
            );
          }),
      });
    },
    takeNumber: async (insert) => await takeNumber(tx, insert),
    commit: async (attempt) => {
      await storeAll(tx, opened, attempt);
      return true;
    },
    [Symbol.asyncDispose]: async () => await transaction[Symbol.asyncDispose](),
  };
}

/** Another process that publishes the same number waits for this transaction, or this one for that. */
async function takeNumber(tx: Tx, insert: () => Promise<unknown>): Promise<boolean> {
  tx.put(`SELECT set_config('lock_timeout', '1h', true)`);
  try {
    await insert();
  } catch (error) {
    if (codeOf(error) === '23505') return false;
    throw error;
  }
  tx.put(`SELECT set_config('lock_timeout', '5s', true)`);
  return true;
}

/**
 * If the answer is lost, asks the server whether the publication was stored. If it is not visible there, it counts as
 * failed: the next publication follows the state that it finds.
 */
async function storeAll(tx: Session, { server, at }: Opened, attempt: string | null): Promise<void> {
  try {
    tx.put('COMMIT');
    await tx.sent();
  } catch (error) {
    if (attempt === null || failingOf(error) !== 'connection') throw error;
    const ask = `SELECT 1 AS one FROM ${at}_publications WHERE attempt = :attempt::uuid`;
    const found = await server.whileAway(
      async () => await server.read(async (later) => await later.first(ask, { attempt })),
    );
    if (found === undefined) throw error;
  }
}

/**
 * Statements go through whole tables, so they have no time limit; a lock on a table keeps all others from it, so they
 * wait for one for a moment only. The server ends the session of a dead client, and an idle one after an hour.
 */
const settings = {
  ...valueSettings,
  statement_timeout: '0',
  lock_timeout: '5s',
  idle_in_transaction_session_timeout: '1h',
  synchronous_commit: 'on',
  ...keepalives,
};

/**
 * A transaction on a separate connection. Disposed without `COMMIT`, nothing of it is stored. When the signal is
 * aborted the connection ends, and so does what waits for an answer.
 */
async function openTransaction(server: Server, kind: 'write' | 'read', signal: AbortSignal) {
  signal.throwIfAborted();
  const client = await server.connect();
  const tx = txOn(client);
  const dispose = async (): Promise<void> => {
    signal.removeEventListener('abort', onAbort);
    tx.close();
    await client.end();
  };
  const onAbort = (): void => void dispose();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    // Each statement of a writer must see what was committed while it waited.
    tx.put(
      `BEGIN ISOLATION LEVEL ${kind === 'write' ? 'READ COMMITTED READ WRITE' : 'REPEATABLE READ READ ONLY'}`,
    );
    tx.put(settingSql(settings, 'transaction'));
    await tx.sent();
    return { tx, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/**
 * True if a target is in the schema. Throws `SyncError` TARGET_INCOMPATIBLE for a sink, a `_publications` of another
 * program, or half a target.
 */
async function isTargetThere(tx: Tx, schema: string, place: string): Promise<boolean> {
  const found = await tx.rows<{ readonly name: string; readonly columns: readonly string[] }>(
    `SELECT c.relname::text AS name, array(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS columns
     FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = :schema AND c.relname IN ('_sync_meta', '_publications', '_published_tables')`,
    { schema },
  );
  if (found.some(({ name }) => name === '_sync_meta')) {
    throw incompatible(
      place,
      'the schema holds a sink of connector-sync',
      'Name a schema for the publications alone.',
    );
  }
  if (found.length === 0) return false;
  const publications = found.find(({ name }) => name === '_publications');
  if (publications !== undefined && publications.columns.join() !== publicationColumns.join()) {
    throw incompatible(
      place,
      'the schema has a table _publications of another program or version',
      'Name another schema.',
    );
  }
  if (found.length === 2) return true;
  const missing = publications === undefined ? '_publications' : '_published_tables';
  throw incompatible(
    place,
    `the table ${missing} of its schema is gone`,
    'Restore that table from a backup, or name another schema.',
  );
}

/** Makes the schema and the target's own tables where they are not there. Several processes may do so at once. */
async function makeTarget(tx: Tx, schema: string, place: string): Promise<void> {
  await checkEncoding(tx, place);
  await tx.run('SELECT pg_advisory_xact_lock(hashtextextended(:lock, 0))', {
    lock: `connector-sync ${schema}`,
  });
  if (await isTargetThere(tx, schema, place)) return;
  // IF NOT EXISTS would ask for the right to make one, also where it is there.
  const known = await tx.rows('SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :schema', { schema });
  if (known.length === 0) tx.put(`CREATE SCHEMA ${quoted(schema)}`);
  for (const statement of ownTables(`${quoted(schema)}.`)) tx.put(statement);
}

/** A text has other characters than these encodings have. */
async function checkEncoding(tx: Tx, place: string): Promise<void> {
  const found = await tx.first<{ readonly encoding: string }>(
    `SELECT current_setting('server_encoding') AS encoding`,
  );
  if (found?.encoding === 'UTF8') return;
  throw incompatible(
    place,
    `the database is encoded as ${found?.encoding}`,
    "Create one with ENCODING 'UTF8'.",
  );
}

/**
 * Runs `work`. Its failure is thrown as `toTargetError` converts it, or as the signal's reason once that is aborted.
 */
async function asked<Result>(
  { place, signal }: { readonly place: string; readonly signal: AbortSignal },
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    signal.throwIfAborted();
    throw toTargetError(error, place);
  }
}

function incompatible(place: string, found: string, advice: string): SyncError {
  return unusableTarget(`PostgreSQL at ${place}`, found, advice);
}

/**
 * Converts a failure of the server for the target at `place` to `SyncError` TARGET_FAILED, or TARGET_INCOMPATIBLE if a
 * person must change something in the schema. Other errors of this program are returned unchanged. The message has no
 * statement and no value.
 */
function toTargetError(error: unknown, place: string): unknown {
  const cause = error instanceof SyncError ? error.cause : error;
  if (error instanceof SyncError && !error.code.startsWith('SINK_')) return error;
  const code = codeOf(cause);
  const failing = failingOf(cause);
  const said = cause instanceof Error ? cause.message : String(cause);
  const about = { context: { place, cause: code === '' ? 'connection' : code }, cause };
  const at = `PostgreSQL at ${place}`;
  if (!isServerError(cause) && failing === 'other') {
    const problem = connectProblem(code, said);
    if (problem === null) return error;
    return new SyncError(`${at} ${problem}`, { code: 'TARGET_FAILED', recovery: 'stop', ...about });
  }
  // The detail of this error names objects, and no values.
  const dependents = isServerError(cause) && code === '2BP01' ? cause.detail?.split('\n') : [];
  dropValues(cause);
  const by = failing === 'connection' ? 'connection' : code;
  return failedError(`${at} failed (${[code, said, ...(dependents ?? [])].join('; ')})`, by, advices, about);
}

const advices: Advices = [
  [/^connection$/, 'Check the server and the network, and publish again.', 'retry'],
  [/^53/, 'Free disk space or memory there, and publish again.', 'retry'],
  [
    /^55P03$/,
    'It waited 5 s for a lock of another session on a table of the target: publish again when that transaction has ended.',
    'retry',
  ],
  [/^40/, 'Publish again.', 'retry'],
  [
    /^2BP01$/,
    'Views or other objects depend on a table or column that has to be replaced. Drop them, publish again, and make them again.',
    'stop',
    'TARGET_INCOMPATIBLE',
  ],
  [/^54/, 'Publish the connector of such rows to a target of another type.'],
  [/^28/, "Check the user and the password of the target's url."],
  [/^3D000$/, 'Create the database, or correct its name in the url.'],
  [
    /^42501$/,
    'Let the user create the schema (GRANT CREATE ON DATABASE ... TO ...), or make it the owner of the schema and of its tables.',
  ],
  [/^42809$/, 'Rename or drop what stands in its place, and publish again.'],
  [/^23/, 'If a constraint or an index was added to a table of the target, drop it, and publish again.'],
  [/^42/, 'If tables of the target were changed, undo that, or publish with --new-generation.'],
  [/^/, 'Check the server and its log.'],
];

/** Null where there is no such table or view. */
async function typesThere(tx: Tx, table: string): Promise<ReadonlyMap<string, string> | null> {
  const columns = await tx.rows<{ readonly name: string | null; readonly type: string }>(
    `SELECT a.attname::text AS name,
       CASE WHEN a.attgenerated <> '' OR a.attidentity = 'a' THEN 'generated ' ELSE '' END || format_type(a.atttypid, NULL) AS type
     FROM (SELECT to_regclass(:table) AS id) AS t
     LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.id AND a.attnum > 0 AND NOT a.attisdropped
     WHERE t.id IS NOT NULL ORDER BY a.attnum`,
    { table },
  );
  if (columns.length === 0) return null;
  return new Map(
    columns.flatMap(({ name, type }): [string, string][] =>
      name === null ? [] : [[name, type.replace('timestamp with time zone', 'timestamptz')]],
    ),
  );
}

/** Whether the table has an index that can tell where a row conflicts: a unique one on the key alone, at once. */
async function isKeyed(tx: Tx, table: string, key: readonly string[]): Promise<boolean> {
  const indexes = await tx.rows<{ readonly columns: readonly string[] }>(
    `SELECT array(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
         WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:(i.indnkeyatts - 1)])) AS columns
     FROM pg_catalog.pg_index AS i WHERE i.indrelid = to_regclass(:table)
       AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL`,
    { table },
  );
  return indexes.some(({ columns }) => columns.toSorted().join() === key.toSorted().join());
}

/** Columns that a deletion changes. */
const markColumns: readonly string[] = ownColumns
  .map(({ name }) => quoted(name))
  .filter((name) => name !== '"_extra"');

/** Puts records into a table of these columns. A deleted one has the key alone: nothing else is sure to be there. */
function copyInto(table: string, shape: PlannedEntity): (tx: Tx, records: readonly StoredRecord[]) => void {
  const { columns, key } = shape;
  const types = columnsOf(shape).map(({ type }) => type);
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

/**
 * Throws `SyncError` TARGET_INCOMPATIBLE where the table takes other rows than it is given. `stage`: the table with the
 * changes, as statements name it.
 */
async function mergeRows(
  { db: tx, sqlName, incompatible }: PostgresTables,
  deletes: PostgresPlace['deletes'],
  plan: TablePlan,
  entity: PlannedEntity,
  stage: string,
): ReturnType<Stage['merge']> {
  const table = sqlName(entity);
  await keepNewest(tx, stage, entity.key);
  const same = sameKey(entity.key);
  const change = await countChange(tx, `${stage} AS s LEFT JOIN ${table} AS t ON ${same}`);
  const key = entity.key.map(quoted);
  // With the collation of the primary key: an index that was added by hand, for which more keys are equal, then
  // reports another conflict.
  const conflict = entity.columns
    .filter(({ name }) => entity.key.includes(name))
    .map(({ name, type }) => `${quoted(name)}${type === 'string' ? ' COLLATE "C"' : ''}`)
    .join(', ');
  /** Gives how many rows the table took. */
  const upsert = async (columns: readonly string[], which: string): Promise<number> => {
    const set = columns.filter((column) => !key.includes(column));
    return await tx.run(
      `INSERT INTO ${table} AS t (${columns.join(', ')}) SELECT ${columns.join(', ')} FROM ${stage} WHERE ${which}
       ON CONFLICT (${conflict}) DO UPDATE SET ${set.map((column) => `${column} = excluded.${column}`).join(', ')} WHERE t._seq < excluded._seq`,
    );
  };
  const upserted = await upsert(namesOf(entity), 'NOT _deleted');
  const deleted =
    deletes === 'mark'
      ? await upsert([...key, ...markColumns], '_deleted')
      : await tx.run(
          `DELETE FROM ${table} AS t USING ${stage} AS s WHERE s._deleted AND t._seq < s._seq AND ${same}`,
        );
  const expected = change.upserts + (deletes === 'mark' ? change.deletes : change.deletesOfKnown);
  if (upserted + deleted !== expected) {
    throw incompatible(
      `its table ${plan.name} took ${upserted + deleted} of ${expected} changed rows`,
      'Remove the trigger or rule that keeps rows out of it, then publish again.',
    );
  }
  return {
    live: plan.before.live + change.upserts - change.liveBefore,
    deleted: plan.before.deleted + (deletes === 'mark' ? change.deletes : 0) - change.deletedBefore,
  };
}

const noChange = { upserts: 0, deletes: 0, deletesOfKnown: 0, liveBefore: 0, deletedBefore: 0 };

/**
 * Counts the changes that `mergeRows` will make: of rows that the table does not have, or has in an older state; the
 * last three of those that it has, as live or as deleted. `joined`: the rows of the stage, `s`, with those that the
 * table has, `t`.
 */
async function countChange(tx: Tx, joined: string): Promise<typeof noChange> {
  const change = await tx.first<typeof noChange>(
    `SELECT count(*) FILTER (WHERE NOT s._deleted) AS upserts, count(*) FILTER (WHERE s._deleted) AS deletes,
       count(*) FILTER (WHERE s._deleted AND t._seq IS NOT NULL) AS deletes_of_known,
       count(*) FILTER (WHERE NOT t._deleted) AS live_before, count(*) FILTER (WHERE t._deleted) AS deleted_before
     FROM ${joined} WHERE t._seq IS NULL OR t._seq < s._seq`,
  );
  return change ?? noChange;
}

/**
 * Keeps indexes and other objects that others have added to the table, and throws `SyncError` TARGET_INCOMPATIBLE if
 * they keep rows. TRUNCATE would show an empty table to readers of an earlier state.
 */
async function emptyTable({ db: tx, incompatible }: PostgresTables, name: string, table: string) {
  tx.put(`DELETE FROM ${table}`);
  if ((await tx.first(`SELECT 1 AS one FROM ${table} LIMIT 1`)) === undefined) return;
  throw incompatible(
    `its table ${name} kept rows that were deleted`,
    'Remove the trigger or rule that keeps them, then publish again.',
  );
}

/** Statements that give others the rights again that they have on the table. */
async function grantsOn(tx: Tx, table: string): Promise<readonly string[]> {
  const rows = await tx.rows<{ readonly grant: string }>(
    `SELECT format('GRANT %s ON %s TO %s%s', a.privilege_type, :table::text,
         CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
         CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) AS grant
     FROM pg_catalog.pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
     WHERE c.oid = to_regclass(:table::text) AND a.grantee <> c.relowner`,
    { table },
  );
  return rows.map(({ grant }) => grant);
}
