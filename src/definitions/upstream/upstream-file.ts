import * as z from 'zod';
import type { EntityName } from '../../core/names.ts';
import type { Frozen } from '../frozen.ts';
import { expectedKind, jsonValue, strictObject, textAs } from '../schema-problems.ts';
import {
  emptyFile,
  recordsFile,
  wholeOrPath,
  answerPathText,
  headerName,
  pathText,
  queryName,
  requestPath,
  templateUrl,
  textTemplate,
  linearPattern,
  header,
  hostText,
} from './service-texts.ts';

export type UpstreamFile = z.infer<ReturnType<typeof upstreamFile>>;
export type EntityRequestsFile = UpstreamFile['entities'][string];
export type ListRequestFile = NonNullable<EntityRequestsFile['list']>;
export type RequestFile = NonNullable<EntityRequestsFile['list' | 'get' | 'download']>;
export type ParamRuleFile = RequestFile['params'][string];
export type PagingFile = ListRequestFile['paging'];
export type PlaceFile = z.infer<ReturnType<typeof placeFile>>;
export type CheckFile = UpstreamFile['check'];

/**
 * The format of `upstream:`: shapes only; `checkUpstream` checks the parts against each other and against the entities.
 * `entities` stays as it is written, for the content hash.
 */
export function upstreamFile() {
  // A header that is made of a credential field is not sent where the credentials lack that field.
  const headers = z.record(z.string(), textOrValue()).default({});
  const limits = {
    // Limits the whole call, from connecting to the last byte of the body.
    timeoutMs: z.int().min(1000).max(600_000),
    // Limits the body, both compressed and decompressed; downloaded files are exempt.
    maxBodyBytes: z.int().min(1024).max(1_073_741_824),
  };

  return strictObject({
    // Scheme https (http only for loopback addresses), names in the host part only.
    baseUrl: textAs((text, note) => {
      const template = templateUrl(text, note);
      if (text.endsWith('/')) note('expected no / at its end: every path begins with one');
      if (/:\/\/[^/]*\/.*\{/.test(text)) note('expected names in the host only, none behind its first /');
      return template;
    }),
    // Every name of `baseUrl`.
    host: z.record(z.string(), hostVariable()).default({}),
    // Authentications by the title of the credential shape; every shape of the definition has one.
    auth: z.record(z.string(), authentication()),
    headers,
    // The request that proves the credentials, and where its answer says which account they belong to.
    check: strictObject({
      ...requestShape(),
      headers,
      // One path, or several in order: the first that the answer has. Absent: no answer says it.
      identity: z
        .preprocess(
          (value) => (typeof value === 'string' ? [value] : value),
          z.array(answerPathText()).min(1).max(5),
        )
        .optional(),
      name: answerPathText().nullable().default(null),
    }),
    // Limits for one credential, shared by all entities and processes.
    limits: strictObject({
      concurrency: z.int().min(1).max(100),
      requestsPerSecond: z.number().positive().max(1000),
      ...limits,
    }),
    // Places of an error's text: the first that holds a text is used.
    message: z.array(answerPathText()).min(1),
    failed: failedAnswer().nullable().default(null),
    // Rules in order: the first that matches decides. None matches: `defaultFailureClass`.
    errors: z.array(errorRule()).default([]),
    // Waits in order: the first that the answer has is used.
    retryAfter: z
      .array(wait())
      .min(1)
      .prefault([
        { header: 'Retry-After', format: 'seconds' },
        { header: 'Retry-After', format: 'httpDate' },
      ]),
    // At 0 the next call waits until `reset`; null: the service has no such header.
    remaining: strictObject({ header: textAs(headerName), reset: headerTime() })
      .nullable()
      .default(null),
    // Entities with a request for each action that calls the third party. Others are read through an API only.
    entities: z.record(
      z.string(),
      strictObject({
        list: strictObject({
          ...actionShape(),
          records: recordsFile(),
          // Without a default: the content hash of a definition that does not say it stays as it was.
          empty: emptyFile().optional(),
          // Key of the metadata -> place of its value in the answer. An absent value is left out.
          metadata: z.record(z.string(), placeFile()).default({}),
          paging: pagingFile().default({ kind: 'none' }),
        }).optional(),
        // The record; empty: the answer is the record.
        get: strictObject({ ...actionShape(), record: textAs(wholeOrPath).default('') }).optional(),
        download: strictObject({
          ...actionShape(),
          // Null: the answer is the file (redirects are followed without credentials). Else the answer is JSON that
          // holds the address of the file.
          url: textAs(pathText).nullable().default(null),
        }).optional(),
        headers,
        timeoutMs: limits.timeoutMs.nullable().default(null),
        maxBodyBytes: limits.maxBodyBytes.nullable().default(null),
      }),
    ),
  });
}

/** The request of an action: the places of its parameters, in addition to the parts that every request has. */
function actionShape() {
  const rule = strictObject({
    as: z.string().optional(),
    in: z.enum(['query', 'header']).optional(),
    at: textAs(pathText).optional(),
    omit: z.array(jsonValue()).min(1).optional(),
    // How an array is written: `a,b`; `n=a&n=b`; `n[]=a&n[]=b`.
    list: z.enum(['comma', 'repeat', 'brackets']).optional(),
  });
  return { ...requestShape(), params: z.record(z.string(), rule).default({}) };
}

function requestShape() {
  return {
    method: z.enum(['GET', 'POST']).default('GET'),
    // It changes nothing, so it may be sent again.
    safe: z.boolean().default(false),
    // Names are parameters of the call, or else fields of the credentials and settings.
    path: requestPath(),
    // Sent with every call, under the parameters. A value that the connector does not have is left out.
    query: z.record(z.string(), z.union([z.string(), requestValue()], { error: givenError })).default({}),
    // Merged under the parameters.
    body: z.record(z.string(), jsonValue()).default({}),
    // Absent: a POST has a body in JSON, a GET none. In a form `{ a: { b: 1 } }` is `a[b]=1`, and each element of an
    // array is sent.
    bodyAs: z.enum(['json', 'form']).optional(),
    // Places in the body, and the values that are put there. Without a default, for the content hash.
    fill: z.record(z.string(), requestValue()).optional(),
  };
}

/** A value of the connector, or a text with parameters in it, which is left out where one of them has no value. */
function requestValue() {
  const made = strictObject({ template: z.string().min(1).max(4_000) });
  return z.union([
    credentialValue(),
    made.transform(({ template }) => ({ kind: 'template', template: textTemplate(template) }) as const),
  ]);
}

/**
 * Translates the pages of the service to a `pagination` by token: the token and the flag are written under the first of
 * its `tokenKeys` and `flagKeys`.
 */
function pagingFile() {
  const fromAddress = {
    keep: z.union([z.literal('any'), z.array(textAs(queryName)).min(1)], {
      error: 'expected names of parameters, or any',
    }),
    alone: z.boolean().default(false),
  };
  const kinds = [
    // The parameters are those of the service, and `metadata` copies values of its answer.
    strictObject({ kind: z.literal('none') }),
    // pageToken. No token ends the walk, as does `more` when it is there and not true.
    strictObject({
      kind: z.literal('cursor'),
      token: placeFile(),
      more: placeFile().nullable().default(null),
    }),
    // pageToken. The next page's address, in the body or the `Link` header with rel=next. The token contains only the
    // `keep` parameters of its query; `alone`: a call with a token sends no other parameters. `any`: all parameters
    // except those that sign the call, sent alone, and a segment that the address appends to the path of the request;
    // the address must then have the origin of `baseUrl`.
    strictObject({ kind: z.literal('nextUrl'), path: textAs(pathText), ...fromAddress }),
    strictObject({ kind: z.literal('linkHeader'), ...fromAddress }),
  ] as const;
  const others = "pages by number, by offset and by the last record are kinds of the entity's pagination";
  return z.discriminatedUnion('kind', kinds, { error: `${expectedKind(kinds)}; ${others}` });
}

/** The place of a value in an answer; `next_cursor` is short for `{ path: next_cursor }`. */
function placeFile() {
  const header = textAs((name, note) => {
    headerName(name, note);
    return name;
  });
  return z.preprocess(
    (value) => (typeof value === 'string' ? { path: value } : value),
    strictObject({ path: textAs(pathText).optional(), header: header.optional() }).refine(
      ({ path, header }) => (path === undefined) !== (header === undefined),
      { error: 'expected path or header, one of the two' },
    ),
  );
}

export type ErrorRule = Frozen<z.output<ReturnType<typeof errorRule>>>;
export type HeaderTime = Frozen<z.output<ReturnType<typeof headerTime>>>;
export type Wait = Frozen<z.output<ReturnType<typeof wait>>>;

const failureClasses = [
  'unauthorized',
  'forbidden',
  'throttled',
  'edge',
  'quota',
  'notFound',
  'staleToken',
  'tooLarge',
  'unavailable',
  'refused',
] as const;

/**
 * `edge`: a network in front of the service refused; `staleToken`: the page token expired, the walk restarts;
 * `unavailable`: temporary; `refused`: the call is wrong and a retry does not help.
 */
export type FailureClass = (typeof failureClasses)[number];

/** A name of the definition; `checkUpstream` verifies that an entity has it. */
const entityName = (name: string | null): EntityName | null => name as EntityName | null;

function scalar() {
  return z.union([z.string(), z.number(), z.boolean()], {
    error: 'expected a text, a number, true or false',
  });
}

/** An answer with a status below 300 that is an error all the same. */
function failedAnswer() {
  return strictObject({
    path: answerPathText(),
    // The value that marks an error; null: any value except null, false and the empty text.
    is: scalar().nullable().default(null),
    // The place of the error's name: tried for the text after `message`.
    code: answerPathText().nullable().default(null),
  });
}

/** All conditions that are not null must hold. */
function errorRule() {
  const name = textAs(headerName).nullable().default(null);
  return strictObject({
    status: z.int().min(200).max(599).nullable().default(null),
    where: z
      .record(z.string(), scalar())
      .default({})
      .transform((where) => Object.entries(where).map(([path, is]) => ({ path: path.split('.'), is }))),
    // A fragment of the error's text, without case.
    contains: z.string().min(3).nullable().default(null),
    hasHeader: name,
    lacksHeader: name,
    entity: z.string().nullable().default(null).transform(entityName),
    // oxlint-disable-next-line unicorn/no-thenable -- the file format's word; a schema is never awaited
    then: z.enum(failureClasses),
  });
}

function timeFormat() {
  return z.enum(['seconds', 'milliseconds', 'unix', 'httpDate']);
}

/** A header that holds a wait (seconds, milliseconds) or a time (unix seconds, an HTTP date). */
function headerTime() {
  return strictObject({ header: textAs(headerName), format: timeFormat() });
}

/** A wait, from a header or of a fixed length. */
function wait() {
  return strictObject({
    header: textAs(headerName).optional(),
    format: timeFormat().optional(),
    seconds: z.number().positive().max(3600).optional(),
  }).transform(({ header, format, seconds }, context) => {
    if (seconds !== undefined && header === undefined && format === undefined) {
      return { kind: 'constant', seconds } as const;
    }
    if (seconds !== undefined || header === undefined || format === undefined) {
      const message = 'expected header and format, or seconds alone';
      context.addIssue({ code: 'custom', message });
    }
    return { kind: 'header', header: header ?? '', format: format ?? 'seconds' } as const;
  });
}

const classByStatus = new Map<number, FailureClass>([
  [401, 'unauthorized'],
  [402, 'quota'],
  [404, 'notFound'],
  [408, 'unavailable'],
  [409, 'unavailable'],
  [410, 'notFound'],
  [413, 'tooLarge'],
  [425, 'unavailable'],
  [429, 'throttled'],
  [529, 'throttled'],
]);

/** Classifies a failed answer that no rule matches. `isJson`: its body was a JSON object. */
export function defaultFailureClass(status: number, isJson: boolean): FailureClass {
  if (status === 403) return isJson ? 'forbidden' : 'edge';
  return classByStatus.get(status) ?? (status >= 500 ? 'unavailable' : 'refused');
}

/**
 * A text made of one credential field or setting, or a fixed one. An absent field, or one without the separator, has no
 * value.
 */
export type CredentialValue = z.output<ReturnType<typeof credentialValue>>;
export type HostVariable = Frozen<z.output<ReturnType<typeof hostVariable>>>;
export type HostSource = HostVariable['from'][number];
export type Authentication = z.output<ReturnType<typeof authentication>>;
const unstoredKinds = ['clientCredentials', 'password', 'login'] as const;
const issuedKinds = [...unstoredKinds, 'refresh', 'authorizationCode'] as const;

/** A token that is issued by a call before the first request. */
export type IssuedAuthentication = Extract<Authentication, { kind: (typeof issuedKinds)[number] }>;
export type LoginAuthentication = Extract<Authentication, { kind: 'login' }>;
/** A token that a token endpoint of OAuth 2.0 issues. */
export type GrantAuthentication = Exclude<IssuedAuthentication, LoginAuthentication>;
/** A way to sign in in which a person grants access in a browser. */
export type SignInAuthentication = Extract<Authentication, { kind: 'authorizationCode' }>;

export function isIssued(auth: Authentication | null): auth is IssuedAuthentication {
  return issuedKinds.some((kind) => kind === auth?.kind);
}

/** The token can be requested again at any time, and is stored nowhere. */
export function isUnstored(auth: Authentication | null): boolean {
  return unstoredKinds.some((kind) => kind === auth?.kind);
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
    // A value stands for the text beside it; any other is refused.
    map: z.record(z.string(), textAs(hostText)).optional(),
    // A value must match as a whole; otherwise nothing is sent. See `linearPattern`.
    pattern: textAs(checkHostPattern, z.string().min(1).max(200)).optional(),
  }).refine(({ map, pattern }) => map !== undefined || pattern !== undefined, {
    error: 'expected a pattern, or a map of values to hosts',
  });
}

