import { hash } from 'node:crypto';
import type { SignInAuthentication } from '../definitions/upstream/authentication.ts';
import type { IssuedTokens, SignIn, SignInTokens, StoredSignIn } from '../sign-ins/sign-in.ts';
import { addressOf, type HostFacts } from './address-of.ts';
import { accessTokenField, credentialValue, withIssued, type OpenCredentials } from './credentials.ts';
import { RefusedGrantError, refreshGrant, requestTokens, type NewTokens } from './request-tokens.ts';
import { UpstreamFailure } from './upstream-failure.ts';

/** Credentials of an app, through which a person has signed in. */
export interface AppCredentials extends OpenCredentials {
  readonly auth: SignInAuthentication;
}

export function isOfApp(credentials: OpenCredentials): credentials is AppCredentials {
  return credentials.auth?.kind === 'authorizationCode';
}

/**
 * What a person's sign-in adds to the credentials of an app. Null: there is no place where one could be stored. Throws
 * `UpstreamFailure` with the reason `signIn` where a person must sign in.
 */
export function openSignedIn(connector: string, signIn: SignIn | null) {
  /** Read once, and again after each renewal: a service that no longer takes it says so. */
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
    /** Other tokens than those that `open` gave last; `signal` ends the wait for another process. */
    renew: async (
      credentials: AppCredentials,
      facts: HostFacts,
      signal: AbortSignal,
    ): Promise<OpenCredentials> => {
      const was = known;
      if (was === null) return usable(credentials, await storedOf(signIn).read());
      const url = await addressOf(credentials.auth.tokenUrl, facts, signal);
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

/** What is stored of an answer; a refresh token that it does not replace stays. */
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

/** Tokens are of use to the app that they were issued to, where they were issued. */
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

/** Whether the service may have renewed the tokens, although no answer says so. */
function mayBeDone(error: unknown): boolean {
  if (!(error instanceof UpstreamFailure)) return true;
  const isUnsent = ['name', 'address', 'credentials', 'gate'].includes(error.reason);
  return !isUnsent && !(error instanceof RefusedGrantError);
}
