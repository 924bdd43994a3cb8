import { randomUUID } from 'node:crypto';
import { instant } from '../../core/clock.ts';
import { type ErrorCode, type Recovery, SyncError } from '../../core/errors.ts';
import { type Manifest, manifestText, readManifest } from '../manifest.ts';
import {
  checkTables,
  keepNewest,
  lostTables,
  planTable,
  publicationsOf,
  sameKey,
  tablePublications,
  writeChanges,
  type EntityName,
  type GivenShape,
  type TablePlan,
  type TargetTables,
} from '../tables/target-tables.ts';
import {
  nothingChecked,
  type OpenPublication,
  type PlannedEntity,
  type PrunedTarget,
  type Target,
} from '../target.ts';
import type { PublishPlace } from '../../settings/settings.ts';
import { binaryType, sqlType, tableName } from '../../sinks/postgres/column-types.ts';
import type { StoredRecord } from '../../sinks/readings.ts';
import { keepalives } from '../../sql/postgres/connections.ts';
import { type BinaryType, type BinaryValue, encodeRows } from '../../sql/postgres/encode-binary.ts';
import {
  codeOf,
  connectProblem,
  dropValues,
  failingOf,
  isServerError,
} from '../../sql/postgres/postgres-error.ts';
import { openServer, type Server } from '../../sql/postgres/server.ts';
import { type PostgresTx as Tx, type Session, settingSql, txOn } from '../../sql/postgres/session.ts';
import { CertificateError } from '../../sql/postgres/tls.ts';
import { valueSettings } from '../../sql/postgres/transaction-settings.ts';
import { quoted } from '../../sql/database.ts';

/**
 * Converts a failure of the server for the target at `place` to `SyncError` TARGET_FAILED, or TARGET_INCOMPATIBLE if a
 * person must change something in the schema. Other errors of this program are returned unchanged. The message has no
 * statement and no value.
 */
export function toTargetError(error: unknown, place: string): unknown {
  const cause = error instanceof SyncError || error instanceof CertificateError ? error.cause : error;
  if (error instanceof SyncError && !error.code.startsWith('SINK_')) return error;
  const code = codeOf(cause);
  const failing = failingOf(cause);
  const said = cause instanceof Error ? cause.message : String(cause);
  const at = `PostgreSQL at ${place}`;
  const made = (text: string, recovery: Recovery, kind: ErrorCode = 'TARGET_FAILED'): SyncError => {
    const context = { place, cause: code === '' ? 'connection' : code };
    return new SyncError(`${at} ${text}`, { code: kind, recovery, context, cause });
  };
  if (!isServerError(cause) && failing === 'other') {
    const problem = connectProblem(code, said);
    return problem === null ? error : made(problem, 'stop');
  }
  // The detail of this error names objects, and no values.
  const dependents = isServerError(cause) && code === '2BP01' ? cause.detail?.split('\n') : [];
  dropValues(cause);
  if (code === '53100' || code === '53200') {
    const what = code === '53100' ? 'disk space' : 'memory';
    return made(
      `has no ${what} left; nothing of this publication is there. Free some and publish again.`,
      'retry',
    );
  }
  if (code === '55P03') {
    return made(
      'has a lock of another session on a table of the target (for longer than 5 s); nothing of this publication is there. Publish again when that transaction has ended.',
      'retry',
    );
  }
  if (code === '2BP01') {
    return made(
      `has views or other objects on a table, or on a column of it, that has to be replaced (${[said, ...(dependents ?? [])].join('; ')}). Drop them, publish again, and make them again.`,
      'stop',
      'TARGET_INCOMPATIBLE',
    );
  }
  if (failing !== 'other') {
    return made(
      `cannot be reached or is too busy (${said}). Check the server and the network, and publish again.`,
      'retry',
    );
  }
  return made(`refused (${code}: ${said}). ${adviceOf(code)}`, 'stop');
}

