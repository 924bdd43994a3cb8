import { hash } from 'node:crypto';
import PQueue from 'p-queue';
import { inTries, systemClock, type Clock } from '../core/clock.ts';
import type { JsonObject } from '../core/json.ts';
import { Secret } from '../core/secret.ts';
import type { Definition } from '../definitions/definition.ts';
import {
  isIssued,
  isUnstored,
  type Authentication,
  type IssuedAuthentication,
  type SignInAuthentication,
} from '../definitions/upstream/upstream-file.ts';
import type { Upstream } from '../definitions/upstream/upstream.ts';
import type { OnExchange } from '../http/exchange.ts';
import { orAborted } from '../http/or-aborted.ts';
import type { SignIn, IssuedTokens, SignInTokens, StoredSignIn } from '../sign-ins/sign-in-store.ts';
import type { CallGate, CallLane } from './call-gate.ts';
import {
  addressOf,
  accessTokenField,
  readCredentials,
  tokenAddress,
  unusable,
  withIssued,
  credentialValue,
  type OpenCredentials,
} from './credentials.ts';
import {
  logIn,
  RefusedGrantError,
  renewalGrant,
  requestTokens,
  refreshGrant,
  type BesideFacts,
  type NewTokens,
} from './request-tokens.ts';
import { UpstreamFailure } from './upstream-failure.ts';
import type { UpstreamTransport } from './upstream-transport.ts';

export interface UpstreamOptions {
  /** The definition of a connector type; it says how the third party is called. */
  readonly definition: Definition;
  /** Called for each call; its result is not kept. An error reaches the caller unchanged. */
  readonly credentials: () => Promise<JsonObject>;
  /**
   * Stores the credentials with renewed tokens. They are used once this has resolved, so it must be durable then, and
   * `credentials` must return them from then on. Null: tokens are renewed only where the refresh token stays the same.
   */
  readonly saveCredentials?: ((changed: JsonObject) => Promise<void>) | null;
  /**
   * The stored sign-in, for a definition with sign-ins; null or absent: there is no place for one. The account closes
   * it.
   */
  readonly signIn?: SignIn | null;
  /** The connector's id, or its name in a config: calls with renewed tokens share its limits. */
  readonly connector: string;
  readonly gate: CallGate;
  readonly transport: UpstreamTransport;
  readonly clock?: Clock;
  /** Called for each request that is sent for JSON, except for token requests. */
  readonly onExchange?: OnExchange;
}

/** Values that one call needs to reach the account; to be discarded with the call. */
export interface OpenedCall {
  readonly credentials: OpenCredentials;
  readonly lane: CallLane;
  readonly base: URL;
}

type AccountFacts = BesideFacts & { readonly lane: CallLane };

export type Session = ReturnType<typeof openSession>;

/**
 * Manages the credentials of one connector: reads them for each call, and renews them where possible. Throws
 * `TypeError` for a definition without `upstream`.
 */