/** How calls are signed. */
export function authentication() {
  // Any scheme of Authorization may be written out here.
  const signedHeader = textAs((name, note) =>
    name.toLowerCase() === 'authorization' ? headerName(name, note) : header(name, note),
  );
  const given = [
    strictObject({ kind: z.literal('basic'), user: credentialValue(), password: credentialValue() }),
    // `Authorization: <scheme> <token>`.
    strictObject({ kind: z.literal('bearer'), token: credentialValue(), scheme: scheme() }),
    strictObject({
      kind: z.literal('header'),
      name: signedHeader,
      value: credentialValue(),
      // Stands before the value as it is.
      prefix: z
        .string()
        .max(100)
        .regex(/^[\x20-\x7e]*$/, { error: 'expected a prefix of printable ASCII characters' })
        .default(''),
    }),
    strictObject({ kind: z.literal('query'), name: textAs(queryName), value: credentialValue() }),
  ] as const;
  const kinds = [
    strictObject({ kind: z.literal('none') }),
    ...given,
    // A place in the body of each request, all of which are POST.
    strictObject({ kind: z.literal('body'), at: textAs(pathText), value: credentialValue() }),
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
      params: tokenParams(),
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
      params: tokenParams(),
    }),
    // OAuth 2.0 (RFC 6749, section 4.3): a bearer token for a user's name and password. It is stored nowhere.
    strictObject({
      kind: z.literal('password'),
      scheme: scheme(),
      user: credentialValue(),
      password: credentialValue(),
      ...tokenRequest(),
      // Absent: the service asks for no client, and `style` is body.
      clientId: credentialValue().optional(),
      clientSecret: credentialValue().optional(),
      scope: tokenText().optional(),
      params: tokenParams(),
    }),
    // A token that one call of the service gives, such as for a name and a password. It is stored nowhere.
    strictObject({
      kind: z.literal('login'),
      // Names are as those of `tokenUrl`.
      url: textAs(templateUrl),
      method: z.enum(['POST', 'GET']).default('POST'),
      // Values at places in a JSON body, or of a form: of a GET, the form is its query.
      body: z.record(z.string(), textOrValue()).optional(),
      form: z.record(z.string(), textOrValue()).optional(),
      // How the call itself is signed. Absent: it is not.
      sign: z.discriminatedUnion('kind', given, { error: expectedKind(given) }).optional(),
      // The place of the token in the answer.
      token: answerPathText(),
      scheme: scheme(),
      // The header that the token goes into as it is; absent: Authorization, behind `scheme`.
      header: signedHeader.optional(),
      // The place of the seconds that the token is valid for, or the time itself. Absent: until it is refused.
      expiresIn: answerPathText().optional(),
      lifetimeMs: z.int().min(1000).optional(),
      keeps: keeps(),
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
    keeps: keeps(),
  };
}

