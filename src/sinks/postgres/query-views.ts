import { SyncError } from '../../core/errors.ts';
import type { Secret } from '../../core/secret.ts';
import { cellOf, columnOf, type Tx } from '../../sql/database.ts';
import { isServerError } from '../../sql/postgres/postgres-error.ts';
import { openQuerySession, type QuerySession, type TextRows } from '../../sql/postgres/run-query.ts';
import { openServer } from '../../sql/postgres/server.ts';
import { quoted } from '../../sql/quoted.ts';
import { ledgerReader } from '../ledger/history/history.ts';
import {
  offeredViews,
  queryRefused,
  type OfferedTable,
  type OfferedView,
  type OnViews,
} from '../records/offered-views.ts';
import { openToRead, type PostgresPlace } from './open-ledger.ts';
import { tableName } from './records/names.ts';
import { beyondViews } from './role-limits.ts';
import { toSinkError } from './sink-error.ts';

/** Who asks. */
export interface QueryRole {
  readonly user: string;
  readonly password: Secret | null;
}

interface ViewQuery {
  readonly place: PostgresPlace;
  readonly role: QueryRole;
  readonly offered: readonly OfferedTable[];
  /** What a stranger has written. */
  readonly sql: string;
  readonly limit: number;
  readonly offset: number;
  /** Of a value. */
  readonly mostChars: number;
  readonly mostColumns: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** The views of a sink that are offered. Throws `NoSinkYetError` where there is no sink. */
export async function listViews(
  place: PostgresPlace,
  offered: readonly OfferedTable[],
): Promise<readonly OfferedView[]> {
  const { db } = await openToRead(place);
  await using _db = db;
  return await db.read((tx) => offeredViews(tx, offered, columnsOf));
}

/**
 * Answers a query over views of a sink, asked by a role that may read these and no more; what the sink says of them is
 * read in the same state. Values are texts of at most `mostChars` characters. Throws USAGE for a query that is none,
 * SINK_FAILED where the role may do more, and the signal's reason: the server has ended the query then too.
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
 * Whose tables the statements of the session have read: each holds a lock on them until its transaction ends. A plan
 * would say it too, but holds constants of any length, which come as a whole.
 */
async function viewsRead(
  session: QuerySession,
  schema: string,
  views: readonly OfferedView[],
): Promise<readonly OfferedView[]> {
  const { rows } = await session.ask(
    `SELECT c.relname FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
     WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation'
       AND c.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1))`,
    [schema],
  );
  const tables = new Set(rows.flat());
  return views.filter(({ connector, entity }) => tables.has(tableName(connector, entity)));
}

async function rowsOf(
  session: QuerySession,
  {
    sql,
    limit,
    offset,
    mostChars,
    mostColumns,
  }: Pick<ViewQuery, 'sql' | 'limit' | 'offset' | 'mostChars' | 'mostColumns'>,
): Promise<TextRows> {
  const { columns } = await session.ask(`SELECT * FROM ${operand(sql)} LIMIT 0`);
  if (columns.length > mostColumns) {
    throw new SyncError(
      `sql: the query has ${columns.length} columns: expected ${mostColumns} at most. Name those that you need.`,
      {
        code: 'USAGE',
        recovery: 'stop',
      },
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
 * As an operand of a SELECT the grammar of the server takes a query, and no statement that writes. A comment at the end
 * of the text ends with its line.
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

/** For a person who may make roles, and who sets the password. A role that is there stays. */
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

/** What was granted before is taken away first: a column may have been excluded since. */
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