function adviceOf(code: string): string {
  if (code.startsWith('28')) return "Check the user and the password of the target's url.";
  if (code === '3D000') return 'Create the database, or correct its name in the url.';
  if (code === '42501') {
    return 'Let the user create the schema (GRANT CREATE ON DATABASE ... TO ...), or make it the owner of the schema and of its tables.';
  }
  if (code === '42809') return 'Rename or drop what stands in its place, and publish again.';
  if (code === '42P16') return 'Drop that view, and publish again.';
  if (code.startsWith('23')) {
    return 'If a constraint or an index was added to a table of the target, drop it, and publish again.';
  }
  if (code.startsWith('42')) {
    return 'If tables of the target were changed, undo that, or publish with --new-generation.';
  }
  return 'Check the server and its log.';
}

/**
 * Runs `work`. Its failure is thrown as `toTargetError` converts it, or as the signal's reason once that is aborted.
 */
export async function asked<Result>(
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

export function incompatible(place: string, found: string, advice: string): SyncError {
  return new SyncError(`PostgreSQL at ${place} cannot be used as a target: ${found}. ${advice}`, {
    code: 'TARGET_INCOMPATIBLE',
    recovery: 'stop',
    context: { place },
  });
}

type Shape = Pick<PlannedEntity, 'columns' | 'key'>;

/** Columns of a row that are not published ones; no published name begins with `_`. */
const ownColumns: readonly (readonly [name: string, sql: string, type: BinaryType])[] = [
  ['_extra', 'json', 'json'],
  ['_seq', 'bigint NOT NULL', 'bigint'],
  ['_changed_at', 'timestamptz NOT NULL', 'timestamptz'],
  ['_run_id', 'text COLLATE "C" NOT NULL', 'text'],
  ['_deleted', 'boolean NOT NULL', 'boolean'],
  ['_deleted_at', 'timestamptz', 'timestamptz'],
];

/** Columns that a deletion changes. */
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

/** Puts records into a table of these columns. A deleted one has the key alone: nothing else is sure to be there. */
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
  /** Plain columns of the index. */
  readonly columns: readonly string[];
  /** Columns and expressions of the index, as the server writes them. */
  readonly parts: readonly string[];
}

/** Indexes that can tell where a row conflicts; no other kind can. */
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
 * The expression for a text of a key that may be long. An upsert would not find its conflicts by another expression.
 */
const hashOfText = /^sha256\(decode\(replace\(.+, E?'\\+'::text, E?'\\+'::text\), 'escape'::text\)\)$/;

function isOnKey({ columns, parts }: UniqueIndex, { key, hasLongKeys }: GivenShape): boolean {
  if (parts.length !== key.length || !columns.every((name) => key.includes(name))) return false;
  const hashed = parts.filter((part) => hashOfText.test(part)).length;
  return hasLongKeys ? hashed > 0 && columns.length + hashed === key.length : columns.length === key.length;
}

/** The changes of an entity, in a table of the transaction. */
export interface Staged {
  readonly plan: TablePlan;
  readonly entity: PlannedEntity;
  /** As statements name the table with the changes. */
  readonly stage: string;
  readonly rows: number;
}

/** An entry of an index has room for a third of a page; longer texts of keys are compared by their hashes. */
const mostKeyBytes = 2_000;

/**
 * Brings staged changes into the table of their entity, which has its columns already: the newest `_seq` of each key
 * wins. Counts its rows. Throws `SyncError` TARGET_INCOMPATIBLE where the table takes other rows than it is given.
 */
