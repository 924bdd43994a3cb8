import { Agent, EnvHttpProxyAgent, type Dispatcher } from 'undici';
import { hasProxies, withoutProxy } from './proxies.ts';

/**
 * Connections with these settings, through the proxies of the environment where it has some. A file alone, so that a
 * program that is built with undici inside can load it late: a dynamic import of undici itself has no names there.
 */
export function openPool(
  options: Agent.Options & { readonly connect: { readonly timeout: number } },
): Dispatcher {
  if (!hasProxies()) return new Agent(options);
  const { timeout } = options.connect;
  return new EnvHttpProxyAgent({ ...options, noProxy: withoutProxy(), proxyTls: { timeout } });
}
