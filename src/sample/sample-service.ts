import { createHmac, hash, randomBytes } from 'node:crypto';
import type { JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { usage } from '../core/errors.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import { credentialProblems } from '../definitions/params.ts';
import { keyOfToken } from '../definitions/pagination-file.ts';
import { ApiError } from '../service/api-error.ts';
import type { ProvidedConnector, ProviderPage, ProviderRequest, Providers } from '../service/provider.ts';
import { type ServedConnector, type ServiceOptions, startService } from '../service/start-service.ts';
import { upstreamProviders, type UpstreamProvidersOptions } from '../service/upstream-providers.ts';
import { openLibraryAccount } from './library-sample.ts';
import { openMailingAccount } from './mailing-sample.ts';
import { openNotesAccount } from './notes-sample.ts';
import type { SampleAccount, SampleSize } from './sample-account.ts';
import { maxSampleRevision } from './sample-values.ts';

const openers: ReadonlyMap<string, (seed: number, size: SampleSize, revision: number) => SampleAccount> =
  new Map([
    ['document-library', openLibraryAccount],
    ['email-marketing', openMailingAccount],
    ['workspace-notes', openNotesAccount],
  ]);

/** Names of the definitions that there is sample data for. */
export const sampleDefinitions: readonly string[] = [...openers.keys()];

export interface SampleAccountOptions {
  /** One of `sampleDefinitions`. */
  readonly definitionName: string;
  /** Any integer: the same seed and size make the same account. */
  readonly seed: number;
  readonly size: SampleSize;
  /** 0 (default) to `maxSampleRevision`: the account after so many rounds of changes. See `revisionTime`. */
  readonly revision?: number;
}

const maxSampleMembers = 1_000_000;

/** Members are computed from (seed, index, revision) when they are asked for. Throws `SyncError` USAGE. */
export function createSampleAccount(options: SampleAccountOptions): SampleAccount {
  const { definitionName, seed, size, revision = 0 } = options;
  const isWithin = (value: number, max: number): boolean =>
    Number.isInteger(value) && value >= 0 && value <= max;
  if (typeof size === 'object' && !isWithin(size.members, maxSampleMembers)) {
    throw usage(`Expected 0 to ${maxSampleMembers} members, got ${size.members}.`);
  }
  if (!isWithin(revision, maxSampleRevision)) {
    throw usage(`Expected a revision from 0 to ${maxSampleRevision}, got ${revision}.`);
  }
  const open = openers.get(definitionName);
  if (open !== undefined) return open(seed, size, revision);
  const names = sampleDefinitions.join(', ');
  throw usage(`Expected a definition with sample data (${names}), got ${definitionName}.`);
}

export interface SampleProvidersOptions {
  /** The accounts of connectors that are there from the start, by the connector's id. */
  readonly accounts: ReadonlyMap<string, SampleAccount>;
  /** Every other connector gets its own account: the same seed and id make the same account. */
  readonly otherwise: Pick<SampleAccountOptions, 'size' | 'seed'> & { readonly revision: number };
}

/** An account that is dropped is made again when it is next used: accounts take memory, connectors may be many. */
const keptAccounts = 64;

/**
 * The sample third parties. They take any credentials, also none, but those with a secret that begins with `revoked`:
 * every call with such is answered 401, as by a third party that has withdrawn a key. A connector that belongs to a
 * real account is refused: its records and sample records must not get under one connector.
 */
export function sampleProviders({ accounts, otherwise }: SampleProvidersOptions): Providers {
  const key = randomBytes(32);
  const made = new Map<string, SampleAccount>();

  const accountOf = ({ connectorId, definition: { name: definitionName } }: ProvidedConnector) => {
    const name = JSON.stringify([definitionName, connectorId]);
    const seed = Number.parseInt(hash('md5', `${otherwise.seed} ${connectorId}`).slice(0, 7), 16);
    const account = made.get(name) ?? createSampleAccount({ ...otherwise, seed, definitionName });
    // The one asked for last stands last, so the first is the one that was not for longest.
    made.delete(name);
    made.set(name, account);
    const [oldest] = made.keys();
    if (made.size > keptAccounts && oldest !== undefined) made.delete(oldest);
    return account;
  };

  /** The account of a connector. Throws `ApiError` where it has none here. */
  const knownAccount = (connector: ProvidedConnector): SampleAccount => {
    const { definition, account, connectorId } = connector;
    const { title, upstream } = definition;
    const refused = (status: number, errorCode: string, message: string): ApiError =>
      new ApiError(status, message, { errorCode });
    if (typeof account === 'string') {
      const start = 'this server was started with sample accounts only: start it without --samples.';
      const message = `This connector belongs to a real account of ${title}, and ${start}`;
      throw refused(400, 'samples_only', message);
    }
    const secrets = secretsOf(definition, connector.credentials() ?? {});
    if (secrets.some((text) => text.startsWith('revoked'))) {
      const message = 'The third party does not take the credentials of this connector.';
      throw refused(401, 'third_party_unauthorized', message);
    }
    const known = accounts.get(connectorId);
    if (known !== undefined) return known;
    if (openers.has(definition.name)) return accountOf(connector);
    const advice =
      upstream === null ? '' : ' Create a connector with credentials of the third party instead.';
    const message = `This server has no sample data for connectors of the type '${title}'.${advice}`;
    throw refused(400, 'no_sample_data', message);
  };

  return {
    open(connector) {
      const ask = (request: ProviderRequest): SampleAccount => {
        request.signal.throwIfAborted();
        return knownAccount(connector);
      };
      return {
        list: async (request) => listPage(ask(request), request, connector.connectorId, key),
        get: async (request) => ask(request).get(request.entity.name, request.params),
        download: async (request) => ask(request).file?.(request.entity.name, request.params) ?? null,
      };
    },
    async check(connector, signal) {
      signal.throwIfAborted();
      try {
        knownAccount(connector);
        return { kind: 'sample', why: null };
      } catch (error) {
        if (error instanceof ApiError) return { kind: 'sample', why: error.message };
        throw error;
      }
    },
    async [Symbol.asyncDispose]() {
      made.clear();
    },
  };
}

/**
 * Credentials of no third party: none where some are expected, or one of their secrets begins with `sample` or
 * `revoked`.
 */
export function isSampleCredentials(definition: Definition, credentials: JsonObject | null): boolean {
  if (credentials === null) return credentialProblems(definition, null).length > 0;
  return secretsOf(definition, credentials).some((text) => /^(?:sample|revoked)/.test(text));
}

/** The other fields are names, addresses and ids, which may begin with any word. */
function secretsOf({ credentials: shapes }: Definition, credentials: JsonObject): readonly string[] {
  const isSecret = (field: string): boolean =>
    shapes.some(({ fields }) => fields.get(field)?.isSecret === true);
  return Object.entries(credentials).flatMap(([field, value]) =>
    isSecret(field) && typeof value === 'string' ? [value] : [],
  );
}

/** One page of a list, cut as the entity's pagination says, with the connector's own metadata. */
export function listPage(
  account: SampleAccount,
  { entity, params }: ProviderRequest,
  connectorId: string,
  key: Buffer,
): ProviderPage {
  const { pagination } = entity;
  const listing = account.list(entity.name, params);
  const { metadata } = listing;
  const numberOf = (param: string | null, otherwise: number): number => {
    const value = param === null ? null : params[param];
    return typeof value === 'number' ? value : otherwise;
  };
  switch (pagination.kind) {
    case 'single':
      return { records: listing.slice(0, Number.POSITIVE_INFINITY), metadata };
    case 'offset': {
      const size = numberOf(pagination.sizeParam, pagination.maxSize);
      const { offsetParam, first = 0 } = pagination;
      return { records: listing.slice(numberOf(offsetParam, first) - first, size), metadata };
    }
    case 'pageToken': {
      const { tokenParam, sizeParam, maxSize, tokenKeys, flagKeys } = pagination;
      const size = numberOf(sizeParam, maxSize ?? 100);
      const signed = (offset: number): string =>
        signedToken(connectorId, key, entity, params, offset, [tokenParam, sizeParam]);
      const start = offsetOf(params[tokenParam], tokenParam, signed);
      // One record more than asked for tells whether there is a next page.
      const records = listing.slice(start, size + 1);
      const hasMore = records.length > size;
      const [tokenKey = 'next_cursor'] = tokenKeys;
      const token = hasMore ? signed(start + size) : null;
      const paging = { [keyOfToken(tokenKey)]: token, [flagKeys[0] ?? 'has_more']: hasMore };
      return { records: records.slice(0, size), metadata: { ...metadata, ...paging } };
    }
    case 'page':
    case 'lastRecord':
      throw new ApiError(
        400,
        `Sample accounts page by offset or by token, not as '${entity.name}' does ('${pagination.kind}').`,
      );
  }
}

/** Throws 400 for a token that was not issued for this list. */
function offsetOf(token: unknown, param: string, signed: (offset: number) => string): number {
  if (typeof token !== 'string') return 0;
  const offset = Number(Buffer.from(token, 'base64url').toString('latin1').split('.')[1]);
  if (signed(offset) === token) return offset;
  const options = { field: `params.${param}`, errorCode: 'validation_error' };
  throw new ApiError(400, `${param} provided is invalid`, options);
}

/** A token holds for one connector, entity and set of parameters, at any page size. */
function signedToken(
  connectorId: string,
  key: Buffer,
  { name }: Entity,
  params: Params,
  offset: number,
  paging: readonly (string | null)[],
): string {
  const others = Object.entries(params)
    .filter(([param]) => !paging.includes(param))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const text = JSON.stringify([connectorId, name, others, offset]);
  const signature = createHmac('sha256', key).update(text).digest('base64url').slice(0, 22);
  return Buffer.from(`${signature}.${offset}`).toString('base64url');
}

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
}: SampleServiceOptions) {
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
