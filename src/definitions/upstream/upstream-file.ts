import * as z from 'zod';
import type { EntityName } from '../../core/names.ts';
import type { Frozen } from '../frozen.ts';
import { expectedKind, jsonValue, strictObject, textAs } from '../schema-problems.ts';
import { authentication, credentialValue, hostVariable } from './authentication.ts';
import { emptyFile, recordsFile, wholeOrPath } from './records-file.ts';
import { answerPath, headerName, pathText, queryName, requestPath, templateUrl } from './sent-texts.ts';

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
  const headers = z
    .record(
      z.string(),
      z.union([z.string(), credentialValue()], {
        error: 'expected a text, or a value of the credentials such as { field: account_id }',
      }),
    )
    .default({});
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
          z.array(answerPath()).min(1).max(5),
        )
        .optional(),
      name: answerPath().nullable().default(null),
    }),
    // Limits for one credential, shared by all entities and processes.
    limits: strictObject({
      concurrency: z.int().min(1).max(100),
      requestsPerSecond: z.number().positive().max(1000),
      ...limits,
    }),
    // Places of an error's text: the first that holds a text is used.
    message: z.array(answerPath()).min(1),
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
    // Names are parameters of the call.
    path: requestPath(),
    // Sent with every call, under the parameters.
    query: z.record(z.string(), z.string()).default({}),
    // POST only; merged under the parameters.
    body: z.record(z.string(), jsonValue()).default({}),
  };
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
    path: answerPath(),
    // The value that marks an error; null: any value except null, false and the empty text.
    is: scalar().nullable().default(null),
    // The place of the error's name: tried for the text after `message`.
    code: answerPath().nullable().default(null),
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
