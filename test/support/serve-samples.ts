import {
  createSampleAccount,
  sampleProviders,
  type SampleServiceOptions,
  type ServedAccount as SampleConnector,
} from '../../src/sample/sample-service.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
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
}

/** The API of this repository with sample accounts, any of which a test may replace or wrap. */
export async function serveSamples(options: ServeOptions): Promise<Service> {
  const { accounts, otherwise = { size: 'tiny', seed: 1, revision: 0 }, ...rest } = options;
  const made = accounts.map(({ account, wrap = (same) => same, ...one }) => {
    return [one.connectorId, wrap(account ?? createSampleAccount(one))] as const;
  });
  const providers = sampleProviders({ accounts: new Map(made), otherwise });
  return await startService({ ...rest, connectors: accounts, providers });
}
