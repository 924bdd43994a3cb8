import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IssuedTokens } from '../../sign-ins/sign-in.ts';
import { redactMessage } from '../../http/redact-message.ts';
import { addressOf } from '../address-of.ts';
import { credentialValue } from '../credentials.ts';
import { UpstreamFailure } from '../upstream-failure.ts';
import { trade, type AuthorizationFacts } from './trade.ts';

/** One attempt of a person to sign in (RFC 6749, section 4.1; RFC 7636). */
export interface CodeAttempt {
  /** For the person's browser. */
  readonly url: URL;
  /**
   * The code in the query with which the service sent the browser back; null where the query does not belong to this
   * attempt. Throws `UpstreamFailure` where the service says no.
   */
  readonly codeIn: (query: URLSearchParams) => string | null;
  readonly finish: (code: string, signal: AbortSignal) => Promise<IssuedTokens>;
}

const maxCodeLength = 4_096;

/** `redirect`: the address that the browser is sent back to, as the app is registered with it. */
export async function beginCode(
  of: AuthorizationFacts,
  redirect: string,
  signal: AbortSignal,
): Promise<CodeAttempt> {
  const { facts, credentials } = of;
  const { auth, values, secrets } = credentials;
  const url = await addressOf(auth.authorizeUrl, facts, signal);
  const state = randomBytes(32).toString('base64url');
  const verifier = randomBytes(32).toString('base64url');
  const challenge = { code_challenge: hash('sha256', verifier, 'base64url'), code_challenge_method: 'S256' };
  const query = {
    ...auth.params,
    response_type: 'code',
    client_id: credentialValue(auth.clientId, values) ?? '',
    redirect_uri: redirect,
    ...(auth.scope === undefined ? {} : { scope: auth.scope }),
    state,
    ...(auth.pkce ? challenge : {}),
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return {
    url,
    codeIn: (found) => {
      if (!isEqual(found.get('state') ?? '', state)) return null;
      const said = [found.get('error'), found.get('error_description')].filter((text) => text !== null);
      if (said.length > 0) {
        const text = `${url.host} does not let the app in (${redactMessage(said.join(': '), secrets)})`;
        throw new UpstreamFailure('unauthorized', text, { reason: 'answer' });
      }
      const code = found.get('code') ?? '';
      if (code !== '' && code.length <= maxCodeLength) return code;
      throw new UpstreamFailure('refused', `${url.host} sent the browser back without a code`, {
        reason: 'brokenBody',
      });
    },
    finish: async (code, within) => {
      const verified = auth.pkce ? { code_verifier: verifier } : {};
      return await trade(
        of,
        { grant_type: 'authorization_code', code, redirect_uri: redirect, ...verified },
        within,
      );
    },
  };
}

/** In the same time, wherever they differ. */
function isEqual(given: string, expected: string): boolean {
  const [left, right] = [given, expected].map((text) => Buffer.from(hash('sha256', text, 'hex')));
  return left !== undefined && right !== undefined && timingSafeEqual(left, right);
}
