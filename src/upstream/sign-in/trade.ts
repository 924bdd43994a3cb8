import type { IssuedTokens } from '../../sign-ins/sign-in.ts';
import { addressOf, type HostFacts } from '../address-of.ts';
import { requestTokens, type Grant } from '../request-tokens.ts';
import { tokensOf, type AppCredentials } from '../signed-in.ts';

/** What every way to sign in knows. */
export interface AuthorizationFacts {
  readonly credentials: AppCredentials;
  readonly facts: HostFacts;
}

/** Trades what a service has given to a person for tokens. */
export async function trade(
  { credentials, facts }: AuthorizationFacts,
  grant: Grant,
  signal: AbortSignal,
): Promise<IssuedTokens> {
  const url = await addressOf(credentials.auth.tokenUrl, facts, signal);
  return tokensOf(credentials, await requestTokens(url, credentials.auth, grant, facts), null);
}
