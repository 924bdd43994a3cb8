import * as z from 'zod';
import { strictObject } from './schema-problems.ts';
import { upstreamFile } from './upstream/upstream-file.ts';

let schema: ReturnType<typeof makeSchema> | null = null;

/**
 * The format of `config/definitions/*.yaml`: shapes only; `checkDefinition` holds the parts against each other. Made
 * when it is first asked for: that takes a tenth of a start, and definitions that the build has checked do not need it.
 */
export function definitionFile(): ReturnType<typeof makeSchema> {
  return (schema ??= makeSchema());
}

export type DefinitionFile = z.infer<ReturnType<typeof makeSchema>>;
export type EntityFile = DefinitionFile['entities'][string];
export type ActionFile = NonNullable<EntityFile['actions']['list' | 'get' | 'download']>;
export type ParamFile = ActionFile['params'][string];

function makeSchema() {
  const fieldType = z.enum(['string', 'integer', 'number', 'boolean', 'object', 'array', 'any']);
  const paramType = z.enum(['string', 'integer', 'boolean', 'object', 'array']);
  const fields = z.record(z.string(), fieldType);
  const names = z.array(z.string());
  const text = z
    .string()
    .min(1)
    .max(500)
    .regex(/^[^\p{Cc}\p{Cs}]+$/u, { error: 'expected a text of one line' });

  const paramShape = {
    type: paramType,
    required: z.boolean().default(false),
    enum: z.array(z.string()).min(1).nullable().default(null),
    default: z.union([z.string(), z.number(), z.boolean()]).nullable().default(null),
    min: z.number().nullable().default(null),
    max: z.number().nullable().default(null),
    aboveMax: z.enum(['cap', 'refuse']).default('refuse'),
  };

  const member = orShort(strictObject(paramShape));
  const param = orShort(
    strictObject({ ...paramShape, members: z.record(z.string(), member).nullable().default(null) }),
  );

  const actionShape = {
    params: z.record(z.string(), param).default({}),
    key: z.record(z.string(), z.string()).default({}),
  };
  const action = strictObject(actionShape);
  const get = strictObject({ ...actionShape, direct: z.boolean().default(false) });
  const download = strictObject({
    ...actionShape,
    file: strictObject({
      name: z.string().nullable().default(null),
      contentType: z.string().nullable().default(null),
      size: z.string().nullable().default(null),
      version: names.min(1),
    }),
  });

  const searchable = orShort(
    strictObject({
      type: fieldType,
      from: names.min(1).optional(),
      shape: z.enum(['asIs', 'pairs']).default('asIs'),
    }),
  );

  const credentials = strictObject({
    title: z.string().min(1),
    fields: z.record(
      z.string(),
      strictObject({ secret: z.boolean().default(true), required: z.boolean().default(true) }),
    ),
  });

  const pagination = z.discriminatedUnion(
    'kind',
    [
      strictObject({
        kind: z.literal('offset'),
        offsetParam: z.string(),
        sizeParam: z.string(),
        maxSize: z.int().min(1).max(10_000),
        totalKeys: names.default([]),
        totalCountsListing: z.literal(true).optional(),
      }),
      strictObject({
        kind: z.literal('pageToken'),
        tokenParam: z.string(),
        sizeParam: z.string().nullable().default(null),
        maxSize: z.int().min(1).max(10_000).nullable().default(null),
        flagKeys: names.default([]),
        tokenKeys: names.min(1),
        lifetimeMs: z.int().min(1000).default(60_000),
        totalKeys: names.default([]),
      }),
      strictObject({ kind: z.literal('single'), totalKeys: names.default([]) }),
    ],
    { error: 'expected kind: offset, pageToken or single' },
  );

  const condition = z.discriminatedUnion(
    'kind',
    [
      strictObject({ kind: z.literal('in'), field: z.string(), values: names.min(1) }),
      strictObject({ kind: z.literal('notIn'), field: z.string(), values: names.min(1) }),
      strictObject({ kind: z.literal('present'), field: z.string() }),
    ],
    { error: 'expected kind: in, notIn or present' },
  );

  const durationMs = z
    .int()
    .min(1000)
    .max(366 * 86_400_000);

  const parent = strictObject({
    entity: z.string(),
    params: z.record(z.string(), z.string()),
    inject: z.record(z.string(), z.string()).default({}),
    when: z.array(condition).default([]),
    marker: strictObject({ field: z.string(), settlesMs: durationMs }).nullable().default(null),
    byDefault: z.boolean().default(true),
  });

  const recursive = strictObject({
    param: z.string(),
    flag: z.string(),
    parentField: z.string(),
    typeField: z.string(),
    skipTypes: names.default([]),
    ownerTypes: names.default([]),
    maxDepth: z.int().min(1).max(100),
    rootField: z.string(),
    depthField: z.string(),
    positionField: z.string(),
  });

  const explode = strictObject({
    field: z.string(),
    into: z.string(),
    carry: names.default([]),
    fields,
    key: names.min(1),
  });

  const params = z.record(z.string(), z.json());

  const incremental = z.discriminatedUnion(
    'kind',
    [
      strictObject({
        kind: z.enum(['keyset', 'since']),
        field: z.string(),
        sinceParam: z.string(),
        lookbackMs: durationMs,
      }),
      strictObject({ kind: z.literal('newestFirst'), field: z.string(), params, lookbackMs: durationMs }),
    ],
    { error: 'expected kind: keyset, since or newestFirst' },
  );

  const unlisted = strictObject({
    field: z.string(),
    values: z.array(z.union([z.string(), z.boolean()])).min(1),
  });

  const entity = strictObject({
    description: text.nullable().default(null),
    descriptions: z.record(z.string(), text).default({}),
    derived: z.record(z.string(), strictObject({ from: names.min(1), path: z.string() })).default({}),
    fields,
    addedLater: names.default([]),
    key: names.min(1),
    ignored: names.default([]),
    volatile: names.default([]),
    moved: z.record(z.string(), strictObject({ from: z.string().min(8), to: z.string().min(8) })).default({}),
    filledFrom: z.record(z.string(), z.string()).default({}),
    searchable: z.record(z.string(), searchable).default({}),
    actions: strictObject({
      list: action.optional(),
      get: get.optional(),
      context_store_search: action.optional(),
      download: download.optional(),
    }),
    pagination,
    order: strictObject({ field: z.string(), params }).nullable().default(null),
    whole: names.default([]),
    growsOnly: z.boolean().default(false),
    totals: z.enum(['trust', 'ignore']).default('trust'),
    incremental: incremental.nullable().default(null),
    deletes: z.enum(['sweep', 'confirm', 'never']).default('sweep'),
    unlisted: z.array(unlisted).default([]),
    window: strictObject({ since: z.string(), before: z.string() }).nullable().default(null),
    fixedParams: params.default({}),
    only: strictObject({ field: z.string(), value: z.string() }).nullable().default(null),
    parents: z.array(parent).default([]),
    recursive: recursive.nullable().default(null),
    explode: explode.nullable().default(null),
  });

  const errorPattern = strictObject({
    status: z.int().min(400).max(599),
    contains: z.string().min(3),
    // oxlint-disable-next-line unicorn/no-thenable -- the file format's word; a schema is never awaited
    then: z.enum(['restart-walk', 'skip-partition', 'skip-entity', 'throttle', 'smaller-page', 'stop']),
    entity: z.string().nullable().default(null),
  });

  return strictObject({
    name: z.string(),
    title: z.string().min(1),
    aliases: z.array(z.string().min(1)).default([]),
    id: z.uuid({ error: 'expected a UUID' }),
    rateLimit: strictObject({
      requestsPerSecond: z.number().positive().max(1000),
      concurrency: z.int().min(1).max(32),
    }),
    errors: z.array(errorPattern).default([]),
    credentials: z.array(credentials).default([]),
    entities: z.record(z.string(), entity),
    upstream: upstreamFile().nullable().default(null),
  });
}

/** `email: string` is short for `email: { type: string }`. */
function orShort<Schema extends z.ZodType>(schema: Schema): z.ZodPreprocess<Schema> {
  return z.preprocess((value) => (typeof value === 'string' ? { type: value } : value), schema);
}
