import type { Secret } from '../../core/secret.ts';

/** Place of a PostgreSQL server and the user that connects. The settings have checked it. */
export interface PostgresConnection {
  /** Tried in this order until one is no standby. */
  readonly hosts: readonly PostgresHost[];
  readonly database: string;
  readonly user: string;
  readonly password: Secret | null;
  /**
   * `disable`: no TLS. `require`: TLS with any certificate. `verify-ca`: with one that `rootCertificate` has signed.
   * `verify-full`: with one that is trusted and names the host.
   */
  readonly sslmode: 'disable' | 'require' | 'verify-ca' | 'verify-full';
  /** Absolute path of the certificates to trust in place of the system's; null: the system's. */
  readonly rootCertificate: string | null;
}

export interface PostgresHost {
  /** A name, an address, or the absolute path of the folder with the server's socket. */
  readonly host: string;
  readonly port: number;
}

/** Place for people and messages: never contains the user or the password. */
export function placeOf({ hosts, database }: Pick<PostgresConnection, 'hosts' | 'database'>, schema: string) {
  const isIpv6 = (host: string): boolean => host.includes(':') && !host.startsWith('/');
  const places = hosts.map(({ host, port }) => (isIpv6(host) ? `[${host}]:${port}` : `${host}:${port}`));
  return `${places.join(',')}/${database}/${schema}`;
}
