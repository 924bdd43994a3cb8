import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import type pg from 'pg';
import type { PostgresConnection, PostgresHost } from './place.ts';

const connectTimeoutMs = 10_000;

/** For `pg`, which would take what is left out from the environment. */
export function clientConfig(connection: PostgresConnection, { host, port }: PostgresHost): pg.ClientConfig {
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

function tlsOptions(
  { sslmode, rootCertificate }: PostgresConnection,
  host: string,
): ConnectionOptions | false {
  if (sslmode === 'disable' || host.startsWith('/')) return false;
  if (sslmode === 'require') return { rejectUnauthorized: false };
  return rootCertificate === null ? {} : { ca: readFileSync(rootCertificate, 'utf8') };
}
