import { SyncError } from '../../core/errors.ts';
import type { Secret } from '../../core/secret.ts';
import { cellOf, columnOf, type Tx, quoted } from '../../sql/database.ts';
import { isServerError } from '../../sql/postgres/postgres-error.ts';
import { openQuerySession, type QuerySession, type TextRows } from '../../sql/postgres/run-query.ts';
import { openServer } from '../../sql/postgres/server.ts';
import { ledgerReader } from '../ledger/history/history.ts';
import {
  offeredViews,
  queryRefused,
  type OfferedTable,
  type OfferedView,
  type OnViews,
} from '../records/offered-views.ts';
import { openToRead, type PostgresPlace, toSinkError } from './postgres-schema.ts';
import { tableName } from './column-types.ts';
import type { CopiedView } from '../../sql/sqlite/query-copy.ts';

/** Role that runs the query. */
interface QueryRole {
  readonly user: string;
  readonly password: Secret | null;
}

interface ViewQuery extends AskedQuery {
  readonly place: PostgresPlace;
  readonly role: QueryRole;
  readonly offered: readonly OfferedTable[];
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

interface AskedQuery {
  /** Untrusted text of the query. */
  readonly sql: string;
  readonly limit: number;
  readonly offset: number;
  /** Longest value in characters. */
  readonly mostChars: number;
  readonly mostColumns: number;
}

/** The views of a sink that are offered. Throws `NoSinkYetError` where there is no sink. */
export async function listViews(place: PostgresPlace, offered: readonly OfferedTable[]) {
  const { db } = await openToRead(place);
  await using _db = db;
  return await db.read((tx) => offeredViews(tx, offered, columnsOf));
}

/**
 * Answers a query over views of a sink with a role that may read these and nothing else. The sink's facts about them
 * are read in the same state. Values are texts of at most `mostChars` characters. Throws USAGE for a text that is no
 * query, SINK_FAILED where the role may do more, and the signal's reason: the server has ended the query then too.
 */
export async function queryViews<Facts>(
  { place, role, offered, signal, ...query }: ViewQuery,
  onViews: OnViews<Facts>,
): Promise<{ readonly facts: Facts; readonly found: TextRows }> {
  const { db, records } = await openToRead(place);
  await using _db = db;
  await using snapshot = await db.openSnapshot(signal);
  const views = await snapshot.read((tx) => offeredViews(tx, offered, columnsOf));
  const state = await snapshot.read((tx) => cellOf<string>(tx, 'SELECT pg_export_snapshot()'));
  await using server = openServer({
    ...place,
    connection: { ...place.connection, ...role },
    direct: place.direct && { ...place.direct, ...role },
    connections: 1,
    explain: toSinkError,
    durability: 'full',
  });
  const { schema } = place;
  await using session = await openQuerySession({
    connect: async () => await server.connect(),
    schema,
    state: state ?? '',
    timeoutMs: query.timeoutMs,
    signal,
  }).catch((error: unknown) => {
    throw toSinkError(error, `${server.place} as ${role.user}`);
  });
  const beyond = await beyondViews(session, schema, views);
  if (beyond.length > 0) throw roleCanDoMore(role, server.place, beyond);
  try {
    const found = await rowsOf(session, query);
    const facts = await onViews(
      await viewsRead(session, schema, views),
      ledgerReader(records, (work) => snapshot.read(work)),
    );
    return { facts, found };
  } catch (error) {
    if (!isServerError(error)) throw error;
    throw queryRefused(refusalText(error), views);
  }
}

async function columnsOf(tx: Tx, view: string): Promise<readonly string[]> {
  return await columnOf<string>(
    tx,
    `SELECT a.attname::text FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
     WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname = :view AND a.attnum > 0
       AND NOT a.attisdropped ORDER BY a.attnum`,
    { view },
  );
}

/**
 * Views whose tables the statements of the session have read: each holds a lock on them until its transaction ends. A
 * plan would show them too, but it contains constants of any length, and is sent as a whole.
 */
async function viewsRead(session: QuerySession, schema: string, views: readonly OfferedView[]) {
  const { rows } = await session.ask(
    `SELECT c.relname FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
     WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation'
       AND c.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1))`,
    [schema],
  );
  const tables = new Set(rows.flat());
  return views.filter(({ connector, entity }) => tables.has(tableName(connector, entity)));
}

async function rowsOf(session: QuerySession, { sql, limit, offset, mostChars, mostColumns }: AskedQuery) {
  const { columns } = await session.ask(`SELECT * FROM ${operand(sql)} LIMIT 0`);
  if (columns.length > mostColumns) {
    throw new SyncError(
      `sql: the query has ${columns.length} columns: expected ${mostColumns} at most. Name those that you need.`,
      { code: 'USAGE', recovery: 'stop' },
    );
  }
  const names = columns.map((_column, index) => `c${index}`);
  if (names.length === 0) return { columns, rows: [] };
  // The server cuts values: a value of a gigabyte would come as a whole otherwise.
  const values = names.map((name) => `left(${name}::text, ${mostChars})`).join(', ');
  const { rows } = await session.ask(
    `SELECT ${values} FROM ${operand(sql)} (${names.join(', ')}) LIMIT ${limit} OFFSET ${offset}`,
  );
  return { columns, rows };
}

/**
 * Encloses the text as an operand of a SELECT, where the server's grammar accepts a query, and no statement that
 * writes. A comment at the end of the text ends with its line.
 */
function operand(sql: string): string {
  return `(\n${sql.replace(/[;\s]+$/, '')}\n) AS ${quoted('query')}`;
}

/** An error of the server may quote a value of any length. */
const mostOfRefusal = 500;

function refusalText(error: Error): string {
  const code = 'code' in error ? error.code : '';
  if (code !== '42501') return error.message.slice(0, mostOfRefusal);
  return `${error.message}. Where columns are excluded, name the others instead of *; views that are new have to be granted (connector-sync mcp grant)`;
}

function roleCanDoMore({ user }: QueryRole, place: string, beyond: readonly string[]): SyncError {
  return new SyncError(
    `sql is refused: the role ${user} at ${place} ${beyond.join(', ')}. Expected a role that may read the shown views alone: "mcp grant" prints the SQL that makes one, and mcp.sqlUser names it.`,
    { code: 'SINK_FAILED', recovery: 'stop', context: { user } },
  );
}

/** Statements for a person who may create roles, and who sets the password. An existing role stays. */
export function makeRole(user: string): readonly string[] {
  const role = quoted(user);
  const rights = 'LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS';
  return [
    `DO $make$ BEGIN CREATE ROLE ${role} ${rights} CONNECTION LIMIT 8 PASSWORD 'choose one';`,
    `EXCEPTION WHEN duplicate_object THEN NULL; END $make$;`,
    `ALTER ROLE ${role} SET default_transaction_read_only = on;`,
    `ALTER ROLE ${role} SET statement_timeout = '60s';`,
  ];
}

/**
 * Statements that grant access to the views. They revoke earlier grants first: a column may have been excluded since.
 */
export function grantViews(user: string, schema: string, views: readonly OfferedView[]): readonly string[] {
  const [role, place] = [quoted(user), quoted(schema)];
  return [
    `REVOKE ALL ON ALL TABLES IN SCHEMA ${place} FROM ${role};`,
    `GRANT USAGE ON SCHEMA ${place} TO ${role};`,
    ...views.map(({ name, only, columns }) => {
      const shown = only === null ? '' : ` (${columns.map(quoted).join(', ')})`;
      return `GRANT SELECT${shown} ON ${place}.${quoted(name)} TO ${role};`;
    }),
  ];
}

const mostShown = 5;

/**
 * Rights of a session's role beyond reading these columns of the schema's views: a few of them, as texts. Empty: there
 * are none. Every role may read the server's catalogs.
 */
async function beyondViews(session: QuerySession, schema: string, views: readonly CopiedView[]) {
  const names = views.map(({ name }) => name);
  const columns = views.flatMap(({ name, columns: shown }) => shown.map((column) => `${name}.${column}`));
  const { rows } = await session.ask(beyondSql, [schema, names, columns]);
  return rows.flatMap(([what]) => (typeof what === 'string' ? [what] : []));
}

/**
 * Finds rights beyond the views. Functions count if they read files or the network (written in C, with results that may
 * change), if they run with the rights of their owner, or if they are server functions with explicit grants.
 */
const beyondSql = `
WITH me AS (SELECT * FROM pg_catalog.pg_roles WHERE rolname = session_user),
  spaces AS (SELECT oid, nspname FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_(toast|temp_|toast_temp_)'),
  open_spaces AS (SELECT * FROM spaces WHERE has_schema_privilege(oid, 'USAGE')),
  own AS (
    SELECT c.oid, c.relkind, c.relname::text AS name, n.nspname = $1 AND c.relname::text = ANY($2::text[]) AS is_shown,
      format('%I.%I', n.nspname, c.relname) AS place
    FROM pg_catalog.pg_class AS c JOIN open_spaces AS n ON n.oid = c.relnamespace
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')),
  functions AS (
    SELECT format('%I.%I', n.nspname, p.proname) AS place
    FROM pg_catalog.pg_proc AS p JOIN open_spaces AS n ON n.oid = p.pronamespace
      JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang
    WHERE CASE WHEN n.nspname = 'pg_catalog' THEN p.proacl IS NOT NULL
        ELSE p.prosecdef OR (NOT l.lanpltrusted AND l.lanname <> 'sql' AND p.provolatile <> 'i'
          AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
            WHERE d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid
              AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND e.extname = 'pg_trgm')) END
      AND has_function_privilege(p.oid, 'EXECUTE'))
SELECT what FROM (
  SELECT 1 AS n, 'is a superuser' AS what FROM me WHERE rolsuper
  UNION ALL SELECT 2, 'may make roles' FROM me WHERE rolcreaterole
  UNION ALL SELECT 2, 'may make databases' FROM me WHERE rolcreatedb
  UNION ALL SELECT 2, 'may replicate' FROM me WHERE rolreplication
  UNION ALL SELECT 2, 'reads rows past their policies' FROM me WHERE rolbypassrls
  UNION ALL SELECT 3, format('is a member of %I', r.rolname) FROM pg_catalog.pg_roles AS r
    WHERE r.rolname <> session_user AND pg_has_role(r.oid, 'MEMBER')
  UNION ALL SELECT 4, 'may make schemas' WHERE has_database_privilege(current_database(), 'CREATE')
  UNION ALL SELECT 4, format('may make tables in %I', nspname) FROM spaces WHERE has_schema_privilege(oid, 'CREATE')
  UNION ALL SELECT 5, 'may write ' || place FROM own WHERE CASE relkind
    WHEN 'S' THEN has_sequence_privilege(oid, 'USAGE, UPDATE')
    ELSE has_table_privilege(oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
      OR has_any_column_privilege(oid, 'INSERT, UPDATE, REFERENCES') END
  UNION ALL SELECT 6, 'may read ' || place FROM own WHERE NOT is_shown AND CASE relkind
    WHEN 'S' THEN has_sequence_privilege(oid, 'SELECT') ELSE has_any_column_privilege(oid, 'SELECT') END
  UNION ALL SELECT 7, format('may read %I of %s', a.attname, own.place)
    FROM own JOIN pg_catalog.pg_attribute AS a ON a.attrelid = own.oid
    WHERE own.is_shown AND a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege(own.oid, a.attnum, 'SELECT')
      AND NOT (own.name || '.' || a.attname::text) = ANY($3::text[])
  UNION ALL SELECT 8, 'may call ' || place FROM functions
) AS found ORDER BY n, what LIMIT ${mostShown}`;
