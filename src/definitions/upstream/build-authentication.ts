import { answerPath } from './answer-place.ts';
import type {
  Authentication,
  CredentialValue,
  HostSource,
  HostVariable,
  PlainAuthentication,
} from './authentication.ts';
import { checkedTemplate } from './template.ts';
import type {
  AuthenticationFile,
  HostSourceFile,
  PlainAuthenticationFile,
  UpstreamFile,
  ValueFile,
} from './upstream-file.ts';

export function buildHostVariable({ from, pattern }: UpstreamFile['host'][string]): HostVariable {
  return { from: from.map(buildSource), pattern };
}

function buildSource({ lookup, ...value }: HostSourceFile): HostSource {
  return lookup === undefined
    ? buildValue(value)
    : {
        kind: 'lookup',
        url: lookup.url,
        auth: buildPlain(lookup.auth),
        path: answerPath(lookup.path),
        separator: lookup.afterLast,
      };
}

export function buildAuthentication(auth: AuthenticationFile): Authentication {
  if (auth.kind !== 'refresh') return buildPlain(auth);
  return {
    ...auth,
    clientId: buildValue(auth.clientId),
    clientSecret: buildValue(auth.clientSecret),
    tokenUrl: checkedTemplate(auth.tokenUrl),
  };
}

function buildPlain(auth: PlainAuthenticationFile): PlainAuthentication {
  switch (auth.kind) {
    case 'basic':
      return { kind: auth.kind, user: buildValue(auth.user), password: buildValue(auth.password) };
    case 'bearer':
      return { kind: auth.kind, token: buildValue(auth.token), scheme: auth.scheme };
    case 'header':
      return {
        kind: auth.kind,
        name: auth.name.toLowerCase(),
        value: buildValue(auth.value),
        prefix: auth.prefix,
      };
    case 'query':
      return { kind: auth.kind, name: auth.name, value: buildValue(auth.value) };
  }
}

function buildValue({ field = '', text, afterLast, suffix }: ValueFile): CredentialValue {
  if (text !== undefined) return { kind: 'text', text };
  if (afterLast !== undefined) return { kind: 'afterLast', field, separator: afterLast };
  if (suffix !== undefined) return { kind: 'suffix', field, suffix };
  return { kind: 'field', field };
}
