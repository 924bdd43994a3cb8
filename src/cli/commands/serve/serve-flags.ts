import { isIP } from 'node:net';
import { usage } from '../../../core/usage-error.ts';
import type { SampleSize } from '../../../sample/sample-account.ts';
import { maxSampleRevision } from '../../../sample/sample-values.ts';
import { shortestTokenSeconds } from '../../../service/server-limits.ts';
import { durationOf, type FlagsOf, hostOf, oneOf, wholeNumber } from '../../command.ts';
import { defaultDataFolder } from './choose-application.ts';
import type { ServedAccount } from './serve-samples.ts';

export const serveOptions = {
  '--host <address>': { text: 'address to bind', default: '127.0.0.1' },
  '--port <n>': { text: '0 for any free port', default: '8787' },
  '--allow-host <name...>': 'names that clients reach it by, besides --host and the loopback names',
  '--trust-proxy <address...>': 'proxies whose X-Forwarded-Proto is trusted: addresses or networks',
  '--data <folder>': { text: 'folder for its state and indexed stores', default: defaultDataFolder },
  '--definitions <folder...>': 'folders with definitions of further connector types',
  '--masks <file>': 'what is never stored and never answered, by connector type (docs/guides/masks.md)',
  '--samples': 'sample accounts for all connectors, whatever their credentials: no third party is asked',
  '--allow-upstream-host <name...>':
    'hosts of third parties that may be at private addresses: by the scheme and port of the definition, with :port at that port too',
  '--size <size>': { text: 'size of the sample accounts: tiny or small', default: 'small' },
  '--members <n>': 'instead: one mailing list with this many members',
  '--seed <n>': { text: 'the same seed makes the same records', default: '1' },
  '--revision <n>': { text: `days of changes in the records, 0 to ${maxSampleRevision}`, default: '0' },
  '--refresh <duration>': { text: 'how often the indexed stores are refreshed', default: '1h' },
  '--no-index': 'no indexed stores: list and get work, search does not',
  '--rate-limit <n>': { text: 'requests per second for each token', default: '1000' },
  '--token-lifetime <duration>': { text: 'lifetime of application tokens, at least 15m', default: '15m' },
  '--tls-cert <file>': 'serve HTTPS with this certificate (PEM, intermediate ones included)',
  '--tls-key <file>': 'the private key of that certificate (PEM)',
} as const;

type ServeFlags = FlagsOf<typeof serveOptions>;

export type ServeChoices = ReturnType<typeof readServeFlags>;

const maxLifetimeMs = 7 * 86_400_000;
/** What a timer can wait for. */
const maxRefreshMs = 24 * 86_400_000;

/** Throws USAGE that names the flag. */
export function readServeFlags(flags: ServeFlags) {
  const revision = wholeNumber('--revision', flags.revision, maxSampleRevision);
  const account = { size: sizeOf(flags), seed: wholeNumber('--seed', flags.seed), revision };
  const shortestMs = shortestTokenSeconds * 1000;
  if (flags.data === '') throw usage('--data: expected the path of a folder, got "".');
  if (flags.masks === '') throw usage('--masks: expected the path of a file, got "".');
  return {
    service: {
      host: flags.host,
      port: wholeNumber('--port', flags.port, 65_535),
      allowedHosts: flags.allowHost.map(hostName),
      trustedProxies: flags.trustProxy.map(proxyAddress),
      upstream: upstreamOf(flags),
      accounts: servedAccounts(account),
      otherwise: account,
      isIndexed: flags.index,
      refreshEveryMs: durationOf('--refresh', flags.refresh, 1000, maxRefreshMs),
      tokenTtlSeconds: durationOf('--token-lifetime', flags.tokenLifetime, shortestMs, maxLifetimeMs) / 1000,
      limits: { requestsPerSecond: wholeNumber('--rate-limit', flags.rateLimit, 1_000_000, 1) },
    },
    /** Folders with definitions, besides the built-in ones. */
    definitions: flags.definitions,
    /** The file with masks; null: there are none. */
    masks: flags.masks ?? null,
    revision,
    /** Paths of PEM files; null: HTTP. */
    tls: tlsOf(flags),
  };
}

function tlsOf({ tlsCert: cert = '', tlsKey: key = '' }: ServeFlags) {
  if ((cert === '') !== (key === '')) {
    throw usage('Expected both --tls-cert and --tls-key, or neither; got one.');
  }
  return cert === '' ? null : { cert, key };
}

/** As it stands in a Host header, without a port. */
function hostName(text: string): string {
  if (/^[\w.-]{1,253}$|^\[[\da-f:.]{2,45}\]$/i.test(text)) return text;
  throw usage(`--allow-host: expected a host name or an address without a port, got "${text}".`);
}

function upstreamOf({ samples, allowUpstreamHost }: ServeFlags) {
  if (!samples) {
    return { allowHosts: allowUpstreamHost.map((host) => hostOf('--allow-upstream-host', host)) };
  }
  if (allowUpstreamHost.length === 0) return null;
  throw usage('--allow-upstream-host: expected no --samples beside it, which asks no third party.');
}

function proxyAddress(text: string): string {
  const [address = '', bits] = text.split('/');
  const version = isIP(address);
  const isNetwork =
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
  if (version !== 0 && isNetwork && text.split('/').length <= 2) return text;
  throw usage(`--trust-proxy: expected an address or a network such as 10.0.0.0/8, got "${text}".`);
}

function sizeOf({ size, members }: ServeFlags): SampleSize {
  if (members !== undefined) return { members: wholeNumber('--members', members, 1_000_000) };
  return oneOf('--size', size, ['tiny', 'small']);
}

export const servedWorkspace = 'default';

const samples = [
  { connectorId: 'sample-newsletter', definitionName: 'email-marketing', name: 'newsletter' },
  { connectorId: 'sample-wiki', definitionName: 'workspace-notes', name: 'wiki' },
  { connectorId: 'sample-library', definitionName: 'document-library', name: 'library' },
] as const;

/** The connectors that every `serve` has: one of each built-in definition. */
function servedAccounts(
  account: Pick<ServedAccount, 'size' | 'seed' | 'revision'>,
): readonly ServedAccount[] {
  return samples.map(({ connectorId, definitionName }) => ({
    connectorId,
    definitionName,
    workspace: servedWorkspace,
    ...account,
  }));
}

/** Lines of a config that reads them. */
export function configLines(): readonly string[] {
  return samples.map(
    ({ connectorId, definitionName, name }) =>
      `    ${name}: { definition: ${definitionName}, id: ${connectorId}, sink: main }`,
  );
}