export async function mergeRows(
  { db: tx, at, sqlName, incompatible }: PostgresTables,
  deletes: 'mark' | 'remove',
  { plan, entity, stage }: Staged,
): Promise<void> {
  const table = sqlName(entity);
  const { connector, entity: name } = entity;
  const isFresh = plan.kind === 'make' || plan.kind === 'replace';
  await keepNewest(tx, stage, entity.key);
  const hasLongKeys = plan.hasLongKeys || (await isAnyKeyLong(tx, stage, entity));
  const texts = textKeys(entity);
  const ofText = hasLongKeys ? hashedText : plainText;
  const unique = entity.key.map((one) => (texts.includes(one) ? ofText(quoted(one)) : quoted(one)));
  if (!isFresh && hasLongKeys && !plan.hasLongKeys) await dropPrimaryKey(tx, table);
  if (isFresh || (hasLongKeys && !plan.hasLongKeys)) {
    tx.put(
      hasLongKeys
        ? `CREATE UNIQUE INDEX ON ${table} (${unique.map((part) => `(${part})`).join(', ')})`
        : `ALTER TABLE ${table} ADD PRIMARY KEY (${entity.key.map(quoted).join(', ')})`,
    );
  }
  const same = sameKey(entity.key);
  const change = await countChange(tx, `${stage} AS s LEFT JOIN ${table} AS t ON ${same}`);
  const key = entity.key.map(quoted);
  const conflict = unique.map((part) => (part.startsWith('"') ? part : `(${part})`)).join(', ');
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
  await tx.run(
    `UPDATE ${at}_published_tables SET has_long_keys = :hasLongKeys, live_rows = live_rows + :live,
       deleted_rows = deleted_rows + :deleted WHERE connector = :connector AND entity = :name`,
    {
      connector,
      name,
      hasLongKeys,
      live: change.upserts - change.liveBefore,
      deleted: (deletes === 'mark' ? change.deletes : 0) - change.deletedBefore,
    },
  );
}

async function isAnyKeyLong(tx: Tx, stage: string, entity: PlannedEntity): Promise<boolean> {
  const texts = textKeys(entity);
  if (texts.length === 0) return false;
  const bytes = texts.map((name) => `octet_length(${quoted(name)})`).join(' + ');
  return (await tx.rows(`SELECT 1 FROM ${stage} WHERE ${bytes} > ${mostKeyBytes} LIMIT 1`)).length > 0;
}

function textKeys({ columns, key }: PlannedEntity): readonly string[] {
  return key.filter((name) => columns.some((column) => column.name === name && column.type === 'string'));
}

/**
 * With the collation of the primary key: an index that was added by hand, for which more keys are equal, then reports
 * another conflict.
 */
function plainText(name: string): string {
  return `${name} COLLATE "C"`;
}

/**
 * An index wants functions that depend on nothing: `convert_to` would not do. A conflict is found by the same
 * expressions.
 */
function hashedText(name: string): string {
  return `sha256(decode(replace(${name}, E'\\\\', E'\\\\\\\\'), 'escape'))`;
}

async function dropPrimaryKey(tx: Tx, table: string): Promise<void> {
  const found = await tx.first<{ readonly name: string }>(
    `SELECT conname::text AS name FROM pg_catalog.pg_constraint WHERE conrelid = to_regclass(:table) AND contype = 'p'`,
    { table },
  );
  if (found !== undefined) tx.put(`ALTER TABLE ${table} DROP CONSTRAINT ${quoted(found.name)}`);
}

interface Change {
  /** Rows that the table does not have, or has in an older state. */
  readonly upserts: number;
  readonly deletes: number;
  /** Deletes of rows that the table has. */
  readonly deletesOfKnown: number;
  /** Rows among all of these that the table has as live, and as deleted. */
  readonly liveBefore: number;
  readonly deletedBefore: number;
}

/**
 * Counts the changes that `mergeRows` will make. `joined`: the rows of the stage, `s`, with those that the table has,
 * `t`.
 */
async function countChange(tx: Tx, joined: string): Promise<Change> {
  const change = await tx.first<Change>(
    `SELECT count(*) FILTER (WHERE NOT s._deleted) AS upserts, count(*) FILTER (WHERE s._deleted) AS deletes,
       count(*) FILTER (WHERE s._deleted AND t._seq IS NOT NULL) AS deletes_of_known,
       count(*) FILTER (WHERE NOT t._deleted) AS live_before, count(*) FILTER (WHERE t._deleted) AS deleted_before
     FROM ${joined} WHERE t._seq IS NULL OR t._seq < s._seq`,
  );
  return change ?? { upserts: 0, deletes: 0, deletesOfKnown: 0, liveBefore: 0, deletedBefore: 0 };
}

