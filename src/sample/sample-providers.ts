import { hash, randomBytes } from 'node:crypto';
import { SyncError } from '../core/errors.ts';
import type { JsonObject } from '../core/json.ts';
import type { Definition } from '../definitions/definition.ts';
import { ApiError } from '../service/api-error.ts';
import type { ProvidedConnector, Provider, Providers } from '../service/provider.ts';
import { createSampleAccount } from './create-sample-account.ts';
import type { SampleAccount, SampleAccountOptions } from './sample-account.ts';
import { sampleProvider } from './sample-provider.ts';

export interface SampleProvidersOptions {
  /** The accounts of connectors that are there from the start, by the connector's id. */
  readonly accounts: ReadonlyMap<string, SampleAccount>;
  /** Every other connector gets its own account: the same seed and id make the same account. */
  readonly otherwise: Pick<SampleAccountOptions, 'size' | 'seed'> & { readonly revision: number };
}

/** Accounts that are made anew when they are asked for again: an account's plan takes some memory, connectors may be many. */
const keptAccounts = 64;

/**
 * The sample third parties. They take any credentials, also none, but those whose first text begins with `revoked`: every
 * call with such is answered 401, as by a third party that has withdrawn a key.
 */
export function sampleProviders(options: SampleProvidersOptions): Providers {
  const key = randomBytes(32);
  const made = new Map<string, SampleAccount>();

  /** Null: there is no sample data for connectors of this type. */
  const accountOf = ({ connectorId, definition }: ProvidedConnector): SampleAccount | null => {
    const known = options.accounts.get(connectorId);
    if (known !== undefined) return known;
    const name = JSON.stringify([definition.name, connectorId]);
    const account = made.get(name) ?? madeAccount(connectorId, definition, options);
    if (account === null) return null;
    // The one asked for last stands last, so the first is the one that was not for longest.
    made.delete(name);
    made.set(name, account);
    const [oldest] = made.keys();
    if (made.size > keptAccounts && oldest !== undefined) made.delete(oldest);
    return account;
  };

  return {
    open(connector) {
      if (isRevoked(connector.credentials)) return refusing(refusedCredentials);
      const account = accountOf(connector);
      if (account === null) return refusing(() => noSampleData(connector.definition));
      return sampleProvider(account, { connectorId: connector.connectorId, key });
    },
    async check(connector, signal) {
      signal.throwIfAborted();
      if (isRevoked(connector.credentials)) return { ok: false, why: refusedCredentials().message };
      if (accountOf(connector) === null) {
        return { ok: false, why: noSampleData(connector.definition).message };
      }
      return { ok: true };
    },
  };
}

function madeAccount(
  connectorId: string,
  definition: Definition,
  { otherwise }: SampleProvidersOptions,
): SampleAccount | null {
  const seed = Number.parseInt(hash('md5', `${otherwise.seed} ${connectorId}`).slice(0, 7), 16);
  try {
    return createSampleAccount({ ...otherwise, seed, definitionName: definition.name });
  } catch (error) {
    if (error instanceof SyncError && error.code === 'USAGE') return null;
    throw error;
  }
}

function isRevoked(credentials: JsonObject | null): boolean {
  const first = Object.values(credentials ?? {}).find((value) => typeof value === 'string');
  return first?.startsWith('revoked') === true;
}

function refusing(error: () => ApiError): Provider {
  const refuse = async (): Promise<never> => {
    throw error();
  };
  return { list: refuse, get: refuse, download: refuse };
}

function refusedCredentials(): ApiError {
  return new ApiError(401, 'The third party does not take the credentials of this connector (any more).', {
    errorCode: 'third_party_unauthorized',
  });
}

function noSampleData({ title }: Definition): ApiError {
  return new ApiError(400, `This server has no sample data for connectors of the type '${title}'.`, {
    errorCode: 'no_sample_data',
  });
}
