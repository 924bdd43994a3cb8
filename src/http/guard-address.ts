import { lookup as systemLookup, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

/** Why an address may not be connected to; carries a code as Node's own connect errors do. */
export class AddressRefusedError extends Error {
  override readonly name = 'AddressRefusedError';
  readonly code = 'ERR_ADDRESS_REFUSED';
}

export type ResolveHost = (
  hostname: string,
  done: (error: Error | null, addresses: readonly LookupAddress[]) => void,
) => void;

// IPv4-mapped IPv6 addresses are matched by the IPv4 rules.
// Link-local: where clouds serve instance credentials.
const linkLocal = listOf(['169.254.0.0/16', 'fe80::/10', 'fd00:ec2::254/128', '64:ff9b::a9fe:0/112']);
const loopback = listOf(['127.0.0.0/8', '::1/128']);

const notPublicV4 = (
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 ' +
  '192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3'
).split(' ');
const notPublicV6 =
  '::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7 fe80::/9 ff00::/8'.split(
    ' ',
  );

/**
 * Addresses outside the public internet, by the special-purpose registries of IANA (RFC 6890). NAT64 addresses
 * (64:ff9b::/96) are how a network without IPv4 reaches public services, so these are judged by the IPv4 address
 * inside; 6to4, Teredo and IPv4-compatible addresses are refused whole.
 */
const notPublic = listOf([...notPublicV4, ...notPublicV4.map(intoNat64), ...notPublicV6]);

/** True for an address (IPv4, IPv6, mapped; without brackets) of this machine. */
export function isLoopbackAddress(address: string): boolean {
  return isIn(loopback, address);
}

export function isLinkLocalAddress(address: string): boolean {
  return isIn(linkLocal, address);
}

/**
 * True for an address on the public internet: not private, loopback, link-local, unique-local, multicast or reserved.
 */
export function isPublicAddress(address: string): boolean {
  return isIP(address) !== 0 && !isIn(notPublic, address);
}

/** True for the name, or an address, of this machine, as a URL has it. */
export function isLoopbackHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '');
  return host === 'localhost' || (isIP(host) !== 0 && isLoopbackAddress(host));
}

/**
 * The base URL of an API: https, or http on this machine; nothing that could put a secret into a log or send the token
 * elsewhere. A text: why it must not be used, without the URL itself, which might hold a password.
 */
export function apiAddress(text: string): URL | string {
  // The URL parser silently drops tabs, line ends and outer blanks; such an address is a mistake.
  const url = /[\s\\]/.test(text) || !URL.canParse(text) ? null : new URL(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return 'expected an address such as https://api.example.com';
  }
  if (url.username !== '' || url.password !== '') {
    return 'expected no user name or password in the address; use clientId and clientSecret';
  }
  if (/[?#]/.test(text)) return 'expected an address without query (?) and fragment (#)';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  // IPv4 inside IPv6 begins with `::` too.
  if (/^(0\.|::(?!1$))/.test(host) || (isIP(host) !== 0 && isLinkLocalAddress(host))) {
    return 'expected a host that a service can live at, got a link-local, metadata, unspecified or IPv4-mapped address';
  }
  return url.protocol === 'https:' || isLoopbackHost(host)
    ? url
    : 'expected https: http is allowed only for 127.0.0.1, [::1] and localhost';
}

/** Throws `AddressRefusedError` for an address that is not on the public internet. */
export function judgePublic(address: string, hostname: string): void {
  if (isPublicAddress(address)) return;
  throw new AddressRefusedError(
    `the host ${hostname} leads to ${address}, which is no address of the public internet`,
  );
}

/**
 * A lookup for `connect`: judges the address that will really be used, at every connect, so that a name that changes
 * its answer after an earlier check (DNS rebinding) gains nothing. `judge` throws `AddressRefusedError` for an address
 * that must not be connected to.
 */
export function guardedLookup(
  judge: (address: string, hostname: string) => void,
  resolve: ResolveHost = (hostname, done) =>
    systemLookup(hostname, { all: true }, (error, found) => done(error, error === null ? found : [])),
): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, (error, addresses) => {
      const first = addresses[0];
      if (error !== null || first === undefined) {
        callback(error ?? new AddressRefusedError('the name lookup brought no address'), '', 4);
        return;
      }
      try {
        for (const { address } of addresses) {
          if (isIP(address) === 0) {
            throw new AddressRefusedError('expected an IP address from the name lookup');
          }
          judge(address, hostname);
        }
      } catch (refused) {
        callback(refused as AddressRefusedError, '', 4);
        return;
      }
      if (options.all === true) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    });
  };
}

function isIn(list: BlockList, address: string): boolean {
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

function listOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits = ''] = range.split('/');
    list.addSubnet(address, Number(bits), isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
}

function intoNat64(range: string): string {
  const [address = '', bits = ''] = range.split('/');
  return `64:ff9b::${address}/${96 + Number(bits)}`;
}