export function openSession(options: UpstreamOptions) {
  const { definition, transport, gate, clock = systemClock, saveCredentials = null } = options;
  const { upstream } = definition;
  if (upstream === null) throw new TypeError(`the definition ${definition.name} has no upstream`);
  const laneOf = ({ account }: OpenCredentials): CallLane => gate.lane(account, upstream.limits);
  const stored = openStored(options, upstream, laneOf, clock);
  const renewals = new PQueue();
  /** Ends the waits for renewals in other processes. */
  const waits = new AbortController();
  const factsOf = (credentials: OpenCredentials): AccountFacts => ({
    upstream,
    credentials,
    lane: laneOf(credentials),
    transport,
    clock,
  });

  const opened = (credentials: OpenCredentials): OpenedCall => {
    const facts = factsOf(credentials);
    return { credentials, lane: facts.lane, base: addressOf(upstream.baseUrl, facts) };
  };

  /** Runs alone for the account, and is not aborted: a new refresh token that is not stored is lost for good. */
  const renewAlone = async (refusedToken: string | undefined): Promise<OpenCredentials | null> => {
    const { given, credentials } = await stored.read();
    const { auth, values } = credentials;
    if (!isIssued(auth)) return null;
    // Another call has renewed the token meanwhile.
    if (!lacksToken(auth, values) && values.get(accessTokenField(auth)) !== refusedToken) return credentials;
    if (!isRenewable(auth, values)) return null;
    if (auth.kind === 'authorizationCode') {
      return await stored.signedIn.renew({ ...credentials, auth }, factsOf(credentials), waits.signal);
    }
    if (auth.kind === 'refresh' && auth.rotates && saveCredentials === null) {
      throw unusable(
        'the access token ended, and there is no place here to store the new refresh token that comes with another one',
      );
    }
    const facts = factsOf(credentials);
    throwIfRefused(facts);
    return await stored.save(given, credentials, await newTokens(auth, facts));
  };

  const renew = async (
    credentials: OpenCredentials,
    refusedToken: string | undefined,
    signal: AbortSignal,
  ): Promise<OpenedCall | null> => {
    const renewal = renewals.add(() => laneOf(credentials).alone(() => renewAlone(refusedToken)));
    // The caller receives the error below, while it waits.
    renewal.catch(() => undefined);
    const renewed = await orAborted(renewal, signal);
    return renewed === null ? null : opened(renewed);
  };

  return {
    upstream,
    transport,
    clock,
    onExchange: options.onExchange ?? null,
    async open(signal: AbortSignal): Promise<OpenedCall> {
      signal.throwIfAborted();
      const { credentials } = await orAborted(stored.read(), signal);
      throwIfRefused(factsOf(credentials));
      const { auth, values } = credentials;
      if (!isIssued(auth) || !lacksToken(auth, values)) return opened(credentials);
      const renewed = await renew(credentials, undefined, signal);
      if (renewed !== null) return renewed;
      throw unusable(`${missingOf(auth, values).join(' and ')} has no value, nor is there a refresh token`);
    },
    /**
     * Renews after an answer that does not accept the access token: resolves to the new call, or to null where no
     * renewal is possible.
     */
    async renew({ credentials }: OpenedCall, signal: AbortSignal): Promise<OpenedCall | null> {
      const { auth, values } = credentials;
      if (!isRenewable(auth, values)) return null;
      return await renew(credentials, values.get(accessTokenField(auth)), signal);
    },
    /** Waits for a running renewal, and closes the sign-in. */
    settled: async (): Promise<void> => {
      waits.abort(new Error('the connector was closed'));
      await renewals.onIdle();
      await options.signIn?.[Symbol.asyncDispose]();
    },
  };
}

/** Fields that a token endpoint issues and the credentials lack. */
function missingOf(auth: IssuedAuthentication, values: OpenCredentials['values']): readonly string[] {
  return [accessTokenField(auth), ...Object.keys(auth.keeps)].filter((field) => !values.has(field));
}

function lacksToken(auth: IssuedAuthentication, values: OpenCredentials['values']): boolean {
  return missingOf(auth, values).length > 0;
}

function isRenewable(
  auth: Authentication | null,
  values: OpenCredentials['values'],
): auth is IssuedAuthentication {
  return isIssued(auth) && (auth.kind !== 'refresh' || values.has(auth.refreshToken));
}