/** Changes the table as planned. A lock that keeps all others from it lasts until the end of the transaction. */
export async function shapeTable(
  tables: PostgresTables,
  plan: TablePlan,
  entity: PlannedEntity,
): Promise<void> {
  const { db: tx, at } = tables;
  const { kind, name } = plan;
  const table = tables.sqlName(entity);
  const view = `${name}_current`;
  const isFresh = kind === 'make' || kind === 'replace';
  // A view keeps the columns that it has from going.
  const isViewAnew = isFresh || plan.dropped.length > 0;
  const grants = isViewAnew ? await grantsOn(tx, at, [name, view]) : [];
  if (isFresh) await dropView(tx, at, name);
  if (isViewAnew) await dropView(tx, at, view);
  if (kind === 'replace') tx.put(`DROP TABLE IF EXISTS ${table}`);
  if (isFresh) tx.put(`CREATE TABLE ${table} (${columnsSql(entity)})`);
  else await alterTable(tables, table, plan);
  await note(tx, at, plan, entity);
  if (isViewAnew || kind === 'empty' || plan.added.length > 0) await makeView(tx, at, plan, view);
  for (const grant of grants) tx.put(grant);
}

/**
 * Keeps indexes and other objects that others have added to the table, and throws `SyncError` TARGET_INCOMPATIBLE if
 * they keep rows. TRUNCATE would show an empty table to readers of an earlier state.
 */
async function alterTable(
  { db: tx, incompatible }: PostgresTables,
  table: string,
  { kind, name, dropped, added }: TablePlan,
): Promise<void> {
  if (kind === 'empty') {
    tx.put(`DELETE FROM ${table}`);
    if ((await tx.first(`SELECT 1 AS one FROM ${table} LIMIT 1`)) !== undefined) {
      throw incompatible(
        `its table ${name} kept rows that were deleted`,
        'Remove the trigger or rule that keeps them, then publish again.',
      );
    }
  }
  const changes = [
    ...dropped.map((name) => `DROP COLUMN IF EXISTS ${quoted(name)}`),
    ...added.map(({ name, type }) => `ADD COLUMN ${quoted(name)} ${sqlType[type]}`),
  ];
  if (changes.length > 0) tx.put(`ALTER TABLE ${table} ${changes.join(', ')}`);
}

async function note(tx: Tx, at: string, plan: TablePlan, entity: PlannedEntity): Promise<void> {
  await tx.run(
    `INSERT INTO ${at}_published_tables AS t
       (connector, entity, table_name, generation, key, columns, has_long_keys, live_rows, deleted_rows)
     VALUES (:connector, :entity, :table, :generation, :key, :columns, :hasLongKeys, 0, 0)
     ON CONFLICT (connector, entity) DO UPDATE SET generation = excluded.generation, key = excluded.key, columns = excluded.columns,
       has_long_keys = excluded.has_long_keys, live_rows = CASE WHEN :isKept THEN t.live_rows ELSE 0 END,
       deleted_rows = CASE WHEN :isKept THEN t.deleted_rows ELSE 0 END`,
    {
      connector: entity.connector,
      entity: entity.entity,
      table: plan.name,
      generation: entity.generation,
      key: JSON.stringify(entity.key),
      columns: JSON.stringify(plan.columns),
      hasLongKeys: plan.hasLongKeys,
      isKept: plan.kind === 'keep',
    },
  );
}

/**
 * Rows that are not deleted, without what this program has added. Columns that come later stand behind the others, as a
 * view can only have them.
 */
