import { isJsonObject, memberOf, type JsonValue } from '../core/json.ts';
import type { CredentialValue, IssuedAuthentication } from '../definitions/upstream/authentication.ts';
import { isSuccess, type WireAnswer } from '../http/exchange.ts';
import { redactMessage } from '../http/redact-message.ts';
import { askBeside, type BesideFacts } from './ask-beside.ts';
import type { AnswerPath } from '../definitions/upstream/template.ts';
import { control } from './call-address.ts';
import { credentialValue, unusable } from './credentials.ts';
import { readJsonAnswer, readJsonOfFailure, valueAt } from './read-json.ts';
import { UpstreamFailure } from './upstream-failure.ts';
import { textOfBody } from '../http/read-body.ts';

interface NewTokens {
  readonly accessToken: string;
  /** Null: the old one stays valid. */
  readonly refreshToken: string | null;
  /** By the fields of the credentials that the definition keeps them in. */
  readonly kept: Readonly<Record<string, string>>;
}

/** The refresh token has ended (RFC 6749, section 5.2): it will be refused for good. */
export class EndedGrantError extends UpstreamFailure {
  constructor(text: string, status: number) {
    super('unauthorized', text, { reason: 'answer', status });
  }
}

const timeoutMs = 60_000;

/**
 * Asks the token endpoint once for another access token (RFC 6749, sections 4.4 and 6). It is never repeated: where the
 * refresh token rotates, the first call may have ended it. Throws `UpstreamFailure`.
 */
export async function requestTokens(
  url: URL,
  auth: IssuedAuthentication,
  facts: BesideFacts,
): Promise<NewTokens> {
  const { values, secrets } = facts.credentials;
  const id = needed(auth.clientId, values);
  const secret = needed(auth.clientSecret, values);
  const isBasic = auth.style === 'basic';
  const basic = Buffer.from(`${id}:${secret}`, 'utf8').toString('base64');
  const fields = {
    ...(auth.kind === 'refresh'
      ? { grant_type: 'refresh_token', refresh_token: values.get(auth.refreshToken) ?? '' }
      : {
          ...auth.params,
          grant_type: 'client_credentials',
          ...(auth.scope === undefined ? {} : { scope: auth.scope }),
        }),
    ...(isBasic ? {} : { client_id: id, client_secret: secret }),
  };
  const isJson = auth.format === 'json';
  const request = {
    url,
    method: 'POST',
    headers: {
      'content-type': isJson ? 'application/json' : 'application/x-www-form-urlencoded',
      ...(isBasic ? { authorization: `Basic ${basic}` } : {}),
    },
    body: isJson ? JSON.stringify(fields) : new URLSearchParams(fields).toString(),
    timeoutMs,
  } as const;
  const read = (answer: WireAnswer): NewTokens | null => {
    if (isSuccess(answer.status)) return readTokens(readJsonAnswer(answer), auth, url.host);
    const value = readJsonOfFailure(textOfBody(answer.body));
    if (![400, 401, 403].includes(answer.status) || value === undefined) return null;
    throw refusedTokens(answer.status, value, [...secrets, basic], auth, url.host);
  };
  // The signal is its own: a caller that leaves must not lose a new refresh token in flight.
  return await askBeside(facts, request, [basic], read, new AbortController().signal);
}

function needed(value: CredentialValue, values: ReadonlyMap<string, string>): string {
  const found = credentialValue(value, values);
  if (found === null) {
    throw unusable('the client id or secret that renews the access token is not among them');
  }
  return found;
}

function readTokens(value: JsonValue, { keeps }: IssuedAuthentication, host: string): NewTokens {
  const accessToken = isJsonObject(value) ? memberOf(value, 'access_token') : undefined;
  const refreshToken = isJsonObject(value) ? memberOf(value, 'refresh_token') : undefined;
  if (typeof accessToken !== 'string' || accessToken.trim() === '') {
    // Some answer 200 to a refresh token that has ended.
    throw new UpstreamFailure('unauthorized', `${host} gave no access token`, {
      reason: 'answer',
      status: 200,
    });
  }
  return {
    accessToken: accessToken.trim(),
    refreshToken: typeof refreshToken === 'string' && refreshToken.trim() !== '' ? refreshToken.trim() : null,
    kept: Object.fromEntries(
      Object.entries(keeps).map(([field, path]) => [field, keptText(valueAt(value, path), path, host)]),
    ),
  };
}

function keptText(value: JsonValue | undefined, path: AnswerPath, host: string): string {
  const text = typeof value === 'number' || typeof value === 'string' ? String(value).trim() : '';
  if (text !== '' && text.length <= 1_000 && !control.test(text)) return text;
  throw new UpstreamFailure(
    'refused',
    `the answer of ${host} with the access token has no ${path.join('.')}`,
    {
      reason: 'brokenBody',
      status: 200,
    },
  );
}

function refusedTokens(
  status: number,
  value: JsonValue,
  secrets: readonly string[],
  { kind }: IssuedAuthentication,
  host: string,
): UpstreamFailure {
  const texts = isJsonObject(value)
    ? [memberOf(value, 'error'), memberOf(value, 'error_description')].filter(
        (text) => typeof text === 'string',
      )
    : [];
  const words = redactMessage(texts.join(': '), secrets);
  const why = words === '' ? '' : ` (${words})`;
  if (kind === 'clientCredentials') {
    const text = `${host} gives the client no access token${why}`;
    return new UpstreamFailure('unauthorized', text, { reason: 'answer', status });
  }
  const refused = `${host} does not renew the access token${why}: connect the account again`;
  const isEnded = isJsonObject(value) && memberOf(value, 'error') === 'invalid_grant';
  return isEnded
    ? new EndedGrantError(
        `${refused} and give the connector its new credentials; until they change, ${host} is not asked`,
        status,
      )
    : new UpstreamFailure('unauthorized', refused, { reason: 'answer', status });
}
