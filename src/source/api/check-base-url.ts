import { isIP } from 'node:net';
import { SyncError } from '../../core/errors.ts';
import { AddressRefusedError, isLinkLocalAddress, isLoopbackAddress } from '../../http/guard-address.ts';

/** Throws `AddressRefusedError` for link-local addresses, and with plain http for every address but loopback. */
export function guardAddress(address: string, isPlainHttp: boolean): void {
  if (isLinkLocalAddress(address)) {
    throw new AddressRefusedError(`the API's host leads to the link-local address ${address}`);
  }
  if (isPlainHttp && !isLoopbackAddress(address)) {
    throw new AddressRefusedError(
      `http is allowed for this machine only, but the API's host leads to ${address}`,
    );
  }
}

/**
 * The service's base URL, judged again where it is used: https (http for this machine only), no credentials, query or
 * fragment, no link-local address. Throws `SyncError` CONFIG_INVALID; its message never repeats the URL, which might
 * hold a password.
 */
export function checkBaseUrl(text: string): URL {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw refused('is not a URL');
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused('must begin with https://');
  if (url.username !== '' || url.password !== '') throw refused('must not hold a user name or password');
  if (url.search !== '' || url.hash !== '' || /[?#]/.test(text)) {
    throw refused('must not have a query or a fragment');
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isPlainHttp = url.protocol === 'http:';
  if (isIP(host) !== 0) {
    try {
      guardAddress(host, isPlainHttp);
    } catch (error) {
      throw refused(error instanceof Error ? error.message : 'has an address that is refused');
    }
  } else if (isPlainHttp && !isLocalName(host)) {
    throw refused('must begin with https:// (http is allowed for this machine only)');
  }
  return url;
}

/** Only the name itself; what it resolves to is judged at every connect. */
function isLocalName(host: string): boolean {
  return /^localhost\.?$/.test(host) || (isIP(host) !== 0 && isLoopbackAddress(host));
}

function refused(why: string): SyncError {
  return new SyncError(`api.baseUrl ${why}; give the address of the Connector Execution API`, {
    code: 'CONFIG_INVALID',
    recovery: 'stop',
  });
}