async function makeView(tx: Tx, at: string, { name, columns }: TablePlan, view: string): Promise<void> {
  if (await isOthersView(tx, at, { name, columns }, view)) {
    await forgetView(tx, at, view);
    return;
  }
  const marked = await tx.run(
    `UPDATE ${at}_published_tables SET view_name = :view WHERE table_name = :name AND (view_name = :view OR to_regclass(:at || quote_ident(:view)) IS NULL)`,
    { name, view, at },
  );
  if (marked === 0) return;
  const shown = columns.map((column) => quoted(column.name)).join(', ');
  tx.put(
    `CREATE OR REPLACE VIEW ${at}${quoted(view)} AS SELECT ${shown} FROM ${at}${quoted(name)} WHERE NOT _deleted`,
  );
}

/**
 * Something else was put in the place of the view: it cannot become ours by columns that are added to it.
 */
async function isOthersView(
  tx: Tx,
  at: string,
  { name, columns }: Pick<TablePlan, 'name' | 'columns'>,
  view: string,
): Promise<boolean> {
  const there = await tx.rows<{ readonly name: string; readonly isSame: boolean }>(
    `SELECT v.attname::text AS name, c.relkind = 'v' AND t.attnum IS NOT NULL AS is_same
     FROM pg_catalog.pg_attribute AS v JOIN pg_catalog.pg_class AS c ON c.oid = v.attrelid
     LEFT JOIN pg_catalog.pg_attribute AS t ON t.attrelid = to_regclass(:at || quote_ident(:name)) AND t.attname = v.attname
       AND t.atttypid = v.atttypid AND t.attcollation = v.attcollation AND NOT t.attisdropped
     WHERE c.oid = to_regclass(:at || quote_ident(:view)) AND v.attnum > 0 AND NOT v.attisdropped ORDER BY v.attnum`,
    { at, name, view },
  );
  return !there.every((one, index) => one.isSame && one.name === columns[index]?.name);
}

/** Drops only a view that was made here. */
async function dropView(tx: Tx, at: string, view: string): Promise<void> {
  if ((await forgetView(tx, at, view)) > 0) tx.put(`DROP VIEW IF EXISTS ${at}${quoted(view)}`);
}

async function forgetView(tx: Tx, at: string, view: string): Promise<number> {
  return await tx.run(`UPDATE ${at}_published_tables SET view_name = NULL WHERE view_name = :view`, { view });
}

/** Statements that give others the rights again that they have on these. */
async function grantsOn(tx: Tx, at: string, names: readonly string[]): Promise<readonly string[]> {
  const rows = await tx.rows<{ readonly grant: string }>(
    `SELECT format('GRANT %s ON %I.%I TO %s%s', a.privilege_type, n.nspname, c.relname,
         CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
         CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) AS grant
     FROM unnest(:names::text[]) AS given(name) JOIN pg_catalog.pg_class AS c ON c.oid = to_regclass(:at || quote_ident(given.name))
     JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) AS a
     WHERE a.grantee <> c.relowner`,
    { names, at },
  );
  return rows.map(({ grant }) => grant);
}

interface TableTarget {
  readonly server: Server;
  /** The schema, quoted, with the point behind it. */
  readonly at: string;
  readonly deletes: 'mark' | 'remove';
  readonly signal: AbortSignal;
}

/**
 * One transaction: rows come into temporary tables, which lock nothing that others use, and only `commit` touches the
 * tables of the target. A publisher that is killed leaves nothing.
 */