/** The credentials that the caller stores, and the changes of their renewal. */
function openStored(
  options: UpstreamOptions,
  upstream: Upstream,
  laneOf: (credentials: OpenCredentials) => CallLane,
  clock: Clock,
) {
  const { definition, connector, saveCredentials = null } = options;
  const signedIn = openSignedIn(connector, options.signIn ?? null);
  /** Renewed tokens that cannot be saved: another who opens the account has newer ones, or others. */
  const unsaved: CallLane['issued'] = new Map();
  const issuedOf = (credentials: OpenCredentials): CallLane['issued'] =>
    isUnstored(credentials.auth) ? laneOf(credentials).issued : unsaved;
  const parsed = (given: JsonObject): OpenCredentials => {
    const credentials = readCredentials(definition, upstream, given, connector);
    const issued = [...issuedOf(credentials)].filter(([, { endsAtMs }]) => clock.now() < endsAtMs);
    return withIssued(
      credentials,
      issued.map(([field, { secret }]) => [field, secret.reveal()] as const),
    );
  };
  return {
    read: async (): Promise<{ given: JsonObject; credentials: OpenCredentials }> => {
      const given = await options.credentials();
      const credentials = parsed(given);
      return { given, credentials: isOfApp(credentials) ? await signedIn.open(credentials) : credentials };
    },
    signedIn,
    /** Saves the changes, and returns the credentials with them. */
    save: async (
      given: JsonObject,
      before: OpenCredentials,
      { changed, endsAtMs }: Awaited<ReturnType<typeof newTokens>>,
    ): Promise<OpenCredentials> => {
      if (isUnstored(before.auth) || saveCredentials === null) {
        for (const [field, value] of Object.entries(changed)) {
          issuedOf(before).set(field, { secret: new Secret(value), endsAtMs });
        }
        return parsed(given);
      }
      const renewed = { ...given, ...changed };
      // The old refresh token may be invalid by now: the connector depends on a stored new one.
      await inTries(async () => await saveCredentials(renewed), clock);
      return parsed(renewed);
    },
  };
}

/** Throws for a refresh token that has ended: it is not sent again, nor the access token that ended before it. */
function throwIfRefused({ lane, credentials }: AccountFacts): void {
  const refusal = lane.refusalOf(hashOf(credentials));
  if (refusal !== null) throw refusal;
}

/** Requests new tokens: those that change, by the credential fields that keep them, and when they end. */
async function newTokens(auth: Exclude<IssuedAuthentication, SignInAuthentication>, facts: AccountFacts) {
  const url = addressOf(tokenAddress(auth), facts);
  const issued =
    auth.kind === 'login'
      ? logIn(url, auth, facts)
      : requestTokens(url, auth, renewalGrant(auth, facts.credentials.values), facts);
  const tokens = await issued.catch((error: unknown) => {
    if (error instanceof RefusedGrantError && error.isEnded) {
      facts.lane.keepRefusal(hashOf(facts.credentials), error);
    }
    throw error;
  });
  const changed: Readonly<Record<string, string>> = {
    ...tokens.kept,
    [accessTokenField(auth)]: tokens.accessToken,
    ...(tokens.refreshToken === null || auth.kind !== 'refresh'
      ? {}
      : { [auth.refreshToken]: tokens.refreshToken }),
  };
  // Token endpoints of OAuth answer 401 in time. Of a login the token is renewed a tenth earlier, for calls that wait.
  const seconds = auth.kind === 'login' ? tokens.accessSeconds : null;
  return { changed, endsAtMs: seconds === null ? Infinity : facts.clock.now() + seconds * 900 };
}

function hashOf({ values }: OpenCredentials): string {
  return hash('sha256', JSON.stringify([...values]), 'hex');
}

/** Credentials of an app through which a person has signed in. */
export interface AppCredentials extends OpenCredentials {
  readonly auth: SignInAuthentication;
}

export function isOfApp(credentials: OpenCredentials): credentials is AppCredentials {
  return credentials.auth?.kind === 'authorizationCode';
}

/**
 * The values that a person's sign-in adds to the credentials of an app. Null: there is no place where one could be
 * stored. Throws `UpstreamFailure` with the reason `signIn` where a person must sign in.
 */