/** Credential field -> place of its value in the answer, such as the host of the account. */
function keeps() {
  return z.record(z.string(), answerPathText()).default({});
}

/** Additional parameters of a token request. */
function tokenParams() {
  return z.record(textAs(queryName), z.union([tokenText(), credentialValue()])).default({});
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

const givenError = 'expected a text, or a value of the credentials such as { field: account_id }';

function textOrValue() {
  return z.union([z.string(), credentialValue()], { error: givenError });
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

/**
 * Checks that a pattern can be matched, and that it was not written for more than host names: `buildAddress` refuses
 * any other value.
 */
function checkHostPattern(text: string, note: (message: string) => void): string {
  try {
    const pattern = linearPattern(text);
    if (pattern.programSize() > maxPatternSize) {
      note('expected fewer repetitions in it: multiplied, they are too many');
    } else if (pattern.testExact('')) note('expected a pattern that does not match an empty text');
    else if (['a/b', 'a:1', 'a@b', 'a b'].some((other) => pattern.testExact(other))) {
      note('expected a pattern that matches host names alone, such as [a-z0-9-]+');
    }
  } catch {
    note('expected a regular expression without look-around and back-references');
  }
  return text;
}

/** Twice that of a pattern for a whole host name. */
const maxPatternSize = 1_000;