export async function openTablePublication(target: TableTarget): Promise<OpenPublication> {
  const { server, at, deletes, signal } = target;
  const how = { place: server.place, signal };
  const transaction = await openTransaction(server, 'write', signal);
  const { tx } = transaction;
  const tables = postgresTables(tx, at, server.place);
  const staged: Staged[] = [];
  return {
    write: async (entity, rows) =>
      await asked(how, async () => {
        const plan = await planTable(tables, entity);
        const name = `stage_${staged.length + 1}`;
        const stage = `pg_temp.${name}`;
        const copy = copyInto(stage, entity);
        tx.put(`CREATE TEMPORARY TABLE ${name} (${columnsSql(entity)}) ON COMMIT DROP`);
        const written = await writeChanges(rows, async (records) => {
          copy(tx, records);
          await tx.sent();
        });
        staged.push({ plan, entity, stage, rows: written.upserts + written.deletes });
        return written;
      }),
    commit: async (manifest) =>
      await asked(how, async () => {
        const attempt = randomUUID();
        if (!(await takeNumber(tables, manifest, attempt))) return 'taken';
        for (const one of staged) {
          if (one.rows === 0 && one.plan.kind === 'keep' && one.plan.added.length === 0) continue;
          await shapeTable(tables, one.plan, one.entity);
          await mergeRows(tables, deletes, one);
        }
        await storeAll(tx, target, attempt);
        return 'published';
      }),
    [Symbol.asyncDispose]: async () => await transaction[Symbol.asyncDispose](),
  };
}

/**
 * Inserts the row with the number first: another process that publishes the same number waits for this transaction, or
 * this one for that. False: the number is taken, or the newest publication is not the one that the manifest follows.
 */
