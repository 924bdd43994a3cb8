import { hash, randomBytes } from 'node:crypto';
import type { JsonObject } from '../core/json.ts';
import type { Definition } from '../definitions/definition.ts';
import { ApiError } from '../service/api-error.ts';
import type { ProvidedConnector, ProviderRequest, Providers } from '../service/provider.ts';
import { createSampleAccount, sampleDefinitions } from './create-sample-account.ts';
import { listPage } from './list-page.ts';
import type { SampleAccount, SampleAccountOptions } from './sample-account.ts';

export interface SampleProvidersOptions {
  /** The accounts of connectors that are there from the start, by the connector's id. */
  readonly accounts: ReadonlyMap<string, SampleAccount>;
  /** Every other connector gets its own account: the same seed and id make the same account. */
  readonly otherwise: Pick<SampleAccountOptions, 'size' | 'seed'> & { readonly revision: number };
}

/**
 * An account that is dropped is made again when it is next used: an account's plan takes some memory, connectors may be
 * many.
 */
const keptAccounts = 64;

/**
 * The sample third parties. They take any credentials, also none, but those with a secret that begins with `revoked`:
 * every call with such is answered 401, as by a third party that has withdrawn a key. A connector that belongs to a
 * real account is refused: its records and sample records must not get under one connector.
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

  /** The account of a connector, or why it has none here. */
  const accountOrRefusal = (connector: ProvidedConnector): SampleAccount | ApiError => {
    const { definition, account } = connector;
    if (typeof account === 'string') return onlySamples(definition);
    const secrets = secretsOf(definition, connector.credentials() ?? {});
    if (secrets.some((text) => text.startsWith('revoked'))) return refusedCredentials();
    return accountOf(connector) ?? noSampleData(definition);
  };

  return {
    open(connector) {
      const account = accountOrRefusal(connector);
      const answer =
        <Answer>(ask: (account: SampleAccount, request: ProviderRequest) => Answer) =>
        async (request: ProviderRequest): Promise<Answer> => {
          if (account instanceof ApiError) throw account;
          request.signal.throwIfAborted();
          return ask(account, request);
        };
      return {
        list: answer((asked, request) =>
          listPage(asked, request, { connectorId: connector.connectorId, key }),
        ),
        get: answer((asked, { entity, params }) => asked.get(entity.name, params)),
        download: answer((asked, { entity, params }) => asked.file?.(entity.name, params) ?? null),
      };
    },
    async check(connector, signal) {
      signal.throwIfAborted();
      const account = accountOrRefusal(connector);
      return { kind: 'sample', why: account instanceof ApiError ? account.message : null };
    },
    async [Symbol.asyncDispose]() {
      made.clear();
    },
  };
}

function madeAccount(
  connectorId: string,
  definition: Definition,
  { otherwise }: SampleProvidersOptions,
): SampleAccount | null {
  if (!sampleDefinitions.includes(definition.name)) return null;
  const seed = Number.parseInt(hash('md5', `${otherwise.seed} ${connectorId}`).slice(0, 7), 16);
  return createSampleAccount({ ...otherwise, seed, definitionName: definition.name });
}

/**
 * Credentials of no third party: none where some are expected, or one of their secrets begins with `sample` or
 * `revoked`.
 */
export function isSampleCredentials(definition: Definition, credentials: JsonObject | null): boolean {
  if (credentials === null) return definition.credentials.length > 0;
  return secretsOf(definition, credentials).some((text) => /^(?:sample|revoked)/.test(text));
}

/** The other fields are names, addresses and ids, which may begin with any word. */
function secretsOf({ credentials: shapes }: Definition, credentials: JsonObject): readonly string[] {
  const isSecret = (field: string): boolean =>
    shapes.some(({ fields }) => fields.get(field)?.isSecret === true);
  return Object.entries(credentials)
    .filter(([field]) => isSecret(field))
    .map(([, value]) => value)
    .filter((value) => typeof value === 'string');
}

function onlySamples({ title }: Definition): ApiError {
  return new ApiError(
    400,
    `This connector belongs to a real account of ${title}, and this server was started with sample accounts only: start it without --samples.`,
    { errorCode: 'samples_only' },
  );
}

function refusedCredentials(): ApiError {
  return new ApiError(401, 'The third party does not take the credentials of this connector.', {
    errorCode: 'third_party_unauthorized',
  });
}

function noSampleData({ title, upstream }: Definition): ApiError {
  const advice = upstream === null ? '' : ' Create a connector with credentials of the third party instead.';
  return new ApiError(400, `This server has no sample data for connectors of the type '${title}'.${advice}`, {
    errorCode: 'no_sample_data',
  });
}
