import { lookup as systemLookup, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { SyncError } from '../../core/errors.ts';

/** Why an address may not be connected to; carries a code as Node's own connect errors do. */
class AddressRefusedError extends Error {
  override readonly name = 'AddressRefusedError';
  readonly code = 'ERR_ADDRESS_REFUSED';
}

type ResolveHost = (
  hostname: string,
  done: (error: Error | null, addresses: readonly LookupAddress[]) => void,
) => void;

// Link-local: where clouds serve instance credentials. IPv4-mapped forms are matched by the IPv4 rules.
const linkLocal = new BlockList();
linkLocal.addSubnet('169.254.0.0', 16, 'ipv4');
linkLocal.addSubnet('fe80::', 10, 'ipv6');
linkLocal.addAddress('fd00:ec2::254', 'ipv6');
linkLocal.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6');
const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** True for an address (IPv4, IPv6, mapped; without brackets) of this machine. */
export function isLoopbackAddress(address: string): boolean {
  return loopback.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

/** Throws `AddressRefusedError` for link-local addresses, and with plain http for every address but loopback. */
export function guardAddress(address: string, isPlainHttp: boolean): void {
  if (isIP(address) === 0) throw new AddressRefusedError('expected an IP address from the name lookup');
  if (linkLocal.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')) {
    throw new AddressRefusedError(`the API's host leads to the link-local address ${address}`);
  }
  if (isPlainHttp && !isLoopbackAddress(address)) {
    throw new AddressRefusedError(
      `http is allowed for this machine only, but the API's host leads to ${address}`,
    );
  }
}

/**
 * A lookup for `connect`: judges the address that will really be used, at every connect, so that a name that changes
 * its answer after the check of the base URL (DNS rebinding) gains nothing.
 */
export function guardedLookup(isPlainHttp: boolean, resolve: ResolveHost = resolveHost): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, (error, addresses) => {
      const first = addresses[0];
      if (error !== null || first === undefined) {
        callback(error ?? new AddressRefusedError('the name lookup brought no address'), '', 4);
        return;
      }
      try {
        for (const { address } of addresses) guardAddress(address, isPlainHttp);
      } catch (refused) {
        callback(refused as AddressRefusedError, '', 4);
        return;
      }
      if (options.all === true) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    });
  };
}

function resolveHost(hostname: string, done: Parameters<ResolveHost>[1]): void {
  systemLookup(hostname, { all: true }, (error, addresses) => done(error, error === null ? addresses : []));
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
