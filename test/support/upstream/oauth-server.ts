import { isJsonObject, type JsonObject } from '../../../src/core/json.ts';
import { type Answer, jsonAnswer } from './answer.ts';
import { basicOf, type CredentialState, type FakeRequest } from './fake-request.ts';

/** OAuth 2.0's token endpoint for refresh tokens (RFC 6749, section 6), whose refresh tokens serve once. */
export interface OAuthServer {
  readonly clientId: string;
  readonly clientSecret: string;
  /** The pair that an app was given last. */
  readonly tokens: () => { readonly accessToken: string; readonly refreshToken: string };
  /** Whether an access token is one that still holds. */
  takes(accessToken: string): boolean;
  /** How the app identified itself: by basic authentication, or in the body. */
  clientOf(request: FakeRequest): CredentialState;
  answer(request: FakeRequest): Answer;
  /** Ends the access tokens of all apps; a refresh token brings a new one. */
  expireAccessTokens(): void;
  /** Refreshes that succeeded. */
  readonly refreshes: () => number;
}

/** `more`: what its answer says besides. */
export function openOAuthServer(more: JsonObject = {}): OAuthServer {
  const clientId = 'app-1';
  const clientSecret = 'app-1-secret-5d0f2a';
  let number = 1;
  const accessToken = (): string => `access-${number}-9c1a7e`;
  const refreshToken = (): string => `refresh-${number}-44b7d2`;
  let isExpired = false;

  const clientOf = (request: FakeRequest): CredentialState => {
    const body = isJsonObject(request.body) ? request.body : {};
    const [id, secret] = basicOf(request) ?? [body['client_id'], body['client_secret']];
    if (id === undefined && secret === undefined) return 'none';
    return id === clientId && secret === clientSecret ? 'right' : 'wrong';
  };

  return {
    clientId,
    clientSecret,
    tokens: () => ({ accessToken: accessToken(), refreshToken: refreshToken() }),
    takes: (token) => !isExpired && token === accessToken(),
    clientOf,
    answer(request) {
      const body = isJsonObject(request.body) ? request.body : {};
      if (request.method !== 'POST') return refused(405, 'invalid_request', 'POST only');
      if (clientOf(request) !== 'right') return refused(401, 'invalid_client', 'unknown client');
      if (body['grant_type'] !== 'refresh_token') {
        return refused(400, 'unsupported_grant_type', 'refresh_token only');
      }
      // A refresh token that was used once is worth nothing: using it twice loses the connector.
      if (body['refresh_token'] !== refreshToken()) {
        return refused(400, 'invalid_grant', 'unknown refresh token');
      }
      number += 1;
      isExpired = false;
      return jsonAnswer(200, {
        access_token: accessToken(),
        refresh_token: refreshToken(),
        token_type: 'bearer',
        expires_in: 3_600,
        ...more,
      });
    },
    expireAccessTokens() {
      isExpired = true;
    },
    refreshes: () => number - 1,
  };
}

function refused(status: number, error: string, why: string): Answer {
  return jsonAnswer(status, { error, error_description: why });
}