function openSignedIn(connector: string, signIn: SignIn | null) {
  /** Read once, and again after each renewal: the service itself refuses a token that no longer works. */
  let known: StoredSignIn | null = null;

  const usable = (credentials: AppCredentials, stored: StoredSignIn | null): OpenCredentials => {
    known = null;
    if (stored === null) throw mustSignIn(connector, `${connector} is not signed in`);
    if (stored.refusal !== null) throw mustSignIn(connector, stored.refusal);
    if (stored.tokens.app !== appOf(credentials)) {
      throw mustSignIn(connector, `${connector} was signed in with another client id, or at another address`);
    }
    known = stored;
    const { accessToken, refreshToken, kept } = stored.tokens;
    const issued = [[accessTokenField(credentials.auth), accessToken] as const, ...Object.entries(kept)];
    const signedIn = withIssued(credentials, issued);
    return refreshToken === null ? signedIn : { ...signedIn, secrets: [...signedIn.secrets, refreshToken] };
  };

  return {
    open: async (credentials: AppCredentials): Promise<OpenCredentials> =>
      usable(credentials, known ?? (await storedOf(signIn).read())),
    /** Returns tokens other than those that `open` returned last; `signal` ends the wait for another process. */
    renew: async (
      credentials: AppCredentials,
      facts: BesideFacts,
      signal: AbortSignal,
    ): Promise<OpenCredentials> => {
      const was = known;
      if (was === null) return usable(credentials, await storedOf(signIn).read());
      const url = addressOf(credentials.auth.tokenUrl, facts);
      const renewed = await storedOf(signIn).renew(
        was.revision,
        async ({ tokens, begunAt }) => {
          if (tokens.refreshToken === null) {
            const error = mustSignIn(connector, `${url.host} has issued ${connector} no refresh token`);
            return { kind: 'failed', error, isOpen: false };
          }
          try {
            const grant = refreshGrant(tokens.refreshToken);
            const issued = await requestTokens(url, credentials.auth, grant, facts);
            return { kind: 'renewed', tokens: tokensOf(credentials, issued, tokens) };
          } catch (error) {
            if (error instanceof RefusedGrantError && error.isEnded) {
              return { kind: 'refused', why: refusal(url.host, error, begunAt) };
            }
            return { kind: 'failed', error, isOpen: mayBeDone(error) };
          }
        },
        signal,
      );
      return usable(credentials, renewed);
    },
  };
}

function storedOf(signIn: SignIn | null): SignIn {
  if (signIn !== null) return signIn;
  throw new UpstreamFailure(
    'unauthorized',
    'this way to sign in works for a connector of a config that has credentials: add one there, and run "connector-sync login <connector>"',
    { reason: 'signIn' },
  );
}

/** Combines issued tokens with the stored ones; a refresh token that the answer does not replace stays. */
export function tokensOf(
  credentials: AppCredentials,
  { refreshToken, ...issued }: NewTokens,
  before: Pick<SignInTokens, 'refreshToken'> | null,
): IssuedTokens {
  return {
    ...issued,
    refreshToken: refreshToken ?? before?.refreshToken ?? null,
    app: appOf(credentials),
  };
}

/** Hashes the app and the place of the tokens: tokens only work for that app, at that place. */
function appOf({ auth, values }: AppCredentials): string {
  return hash('sha256', JSON.stringify([credentialValue(auth.clientId, values), auth.tokenUrl]), 'hex');
}

function mustSignIn(connector: string, why: string): UpstreamFailure {
  return new UpstreamFailure('unauthorized', `${why}: run "connector-sync login ${connector}"`, {
    reason: 'signIn',
  });
}

function refusal(host: string, { words }: RefusedGrantError, begunAt: string | null): string {
  const lost =
    begunAt === null
      ? ''
      : `; a renewal that began at ${begunAt} was interrupted before its new tokens were stored`;
  return `${host} does not renew the sign-in${words}${lost}`;
}

/** Whether the service may have renewed the tokens although no answer confirms it. */
function mayBeDone(error: unknown): boolean {
  if (!(error instanceof UpstreamFailure)) return true;
  const isUnsent = ['name', 'address', 'credentials', 'gate'].includes(error.reason);
  return !isUnsent && !(error instanceof RefusedGrantError);
}
