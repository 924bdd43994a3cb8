import { SyncError } from '../core/errors.ts';
import { Secret } from '../core/secret.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Variables by the scheme of the request, in the order in which undici reads them. */
const variables = {
  'http:': ['http_proxy', 'HTTP_PROXY'],
  'https:': ['https_proxy', 'HTTPS_PROXY', 'http_proxy', 'HTTP_PROXY'],
} as const;

/** Variables that configure proxies. */
export const proxyVariables = [...variables['https:'], 'no_proxy', 'NO_PROXY'] as const;

/** Addresses of this machine are not asked through a proxy, which has others. */
const ownNames = ['localhost', '127.0.0.1', '[::1]'];

/** Value of the `noProxy` option of `EnvHttpProxyAgent`. */
export function withoutProxy(env: Environment = process.env): string {
  const given = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').trim();
  return given === '*' ? given : [given, ...ownNames].join(',');
}

/**
 * Whether any proxy is configured. Throws `SyncError` CONFIG_INVALID, without the value, for an invalid proxy address.
 */
export function hasProxies(env: Environment = process.env): boolean {
  const named = variables['https:'].filter((name) => (env[name] ?? '') !== '');
  const wrong = named.find((name) => !/^https?:$/.test(urlOf(env[name])?.protocol ?? ''));
  if (wrong === undefined) return named.length > 0;
  throw new SyncError(
    `${wrong}: expected the address of a proxy such as http://proxy.example:3128, got something else. Correct or unset the variable.`,
    { code: 'CONFIG_INVALID', recovery: 'stop', context: { variable: wrong } },
  );
}

/** Addresses of proxies with a password. */
export function proxySecrets(env: Environment): readonly Secret[] {
  const texts = variables['https:'].map((name) => env[name] ?? '');
  return texts.filter((text) => (urlOf(text)?.password ?? '') !== '').map((text) => new Secret(text));
}

function urlOf(text = ''): URL | null {
  return URL.canParse(text) ? new URL(text) : null;
}

/** The proxy through which an address is asked for; null: none. As undici's `EnvHttpProxyAgent` decides. */
export function proxyFor(url: URL, env: Environment = process.env): URL | null {
  const names: readonly string[] = url.protocol === 'https:' ? variables['https:'] : variables['http:'];
  const proxy = names.map((name) => env[name] ?? '').find((text) => text !== '');
  if (proxy === undefined) return null;
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  const isDirect = withoutProxy(env)
    .split(/[,\s]/)
    .some((entry) => {
      const [, name = entry, ofPort = port] = /^(.+):(\d+)$/.exec(entry) ?? [];
      const host = name.replace(/^\*?\./, '').toLowerCase();
      return ofPort === port && host !== '' && `.${url.hostname}`.endsWith(`.${host}`);
    });
  return isDirect || withoutProxy(env) === '*' ? null : new URL(proxy);
}
