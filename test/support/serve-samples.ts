import { systemClock, type Clock } from '../../src/core/clock.ts';
import {
  createSampleAccount,
  sampleProviders,
  type SampleServiceOptions,
  type ServedAccount as SampleConnector,
} from '../../src/sample/sample-service.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import type { ProviderRequest, Providers } from '../../src/service/provider.ts';
import { startService, type Service } from '../../src/service/start-service.ts';

export interface ServedAccount extends SampleConnector {
  /** Served instead of one that is made from the other options: one that keeps changing, for example. */
  readonly account?: SampleAccount;
  /** Stands between the API and the account: changes, hides or fails what it likes. */
  readonly wrap?: (account: SampleAccount) => SampleAccount;
}

export interface ServeOptions extends Omit<SampleServiceOptions, 'accounts' | 'otherwise'> {
  readonly accounts: readonly ServedAccount[];
  readonly otherwise?: SampleServiceOptions['otherwise'];
  /** Before the answer of an account, as a distant service would. */
  readonly latencyMs?: number;
}

/** With the number of requests that were answered since its start, refused ones included. */
export type SampleServer = Service & { readonly requestCount: () => number };

/** The API of this repository with sample accounts, any of which a test may replace or wrap. */
export async function serveSamples(options: ServeOptions): Promise<SampleServer> {
  const { accounts, otherwise = { size: 'tiny', seed: 1, revision: 0 }, latencyMs = 0, ...rest } = options;
  const made = accounts.map(({ account, wrap = (same) => same, ...one }) => {
    return [one.connectorId, wrap(account ?? createSampleAccount(one))] as const;
  });
  const providers = sampleProviders({ accounts: new Map(made), otherwise });
  let requests = 0;
  const service = await startService({
    ...rest,
    connectors: accounts,
    providers: latencyMs === 0 ? providers : delayed(providers, latencyMs, rest.clock ?? systemClock),
    onRequest: (entry) => {
      requests += 1;
      rest.onRequest?.(entry);
    },
  });
  return { ...service, requestCount: () => requests };
}

function delayed(providers: Providers, ms: number, clock: Clock): Providers {
  return {
    ...providers,
    open: (connector) => {
      const provider = providers.open(connector);
      const wait = ({ signal }: ProviderRequest): Promise<void> => clock.sleep(ms, signal);
      return {
        list: async (request) => (await wait(request), await provider.list(request)),
        get: async (request) => (await wait(request), await provider.get(request)),
        download: async (request) => (await wait(request), await provider.download(request)),
      };
    },
  };
}
