import type { SinkFinding } from '../sink-access.ts';
import { openConnections, type Client } from '../../sql/postgres/connections.ts';
import { type PostgresPlace, toSinkError } from './postgres-schema.ts';
import { isLoopbackHost } from '../../http/guard-address.ts';
import { cellOf } from '../../sql/database.ts';
import { placeOf, type PostgresConnection } from '../../sql/postgres/place.ts';
import { txOn, type PostgresTx as Tx } from '../../sql/postgres/session.ts';

/**
 * Checks each requirement of a sink on this server by itself, so that one failure hides no other. Throws `SyncError`
 * SINK_FAILED where the server cannot be queried. The schema need not exist yet.
 */
export async function checkServer(place: PostgresPlace): Promise<readonly SinkFinding[]> {
  const { connection, direct, schema } = place;
  const at = placeOf(connection, schema);
  const opened = openConnections({
    ...place,
    connections: 1,
    onLoss: () => undefined,
    explain: (error) => toSinkError(error, at),
  });
  try {
    const found = await opened.withClient(async (client) => {
      const tx = txOn(client);
      return {
        server: ok(`PostgreSQL ${await cellOf<string>(tx, "SELECT current_setting('server_version')")}`),
        rights: await checkRights(tx, schema),
        encryption: await checkEncryption(tx, connection),
      };
    });
    const isUrlPooled = await opened.withClient(isPooled);
    const session = await opened.connect();
    try {
      const pooler = poolerFinding(isUrlPooled, await isPooled(session), direct !== null);
      return Object.entries({ ...found, pooler }).map(([what, finding]) => ({ what, ...finding }));
    } finally {
      await session.end();
    }
  } catch (error) {
    throw toSinkError(error, at);
  } finally {
    await opened.end();
  }
}

interface Rights {
  readonly role: string;
  readonly database: string;
  readonly isThere: boolean;
  readonly mayCreateSchema: boolean;
  readonly mayCreateTables: boolean;
  readonly foreign: number;
}

/** Columns are added to tables, which only their owner may do. */
async function checkRights(tx: Tx, schema: string): Promise<Finding> {
  const found = await tx.first<Rights>(
    `SELECT current_user::text AS role, current_database()::text AS database, n.oid IS NOT NULL AS is_there,
       has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
       coalesce(has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE'), false) AS may_create_tables,
       (SELECT count(*) FROM pg_catalog.pg_class AS c
        WHERE c.relnamespace = n.oid AND c.relkind = 'r' AND NOT pg_has_role(c.relowner, 'USAGE')) AS foreign
     FROM (SELECT 1) AS one LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = :schema`,
    { schema },
  );
  if (found === undefined) return failed('the server does not say what the user may do');
  const { role, database, isThere, mayCreateSchema, mayCreateTables, foreign } = found;
  if (!isThere) {
    return mayCreateSchema
      ? ok(`${role} may make the schema ${schema}`)
      : failed(`${role} may not make the schema ${schema}: GRANT CREATE ON DATABASE ${database} TO ${role}`);
  }
  if (!mayCreateTables) {
    return failed(`${role} may not make tables in ${schema}: ALTER SCHEMA ${schema} OWNER TO ${role}`);
  }
  if (foreign > 0) {
    return failed(
      `${foreign} tables of ${schema} belong to another user, so ${role} may add no columns: ALTER TABLE ... OWNER TO ${role}`,
    );
  }
  return ok(`${role} owns the tables in ${schema} and may make new ones`);
}

async function checkEncryption(tx: Tx, { hosts, sslmode }: PostgresConnection): Promise<Finding> {
  const sql = 'SELECT version FROM pg_catalog.pg_stat_ssl WHERE pid = pg_backend_pid()';
  const version = (await cellOf<string | null>(tx, sql)) ?? 'TLS';
  const isHere = hosts.every(({ host }) => host.startsWith('/') || isLoopbackHost(host));
  // Whatever the mode says, a socket of this machine has no TLS.
  if (hosts.every(({ host }) => host.startsWith('/'))) {
    return ok('none, over a socket of this machine');
  }
  if (sslmode === 'verify-full') return ok(`${version}, the certificate is checked`);
  if (sslmode === 'verify-ca') {
    return ok(`${version}, the certificate is checked, for any host of the authority in sslrootcert`);
  }
  if (sslmode === 'require') {
    return warning(
      `${version}, but the certificate is not checked, so another server could pose as this one: use sslmode=verify-full, with sslrootcert where the authority is your own`,
    );
  }
  return isHere
    ? ok('none, on this machine')
    : warning(
        'none: records can be read and changed in transit; use sslmode=verify-full, or a network that only these machines are in',
      );
}

/** A pooler reports numbers to its clients that no process of the server has. */
async function isPooled(client: Client): Promise<boolean> {
  const pid = await cellOf(txOn(client), 'SELECT pg_backend_pid()');
  return !('processID' in client && client.processID === pid);
}

function poolerFinding(isUrlPooled: boolean, isSessionPooled: boolean, hasDirect: boolean): Finding {
  if (!isUrlPooled && !isSessionPooled) return ok('none between');
  if (!isSessionPooled) return ok('one at url, and locks go around it');
  return warning(
    `${hasDirect ? 'directUrl leads to a pooler too' : 'url leads to a pooler'}: connectors of a killed process are free after 30 s and not at once; ` +
      "name the server's own address in directUrl",
  );
}

type Finding = Omit<SinkFinding, 'what'>;

const finding =
  (state: Finding['state']) =>
  (detail: string): Finding => ({ state, detail });
const ok = finding('ok');
const warning = finding('warning');
const failed = finding('failed');
