import * as z from 'zod';
import type { Frozen } from '../frozen.ts';
import { linearPattern } from '../linear-pattern.ts';
import { expectedKind, strictObject, textAs } from '../schema-problems.ts';
import { answerPath, header, headerName, queryName, templateUrl } from './sent-texts.ts';

/** A text made of one credential field, or a fixed one. An absent field, or one without the separator, has no value. */
export type CredentialValue = z.output<ReturnType<typeof credentialValue>>;
export type HostSource = Frozen<z.output<ReturnType<typeof hostVariable>>>['from'][number];
export type Authentication = z.output<ReturnType<typeof authentication>>;
/** A bearer token that a token endpoint issues. */
export type IssuedAuthentication = Extract<
  Authentication,
  { kind: 'refresh' | 'clientCredentials' | 'authorizationCode' }
>;
/** A way to sign in in which a person grants access in a browser. */
export type SignInAuthentication = Extract<Authentication, { kind: 'authorizationCode' }>;

export function isIssued(auth: Authentication | null): auth is IssuedAuthentication {
  return auth !== null && ['refresh', 'clientCredentials', 'authorizationCode'].includes(auth.kind);
}

/** A name in the host of an address. */
export function hostVariable() {
  // `origin`: the value may be a whole origin (`https://host`), of which only the host is used.
  const source = strictObject({ ...valueShape(), origin: z.literal(true).optional() });
  return strictObject({
    // Sources in order: the first that has a value is used.
    from: z
      .array(
        source.transform(({ origin, ...value }, context) => {
          if (origin !== undefined && value.field === undefined) {
            refuse(context, 'expected origin beside field only');
          }
          return { ...valueOf(value, context), isOrigin: origin ?? false };
        }),
      )
      .min(1),
    // A value must match as a whole; otherwise nothing is sent. See `linearPattern`.
    pattern: textAs(checkHostPattern, z.string().min(1).max(200)),
  });
}

/** How calls are signed. */
export function authentication() {
  const kinds = [
    strictObject({ kind: z.literal('basic'), user: credentialValue(), password: credentialValue() }),
    // `Authorization: <scheme> <token>`.
    strictObject({ kind: z.literal('bearer'), token: credentialValue(), scheme: scheme() }),
    strictObject({
      kind: z.literal('header'),
      // Any scheme of Authorization may be written out here.
      name: textAs((name, note) =>
        name.toLowerCase() === 'authorization' ? headerName(name, note) : header(name, note),
      ),
      value: credentialValue(),
      // Stands before the value as it is.
      prefix: z
        .string()
        .max(100)
        .regex(/^[\x20-\x7e]*$/, { error: 'expected a prefix of printable ASCII characters' })
        .default(''),
    }),
    strictObject({ kind: z.literal('query'), name: textAs(queryName), value: credentialValue() }),
    // OAuth 2.0 (RFC 6749, section 6): a bearer token that a refresh token renews. Without a refresh token it is a
    // plain bearer token.
    strictObject({
      kind: z.literal('refresh'),
      scheme: scheme(),
      // Credential field of the access token; may be absent: then a token is requested before the first call. A new one
      // is saved here.
      accessToken: z.string(),
      // Credential field of the refresh token. A new one is saved here before it is used.
      refreshToken: z.string(),
      ...tokenRequest(),
      // Each answer brings a new refresh token and ends the old one.
      rotates: z.boolean(),
    }),
    // OAuth 2.0 (RFC 6749, section 4.4): a bearer token for the client itself. It is stored nowhere.
    strictObject({
      kind: z.literal('clientCredentials'),
      scheme: scheme(),
      ...tokenRequest(),
      // Scopes, separated by spaces.
      scope: tokenText().optional(),
      // Additional parameters that the service requires.
      params: z.record(textAs(queryName), tokenText()).default({}),
    }),
    // OAuth 2.0 (RFC 6749, section 4.1, with RFC 7636): a person signs in with `connector-sync login`. The tokens are
    // stored with the connector's sink, and renewed if a refresh token comes with them.
    strictObject({
      kind: z.literal('authorizationCode'),
      scheme: scheme(),
      ...tokenRequest(),
      // Absent: the app has none, and `style` is body.
      clientSecret: credentialValue().optional(),
      // The page on which the person agrees. Names are as those of `tokenUrl`.
      authorizeUrl: textAs(templateUrl),
      // Endpoint for devices without a browser (RFC 8628).
      deviceUrl: textAs(templateUrl).optional(),
      // Endpoint that revokes tokens (RFC 7009).
      revokeUrl: textAs(templateUrl).optional(),
      // Scopes, separated by spaces.
      scope: tokenText().optional(),
      // Additional parameters in the address of `authorizeUrl`.
      params: z.record(textAs(queryName), tokenText()).default({}),
      // False: the service refuses the parameters of RFC 7636.
      pkce: z.boolean().default(true),
    }),
  ] as const;
  return z.discriminatedUnion('kind', kinds, { error: expectedKind(kinds) });
}