async function takeNumber(tables: PostgresTables, manifest: Manifest, attempt: string): Promise<boolean> {
  const { db: tx, at } = tables;
  const [newest] = await publicationsOf(tables, null, 1);
  const { previous, publication: number } = manifest;
  if ((newest?.number ?? 0) !== (previous?.publication ?? 0)) return false;
  if (newest?.sha256 !== previous?.sha256) return false;
  const text = manifestText(manifest);
  const { sha256 } = readManifest(text);
  tx.put(`SELECT set_config('lock_timeout', '1h', true)`);
  try {
    await tx.run(
      `INSERT INTO ${at}_publications (number, created_at, manifest, sha256, attempt)
       VALUES (:number, :createdAt::timestamptz, :manifest, :sha256, :attempt::uuid)`,
      { number, createdAt: manifest.createdAt, manifest: Buffer.from(text), sha256, attempt },
    );
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
async function storeAll(tx: Session, { server, at }: TableTarget, attempt: string): Promise<void> {
  try {
    tx.put('COMMIT');
    await tx.sent();
  } catch (error) {
    if (failingOf(error) !== 'connection') throw error;
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
export async function openTransaction(server: Server, kind: 'write' | 'read', signal: AbortSignal) {
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
 * The tables of the target's own. `_publications`: the number is given once, which makes a publication happen exactly
 * once. `_published_tables`: each entity's table, the columns and the key that it was given, and how many rows it
 * should have.
 */
function schemaSql(at: string): readonly string[] {
  return [
    `CREATE TABLE ${at}_publications (
       number bigint PRIMARY KEY,
       created_at timestamptz NOT NULL,
       manifest json NOT NULL,
       sha256 text COLLATE "C" NOT NULL,
       attempt uuid NOT NULL)`,
    `CREATE TABLE ${at}_published_tables (
       connector text COLLATE "C" NOT NULL,
       entity text COLLATE "C" NOT NULL,
       table_name text COLLATE "C" NOT NULL UNIQUE,
       view_name text COLLATE "C",
       generation bigint NOT NULL,
       key json NOT NULL,
       columns json NOT NULL,
       has_long_keys boolean NOT NULL,
       live_rows bigint NOT NULL,
       deleted_rows bigint NOT NULL,
       PRIMARY KEY (connector, entity))`,
  ];
}

const publicationColumns = ['number', 'created_at', 'manifest', 'sha256', 'attempt'];

/**
 * True if a target is in the schema. Throws `SyncError` TARGET_INCOMPATIBLE for a sink, a `_publications` of another
 * program, or half a target.
 */
export async function isTargetThere(tx: Tx, schema: string, place: string): Promise<boolean> {
  const found = await tx.rows<{ readonly name: string; readonly columns: readonly string[] }>(
    `SELECT c.relname::text AS name, array(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
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
  if (
    publications !== undefined &&
    !publicationColumns.every((name) => publications.columns.includes(name))
  ) {
    throw incompatible(
      place,
      'the schema has a table _publications of another program',
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
export async function makeTarget(tx: Tx, schema: string, place: string): Promise<void> {
  await checkEncoding(tx, place);
  await tx.run('SELECT pg_advisory_xact_lock(hashtextextended(:lock, 0))', {
    lock: `connector-sync ${schema}`,
  });
  if (await isTargetThere(tx, schema, place)) return;
  // IF NOT EXISTS would ask for the right to make one, also where it is there.
  const known = await tx.rows('SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :schema', { schema });
  if (known.length === 0) tx.put(`CREATE SCHEMA ${quoted(schema)}`);
  for (const statement of schemaSql(`${quoted(schema)}.`)) tx.put(statement);
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

export type PostgresPlace = Extract<PublishPlace, { readonly type: 'postgres' }>;

/**
 * Tables in a schema of PostgreSQL that show the newest publication. Nothing is asked of the server before it is
 * needed.
 */
export function openPostgresTarget(
  { connection, schema, deletes }: PostgresPlace,
  signal: AbortSignal,
): Target {
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
  const at = `${quoted(schema)}.`;
  const how = { place, signal };
  /** In one state; `otherwise` where no target is there yet. */
  const read = async <Result>(otherwise: Result, work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await asked(
      how,
      async () =>
        await server.read(async (tx) =>
          (await isTargetThere(tx, schema, place)) ? await work(tx) : otherwise,
        ),
    );
  return {
    ...tablePublications(
      async (first, limit) =>
        await read([], async (tx) => await publicationsOf({ db: tx, at }, first, limit)),
      (found, advice) => incompatible(place, found, advice),
    ),
    lost: async (_newest, entities) =>
      await read([], async (tx) => await lostTables(postgresTables(tx, at, place), entities)),
    begin: async () =>
      await asked(how, async () => {
        const isThere = await server.read(async (tx) => await isTargetThere(tx, schema, place));
        if (!isThere) await server.transact(async (tx) => await makeTarget(tx, schema, place));
        return await openTablePublication({ server, at, deletes, signal });
      }),
    probe: async () =>
      await asked(how, async () => {
        await using transaction = await openTransaction(server, 'write', signal);
        await makeTarget(transaction.tx, schema, place);
        await transaction.tx.run(
          `INSERT INTO ${at}_publications (number, created_at, manifest, sha256, attempt)
           VALUES (-1, now(), '{}', '', gen_random_uuid())`,
        );
      }),
    check: async (until) => {
      const either = AbortSignal.any([signal, until]);
      return await asked({ place, signal: either }, async () => {
        await using transaction = await openTransaction(server, 'read', either);
        const { tx } = transaction;
        if (!(await isTargetThere(tx, schema, place))) return nothingChecked;
        return { files: 0, ...(await checkTables(postgresTables(tx, at, place))) };
      });
    },
    prune: async (keepFromMs, isDryRun) => {
      const nothing: PrunedTarget = { publications: 0, files: 0, bytes: 0, waiting: { files: 0, bytes: 0 } };
      if (keepFromMs === null) return nothing;
      const old = `FROM ${at}_publications AS p WHERE EXISTS (SELECT 1 FROM ${at}_publications AS later
        WHERE later.number > p.number AND later.created_at < :keepFrom::timestamptz)`;
      const values = { keepFrom: instant(keepFromMs) };
      const found = await read([], async (tx) => await tx.rows(`SELECT p.number ${old}`, values));
      if (isDryRun || found.length === 0) return { ...nothing, publications: found.length };
      const removed = await asked(
        how,
        async () => await server.transact(async (tx) => await tx.run(`DELETE ${old}`, values)),
      );
      return { ...nothing, publications: removed };
    },
    [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose](),
  };
}
