import * as z from 'zod';
import { expectedKind, strictObject } from '../schema-problems.ts';
import { failureClasses } from './failure-class.ts';
import { pagingFile, placeFile } from './paging-file.ts';

export type UpstreamFile = z.infer<ReturnType<typeof upstreamFile>>;
export type ValueFile = z.infer<ReturnType<typeof valueFile>>;
export type PlainAuthenticationFile = z.infer<ReturnType<typeof plainAuthenticationFile>>;
export type AuthenticationFile = UpstreamFile['auth'][string];
export type HostSourceFile = UpstreamFile['host'][string]['from'][number];
export type EntityRequestsFile = UpstreamFile['entities'][string];
export type ListRequestFile = NonNullable<EntityRequestsFile['list']>;
export type RequestFile = NonNullable<EntityRequestsFile['list' | 'get' | 'download']>;
export type ParamRuleFile = RequestFile['params'][string];
export type PagingFile = ListRequestFile['paging'];
export type PlaceFile = z.infer<ReturnType<typeof placeFile>>;
export type CheckFile = UpstreamFile['check'];

/**
 * The format of `upstream:`: shapes only; `checkUpstream` holds the parts against each other and against the entities.
 */
export function upstreamFile() {
  const texts = z.record(z.string(), z.string()).default({});
  const scalar = z.union([z.string(), z.number(), z.boolean()], {
    error: 'expected a text, a number, true or false',
  });
  const timeFormat = z.enum(['seconds', 'milliseconds', 'unix', 'httpDate']);
  const headerTime = strictObject({ header: z.string(), format: timeFormat });

  const hostVariable = strictObject({
    from: z
      .array(
        strictObject({
          ...valueShape(),
          lookup: strictObject({
            url: z.string(),
            auth: plainAuthenticationFile(),
            path: z.string(),
            afterLast: z.string().min(1).nullable().default(null),
          }).optional(),
        }),
      )
      .min(1),
    pattern: z.string().min(1).max(200),
  });

  const limits = {
    timeoutMs: z.int().min(1000).max(600_000),
    maxBodyBytes: z.int().min(1024).max(1_073_741_824),
  };

  return strictObject({
    baseUrl: z.string(),
    host: z.record(z.string(), hostVariable).default({}),
    auth: z.record(z.string(), authenticationFile()),
    headers: texts,
    check: strictObject({
      ...requestShape(),
      // One path, or several.
      identity: z.preprocess(
        (value) => (typeof value === 'string' ? [value] : value),
        z.array(z.string()).min(1).max(5),
      ),
      name: z.string().nullable().default(null),
    }),
    limits: strictObject({
      concurrency: z.int().min(1).max(100),
      requestsPerSecond: z.number().positive().max(1000),
      ...limits,
    }),
    message: z.array(z.string()).min(1),
    failed: strictObject({
      path: z.string(),
      is: scalar.nullable().default(null),
      code: z.string().nullable().default(null),
    })
      .nullable()
      .default(null),
    errors: z
      .array(
        strictObject({
          status: z.int().min(200).max(599).nullable().default(null),
          where: z.record(z.string(), scalar).default({}),
          contains: z.string().min(3).nullable().default(null),
          hasHeader: z.string().nullable().default(null),
          lacksHeader: z.string().nullable().default(null),
          entity: z.string().nullable().default(null),
          // oxlint-disable-next-line unicorn/no-thenable -- the file format's word; a schema is never awaited
          then: z.enum(failureClasses),
        }),
      )
      .default([]),
    retryAfter: z
      .array(
        strictObject({
          header: z.string().optional(),
          format: timeFormat.optional(),
          seconds: z.number().positive().max(3600).optional(),
        }),
      )
      .min(1)
      .default([
        { header: 'Retry-After', format: 'seconds' },
        { header: 'Retry-After', format: 'httpDate' },
      ]),
    remaining: strictObject({ header: z.string(), reset: headerTime }).nullable().default(null),
    entities: z.record(
      z.string(),
      strictObject({
        list: listFile().optional(),
        get: strictObject({ ...actionShape(), record: z.string().default('') }).optional(),
        download: strictObject({
          ...actionShape(),
          url: z.string().nullable().default(null),
        }).optional(),
        rename: texts,
        inject: texts,
        headers: texts,
        timeoutMs: limits.timeoutMs.nullable().default(null),
        maxBodyBytes: limits.maxBodyBytes.nullable().default(null),
      }),
    ),
  });
}

function listFile() {
  return strictObject({
    ...actionShape(),
    records: z.string(),
    metadata: z.record(z.string(), placeFile()).default({}),
    paging: pagingFile().default({ kind: 'none' }),
  });
}

/** Of a request for an action: where its parameters go, beside what every request has. */
function actionShape() {
  const rule = strictObject({
    as: z.string().optional(),
    in: z.enum(['query', 'header']).optional(),
    at: z.string().optional(),
    omit: z.array(z.json()).min(1).optional(),
    list: z.enum(['comma', 'repeat', 'brackets']).optional(),
  });
  return { ...requestShape(), params: z.record(z.string(), rule).default({}) };
}

function requestShape() {
  return {
    method: z.enum(['GET', 'POST']).default('GET'),
    safe: z.boolean().default(false),
    path: z.string(),
    query: z.record(z.string(), z.string()).default({}),
    body: z.record(z.string(), z.json()).default({}),
  };
}

function authenticationFile() {
  const kinds = [
    ...plainKinds(),
    strictObject({
      kind: z.literal('refresh'),
      scheme: scheme(),
      accessToken: z.string(),
      refreshToken: z.string(),
      clientId: valueFile(),
      clientSecret: valueFile(),
      tokenUrl: z.string(),
      style: z.enum(['basic', 'body']),
      format: z.enum(['form', 'json']),
      rotates: z.boolean(),
    }),
  ] as const;
  return z.discriminatedUnion('kind', kinds, { error: expectedKind(kinds) });
}

function plainAuthenticationFile() {
  const kinds = plainKinds();
  return z.discriminatedUnion('kind', kinds, { error: expectedKind(kinds) });
}

function plainKinds() {
  return [
    strictObject({ kind: z.literal('basic'), user: valueFile(), password: valueFile() }),
    strictObject({ kind: z.literal('bearer'), token: valueFile(), scheme: scheme() }),
    strictObject({
      kind: z.literal('header'),
      name: z.string(),
      value: valueFile(),
      prefix: z.string().max(100).default(''),
    }),
    strictObject({ kind: z.literal('query'), name: z.string(), value: valueFile() }),
  ] as const;
}

function scheme() {
  return z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9-]{0,40}$/, { error: 'expected a word such as Bearer or OAuth' })
    .default('Bearer');
}

function valueFile() {
  return strictObject(valueShape());
}

function valueShape() {
  return {
    field: z.string().optional(),
    text: z.string().optional(),
    afterLast: z.string().min(1).optional(),
    suffix: z.string().min(1).optional(),
  };
}
