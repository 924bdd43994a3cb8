import { Agent, EnvHttpProxyAgent, type Dispatcher } from 'undici';
import { hasProxies, withoutProxy } from './proxies.ts';

/** Connections with these settings, through the proxies of the environment where it has some. */
export function openPool(
  options: Agent.Options & { readonly connect: { readonly timeout: number } },
): Dispatcher {
  if (!hasProxies()) return new Agent(options);
  const { timeout } = options.connect;
  return new EnvHttpProxyAgent({ ...options, noProxy: withoutProxy(), proxyTls: { timeout } });
}
