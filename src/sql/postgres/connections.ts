import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import type { PostgresConnection, PostgresHost } from './place.ts';
import { failingOf } from './postgres-error.ts';
import type { Settings } from './session.ts';
import { SyncError } from '../../core/errors.ts';
import { knownOrMade } from '../../core/grouped.ts';

export interface ConnectionsOptions {
  readonly connection: PostgresConnection;
  /** Around a pooler; null: there is none. */
  readonly direct: PostgresConnection | null;
  /** Connections at most. */
  readonly connections: number;
  /** Called when a connection broke or could not be made: the next one may be with another server. */
  readonly onLoss: () => void;
  /** Translates an error of the server, or of the connection to it, for the caller. */
  readonly explain: (error: unknown) => unknown;
  /**
   * Shares connections with all others of this process that lead to the same database and are shared: it may have
   * hundreds of schemas. For readers, which need not know of a loss.
   */
  readonly areShared?: boolean | undefined;
  /** For tests: silence after which a connection counts as lost. */
  readonly deadlineMs?: number;
}

/** Connection that runs statements. */
export type Client = pg.ClientBase;

export type Connections = ReturnType<typeof openConnections>;

/**
 * Whatever hangs, the transaction ends: a connection that a firewall has forgotten would be noticed after a quarter of
 * an hour. Longer than any statement may take; a transaction of many (values of a large table that get a column) may
 * take longer.
 */
const usualDeadlineMs = 150_000;

/** Connections to whichever of a server's hosts is no standby. */
export function openConnections({ connection, direct, connections, ...options }: ConnectionsOptions) {
  const { onLoss, explain, areShared = false, deadlineMs = usualDeadlineMs } = options;
  const own = areShared ? knownOrMade(shared, keyOf(connection), newPools) : newPools();
  own.users += 1;
  const { pools } = own;

  const openPool = (host: number): pg.Pool => {
    const at = connection.hosts[host] ?? { host: 'localhost', port: 5432 };
    const pool = new pg.Pool({
      ...clientConfig(connection, at),
      max: connections,
      idleTimeoutMillis: 30_000,
    });
    // A connection that breaks while it is idle is replaced when the next one is asked for.
    pool.on('error', onLoss);
    pool.on('connect', leaveToQuestions);
    return pool;
  };

  const take = async (): Promise<pg.PoolClient> => {
    for (let tried = 1; ; tried += 1) {
      let why: unknown = noPrimary();
      try {
        const { current } = own;
        const client = await knownOrMade(pools, current, () => openPool(current)).connect();
        const isStandby = await leadsToStandby(client, connection).catch((error: unknown) => {
          destroy(client);
          throw error;
        });
        if (!isStandby) return client;
        client.release();
      } catch (error) {
        why = error;
      }
      onLoss();
      own.current = (own.current + 1) % connection.hosts.length;
      if (tried >= connection.hosts.length) throw why;
    }
  };

  const connect = async (): Promise<pg.Client> => {
    const to = direct ?? connection;
    let why: unknown = noPrimary();
    for (let tried = 0; tried < to.hosts.length; tried += 1) {
      const at = to.hosts[(own.current + tried) % to.hosts.length];
      if (at === undefined) break;
      const client = new pg.Client(clientConfig(to, at));
      leaveToQuestions(client);
      try {
        await client.connect();
        if (!(await leadsToStandby(client, to))) return client;
      } catch (error) {
        why = error;
      }
      await client.end().catch(() => undefined);
    }
    throw explain(why);
  };

  return {
    /**
     * Gives `work` a connection, and closes its socket after too long a silence: `work` calls `heard` with each answer.
     * Rejects with the error of the client library.
     */
    withClient: async <Result>(work: ClientWork<Result>): Promise<Result> =>
      await lend(await take(), work, { onLoss, deadlineMs }),
    /** Connects as `Server.connect`. */
    connect,
    end: async (): Promise<void> => {
      own.users -= 1;
      if (own.users > 0) return;
      if (shared.get(keyOf(connection)) === own) shared.delete(keyOf(connection));
      await Promise.all([...pools.values()].map(async (pool) => await pool.end()));
    },
  };
}