/** Members for a call of a token endpoint, and for values in its answer other than the tokens. */
function tokenRequest() {
  return {
    clientId: credentialValue(),
    clientSecret: credentialValue(),
    // Names are host variables that do not come with the answer itself.
    tokenUrl: textAs(templateUrl),
    // How the client identifies itself: basic authentication, or `client_id` and `client_secret` in the body.
    style: z.enum(['basic', 'body']),
    format: z.enum(['form', 'json']),
    // Credential field -> place of its value in the answer, such as the host of the account.
    keeps: z.record(z.string(), answerPath()).default({}),
  };
}

function tokenText() {
  return z.string().min(1).max(2_000);
}

function scheme() {
  return z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9-]{0,40}$/, { error: 'expected a word such as Bearer or OAuth' })
    .default('Bearer');
}

export function credentialValue() {
  return strictObject(valueShape()).transform(valueOf);
}

function valueShape() {
  return {
    field: z.string().optional(),
    text: z.string().optional(),
    // Keeps only the text after the last separator: `us1` of `abc-us1`.
    afterLast: z.string().min(1).optional(),
    // Appends a text: `me@example.com/token`.
    suffix: z.string().min(1).optional(),
  };
}

function valueOf(
  { field, text, afterLast, suffix }: z.output<z.ZodObject<ReturnType<typeof valueShape>>>,
  context: z.RefinementCtx,
) {
  if (field === undefined) {
    if (text === undefined) refuse(context, 'expected field or text, one of the two');
    else if (afterLast !== undefined || suffix !== undefined) {
      refuse(context, 'expected afterLast and suffix beside field only');
    }
    return { kind: 'text', text: text ?? '' } as const;
  }
  if (text !== undefined) refuse(context, 'expected field or text, one of the two');
  if (afterLast === undefined) {
    return suffix === undefined
      ? ({ kind: 'field', field } as const)
      : ({ kind: 'suffix', field, suffix } as const);
  }
  if (suffix !== undefined) refuse(context, 'expected afterLast or suffix, not both');
  return { kind: 'afterLast', field, separator: afterLast } as const;
}

function refuse(context: z.RefinementCtx, message: string): void {
  // `continue`: as in `textAs`.
  context.addIssue({ code: 'custom', message, continue: true });
}

/** Checks that a pattern lets through only characters of a host, because a matching value becomes part of one. */
function checkHostPattern(pattern: string, note: (message: string) => void): string {
  let end = 0;
  for (const { 0: found, index } of pattern.matchAll(patternPart)) {
    if (index !== end) break;
    end = index + found.length;
  }
  const rest = pattern.slice(end);
  if (rest !== '') {
    const known = 'a-z, 0-9, "-", "_", "\\.", "\\d", [classes] of them, groups and repetitions';
    note(
      `expected a pattern of ${known}, without look-around, back-references, ^ and $; got ${JSON.stringify(rest.slice(0, 10))} at ${end + 1}`,
    );
    return pattern;
  }
  try {
    const whole = linearPattern(pattern);
    if (whole.size > maxPatternSize) note('expected fewer repetitions in it: multiplied, they are too many');
    else if (whole.test('')) note('expected a pattern that does not match an empty text');
  } catch {
    note('expected a regular expression; its brackets or repetitions do not fit together');
  }
  return pattern;
}

/** Twice that of a pattern for a whole host name. */
const maxPatternSize = 1_000;
const patternPart =
  /\\[.d]|\[(?:[a-z0-9_-]-[a-z0-9]|[a-z0-9_-])+\]|\{\d{1,3}(?:,\d{0,3})?\}|\(\?:|\((?!\?)|[a-z0-9_)|?*+-]/gy;
