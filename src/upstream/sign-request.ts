import type { Authentication, CredentialValue } from '../definitions/upstream/authentication.ts';
import { credentialValue, unusable, type OpenCredentials } from './credentials.ts';

/** What authentication adds to a request. */
export interface Signature {
  readonly headers: Readonly<Record<string, string>>;
  readonly query: readonly (readonly [string, string])[];
  /** What was made of the credentials: as secret as they are. */
  readonly secrets: readonly string[];
}

const noSignature: Signature = { headers: {}, query: [], secrets: [] };

/** Throws `UpstreamFailure` unauthorized where the credentials lack a value, or have one that no header can hold. */
export function signRequest(
  auth: Authentication | null,
  { values }: Pick<OpenCredentials, 'values'>,
): Signature {
  if (auth === null) return noSignature;
  const need = (value: CredentialValue): string => {
    const found = credentialValue(value, values);
    if (found !== null) return found;
    throw unusable(value.kind === 'text' ? 'a fixed value is empty' : `${value.field} has no usable value`);
  };
  switch (auth.kind) {
    case 'basic': {
      const user = need(auth.user);
      if (user.includes(':')) throw unusable('a user name must not hold a colon');
      const encoded = Buffer.from(`${user}:${need(auth.password)}`, 'utf8').toString('base64');
      return { headers: { authorization: `Basic ${encoded}` }, query: [], secrets: [encoded] };
    }
    case 'bearer':
      return inHeader('authorization', `${auth.scheme} ${need(auth.token)}`);
    case 'refresh': {
      const token = values.get(auth.accessToken);
      if (token === undefined) throw unusable(`${auth.accessToken} has no usable value`);
      return inHeader('authorization', `${auth.scheme} ${token}`);
    }
    case 'header':
      return inHeader(auth.name, `${auth.prefix}${need(auth.value)}`);
    case 'query': {
      const value = need(auth.value);
      // With its name it can be hidden even where the value is an ordinary word.
      const secrets = [`${auth.name}=${value}`, `${auth.name}=${encodeURIComponent(value)}`];
      return { headers: {}, query: [[auth.name, value]], secrets };
    }
  }
}

function inHeader(name: string, value: string): Signature {
  if (!/^[\x20-\x7e]+$/.test(value)) {
    throw unusable('a value that goes into a header holds characters other than printable ASCII');
  }
  return { headers: { [name]: value }, query: [], secrets: [] };
}
