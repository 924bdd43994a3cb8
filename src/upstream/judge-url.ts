import { isIP } from 'node:net';
import { AddressRefusedError, isPublicAddress } from '../http/guard-address.ts';

export interface NamedAddress {
  readonly url: URL;
  /** The `baseUrl` of the definition on whose behalf it is called; with another host where that is not known yet. */
  readonly base: URL;
  /**
   * An address from an answer must have the origin of `base` or be public: what the definition may reach, an answer may
   * not choose from.
   */
  readonly namedBy: 'definition' | 'answer';
}

/**
 * Whether a host may be at any address there. `allowed` has `host`, for the scheme and the port of `base`, and
 * `host:port`, for this port by the scheme that the definition names.
 */
export function isAllowed({ url, base, namedBy }: NamedAddress, allowed: ReadonlySet<string>): boolean {
  const isLikeBase = url.protocol === base.protocol && url.port === base.port;
  // Schemes too: a blob: address has the origin of the address inside.
  if (namedBy === 'answer' && !(isLikeBase && url.origin === base.origin)) return false;
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  return (isLikeBase && allowed.has(url.hostname)) || allowed.has(`${url.hostname}:${port}`);
}

/** Throws `AddressRefusedError`. */
export function judgeUrl(url: URL, isHostAllowed: boolean): void {
  if (url.username !== '' || url.password !== '') {
    throw new AddressRefusedError('an address must not hold a user name or password');
  }
  if (isHostAllowed) return;
  if (url.protocol !== 'https:' || url.port !== '') {
    throw new AddressRefusedError(
      `${url.protocol}//${url.host.slice(0, 253)} may not be called: expected https on its own port`,
    );
  }
  // A literal address is connected to without a lookup.
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) judgePublic(host, host);
}

/** Throws `AddressRefusedError` for an address that is not on the public internet. */
export function judgePublic(address: string, hostname: string): void {
  if (isPublicAddress(address)) return;
  throw new AddressRefusedError(
    `the host ${hostname} leads to ${address}, which is no address of the public internet`,
  );
}
