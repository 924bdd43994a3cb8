import pg from 'pg';
import { SyncError } from '../../core/errors.ts';
import { clientConfig } from './connection.ts';
import type { PostgresConnection, PostgresHost } from './place.ts';

/** Connections to the one host of several that is no standby. */
export interface Pools {
  /** Throws what `pg` throws; `SyncError` SINK_FAILED where each host is a standby. The caller releases the connection. */
  take(): Promise<pg.PoolClient>;
  /** Number of the host that was no standby when it was last asked. */
  current(): number;
  end(): Promise<void>;
}

/** There is always a host: the settings have seen to it. */
export const nowhere: PostgresHost = { host: 'localhost', port: 5432 };

/** `connections`: at most, to each host. */
export function openPools(connection: PostgresConnection, place: string, connections: number): Pools {
  const pools = new Map<number, pg.Pool>();
  let current = 0;

  const poolOf = (host: number): pg.Pool => {
    const known = pools.get(host);
    if (known !== undefined) return known;
    const at = connection.hosts[host] ?? nowhere;
    const pool = new pg.Pool({
      ...clientConfig(connection, at),
      max: connections,
      idleTimeoutMillis: 30_000,
    });
    // A connection that breaks while nobody uses it is replaced when the next one is asked for.
    pool.on('error', () => undefined);
    pools.set(host, pool);
    return pool;
  };

  const take = async (): Promise<pg.PoolClient> => {
    for (let tried = 0; ; tried += 1) {
      try {
        const client = await poolOf(current).connect();
        if (connection.hosts.length === 1) return client;
        const { rows } = await client.query<{ standby: boolean }>('SELECT pg_is_in_recovery() AS standby');
        if (rows[0]?.standby === false) return client;
        client.release();
        if (tried + 1 >= connection.hosts.length) throw noPrimary(place);
      } catch (error) {
        if (tried + 1 >= connection.hosts.length) throw error;
      }
      current = (current + 1) % connection.hosts.length;
    }
  };

  return {
    take,
    current: () => current,
    end: async () => void (await Promise.all([...pools.values()].map(async (pool) => await pool.end()))),
  };
}

function noPrimary(place: string): SyncError {
  return new SyncError(
    `None of the hosts of ${place} can be written to: each is a standby. Promote one, or name the primary in the url.`,
    { code: 'SINK_FAILED', recovery: 'retry', context: { place } },
  );
}
