import {
  createSampleAccount,
  type SampleAccountOptions,
  isSampleCredentials,
  sampleProviders,
  type SampleProvidersOptions,
} from '../../../sample/sample-service.ts';
import type { ProvidedConnector, Providers } from '../../../service/provider.ts';
import {
  type ServedConnector,
  type Service,
  type ServiceOptions,
  startService,
} from '../../../service/start-service.ts';
import { upstreamProviders, type UpstreamProvidersOptions } from '../../../service/upstream-providers.ts';

/** A connector that is served from the start, and the sample account behind it. */
export interface ServedAccount extends ServedConnector, SampleAccountOptions {}

export interface SampleServiceOptions extends Omit<ServiceOptions, 'connectors' | 'providers'> {
  readonly accounts: readonly ServedAccount[];
  /** The sample account of every other connector that has one. */
  readonly otherwise: SampleProvidersOptions['otherwise'];
  /** Null: all connectors have sample accounts, and no third party is asked. */
  readonly upstream?: UpstreamProvidersOptions | null;
}

/**
 * The local API with sample accounts behind it, and the third parties of connectors with real credentials. Rejects as
 * `startService` and `createSampleAccount` do.
 */
export async function serveSamples({
  accounts,
  otherwise,
  upstream = null,
  ...options
}: SampleServiceOptions): Promise<Service> {
  const made = new Map(accounts.map((account) => [account.connectorId, createSampleAccount(account)]));
  const samples = sampleProviders({ accounts: made, otherwise });
  const providers = upstream === null ? samples : samplesOrUpstream(samples, upstreamProviders(upstream));
  return await startService({ ...options, connectors: accounts, providers });
}

/**
 * Sample accounts for connectors that belong to none, and for new ones with sample credentials; the third parties for
 * all others.
 */
function samplesOrUpstream(samples: Providers, upstream: Providers): Providers {
  const of = ({ account, definition, credentials }: ProvidedConnector): Providers => {
    if (typeof account === 'string') return upstream;
    const isSample =
      account === null || definition.upstream === null || isSampleCredentials(definition, credentials());
    return isSample ? samples : upstream;
  };
  return {
    open: (connector) => of(connector).open(connector),
    check: async (connector, signal) => await of(connector).check(connector, signal),
    async [Symbol.asyncDispose]() {
      await Promise.all([samples, upstream].map(async (providers) => await providers[Symbol.asyncDispose]()));
    },
  };
}
