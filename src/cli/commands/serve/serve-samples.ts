import { createSampleAccount } from '../../../sample/create-sample-account.ts';
import type { SampleAccountOptions } from '../../../sample/sample-account.ts';
import { sampleProviders, type SampleProvidersOptions } from '../../../sample/sample-providers.ts';
import type { ServedConnector } from '../../../service/seed-state.ts';
import { startService, type Service, type ServiceOptions } from '../../../service/start-service.ts';

/** A connector that is served from the start, and the sample account behind it. */
export interface ServedAccount extends ServedConnector, SampleAccountOptions {}

export interface SampleServiceOptions extends Omit<ServiceOptions, 'connectors' | 'providers'> {
  readonly accounts: readonly ServedAccount[];
  /** The sample account of every connector that is created later. */
  readonly otherwise: SampleProvidersOptions['otherwise'];
}

/** The local API with sample accounts behind it. Rejects as `startService` and `createSampleAccount` do. */
export async function serveSamples({
  accounts,
  otherwise,
  ...options
}: SampleServiceOptions): Promise<Service> {
  const made = new Map(accounts.map((account) => [account.connectorId, createSampleAccount(account)]));
  const providers = sampleProviders({ accounts: made, otherwise });
  return await startService({ ...options, connectors: accounts, providers });
}