/** `pools`: by host; `current`: the host that was no standby when it was last asked. */
function newPools() {
  return { pools: new Map<number, pg.Pool>(), current: 0, users: 0 };
}

const shared = new Map<string, ReturnType<typeof newPools>>();

function keyOf(connection: PostgresConnection): string {
  return JSON.stringify({ ...connection, password: connection.password?.reveal() ?? null });
}

/**
 * Leaves a broken connection to the query that fails. Without a listener, the client's error event would end the
 * process.
 */
function leaveToQuestions(client: pg.ClientBase): void {
  client.on('error', () => undefined);
}

type ClientWork<Result> = (client: pg.PoolClient, heard: () => void) => Promise<Result>;

async function lend<Result>(
  client: pg.PoolClient,
  work: ClientWork<Result>,
  { onLoss, deadlineMs }: Required<Pick<ConnectionsOptions, 'onLoss' | 'deadlineMs'>>,
): Promise<Result> {
  let isBroken = false;
  const onError = (): void => {
    isBroken = true;
  };
  client.on('error', onError);
  const giveUp = (): void => {
    isBroken = true;
    client.release(true);
  };
  const deadline = setTimeout(giveUp, deadlineMs);
  const heard = (): void => void deadline.refresh();
  try {
    return await work(client, heard);
  } catch (error) {
    isBroken ||= failingOf(error) === 'connection';
    throw error;
  } finally {
    clearTimeout(deadline);
    client.off('error', onError);
    if (isBroken) {
      onLoss();
      destroy(client);
    } else {
      client.release();
    }
  }
}

/**
 * Has the server notice within half a minute that the host of a client is lost: by its own settings it would take
 * hours.
 */
export const keepalives: Settings = {
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '5',
  tcp_keepalives_count: '3',
};

/** The client library knows no `target_session_attrs`. */
async function leadsToStandby(client: pg.ClientBase, { hosts }: PostgresConnection): Promise<boolean> {
  if (hosts.length === 1) return false;
  const { rows } = await client.query<{ standby: boolean }>('SELECT pg_is_in_recovery() AS standby');
  return rows[0]?.standby !== false;
}

function destroy(client: pg.PoolClient): void {
  try {
    client.release(true);
  } catch {
    // The deadline has released it.
  }
}

/** A standby may be promoted any moment: asked again like a server that cannot be reached. */
function noPrimary(): Error {
  return Object.assign(new Error('each host is a standby: promote one, or name the primary in the url'), {
    code: '25006',
  });
}

const connectTimeoutMs = 10_000;

/** Configures `pg`, which takes omitted options from the environment. */
function clientConfig(connection: PostgresConnection, { host, port }: PostgresHost): pg.ClientConfig {
  const { database, user, password } = connection;
  return {
    host,
    port,
    database,
    user,
    password: password?.reveal() ?? '',
    ssl: tlsOptions(connection, host),
    application_name: 'connector-sync',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
}

/**
 * TLS options for `pg`; false: no TLS. The requirements of a mode are never relaxed: a server without TLS is refused.
 * Throws `SyncError` CONFIG_INVALID for a file that holds no certificates.
 */
function tlsOptions(
  { sslmode, rootCertificate }: Pick<PostgresConnection, 'sslmode' | 'rootCertificate'>,
  host: string,
): ConnectionOptions | false {
  if (sslmode === 'disable' || host.startsWith('/')) return false;
  if (sslmode === 'require') return { rejectUnauthorized: false };
  const trusted = rootCertificate === null ? {} : { ca: readCertificates(rootCertificate) };
  return sslmode === 'verify-ca' ? { ...trusted, checkServerIdentity: () => undefined } : trusted;
}

function readCertificates(file: string): string {
  try {
    const text = readFileSync(file, 'utf8');
    // A file without any would trust none, and the server would be blamed.
    void new X509Certificate(text);
    return text;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new SyncError(
      `sslrootcert should name a file with certificates in PEM, and ${file} cannot be used (${reason}). Correct the path, or the file.`,
      { code: 'CONFIG_INVALID', recovery: 'stop', context: { file }, cause: error },
    );
  }
}
