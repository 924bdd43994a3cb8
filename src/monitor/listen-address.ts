import { isIPv6 } from 'node:net';
import { SyncError } from '../core/errors.ts';

/** Address to listen on. `host` null: every interface. Port 0: any free one. */
export interface ListenAddress {
  readonly host: string | null;
  readonly port: number;
}

const shape = /^(?:(?<host>\[[^\]]+\]|[^:[\]]*)(?<colon>:))?(?<port>\d{1,5})$/;
const hostName = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i;

/**
 * Reads `9400` (this machine alone: 127.0.0.1), `:9400` (every interface), `127.0.0.1:9400`, `[::1]:9400` or
 * `host:9400`. Throws `SyncError` USAGE for anything else.
 */
export function parseListenAddress(text: string): ListenAddress {
  const { host, colon, port } = shape.exec(text)?.groups ?? {};
  if (port === undefined || Number(port) > 65_535) throw notAnAddress(text);
  if (colon === undefined) return { host: '127.0.0.1', port: Number(port) };
  if (host === undefined || host === '') return { host: null, port: Number(port) };
  const isBracketed = host.startsWith('[');
  const name = isBracketed ? host.slice(1, -1) : host;
  if (isBracketed ? !isIPv6(name) : !hostName.test(name)) throw notAnAddress(text);
  return { host: name, port: Number(port) };
}

function notAnAddress(text: string): SyncError {
  return new SyncError(
    `expected an address to listen on such as 9400 (this machine alone), :9400 (every interface), 127.0.0.1:9400 or [::1]:9400, got "${text}"`,
    { code: 'USAGE', recovery: 'stop' },
  );
}
