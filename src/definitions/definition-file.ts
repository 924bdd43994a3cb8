import * as z from 'zod';
import { jsonValue, strictObject } from './schema-problems.ts';
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
    // What the service does above `max`: `cap` answers with `max` records, `refuse` answers 400.
    aboveMax: z.enum(['cap', 'refuse']).default('refuse'),
  };

  const member = orShort(strictObject(paramShape));
  const param = orShort(
    // Members of an `object` parameter, where they are known (`sort.direction`); null: anything goes.
    strictObject({ ...paramShape, members: z.record(z.string(), member).nullable().default(null) }),
  );

  const actionShape = {
    params: z.record(z.string(), param).default({}),
    key: z.record(z.string(), z.string()).default({}),
  };
  const action = strictObject(actionShape);
  // `direct`: the service itself has it, and a Connector Execution API does not.
  const get = strictObject({ ...actionShape, direct: z.boolean().default(false) });
  const download = strictObject({
    ...actionShape,
    // Fields of a record that describe its file; null where the record does not say. `size` is in bytes; the file is
    // another one when one of the fields `version` has another value.
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
      // Fields of the stored record (or of its exploded element): the first of them that has a value. Default: the
      // field of this name.
      from: names.min(1).optional(),
      // `pairs`: an object by name becomes an array of `{name, value}`, by name.
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
        // Keys of `connector_metadata`, first match wins: how many records the listing has. An answer may lack them.
        totalKeys: names.default([]),
        // The service documents that its totals count the listing, not the page: a first page with as many records as
        // its total is the whole listing.
        totalCountsListing: z.literal(true).optional(),
      }),
      strictObject({
        kind: z.literal('pageToken'),
        tokenParam: z.string(),
        sizeParam: z.string().nullable().default(null),
        maxSize: z.int().min(1).max(10_000).nullable().default(null),
        // Keys of `connector_metadata`, first match wins: the flag that says more is there, and the next token.
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
    // Child's `list` parameter -> field of the parent record.
    params: z.record(z.string(), z.string()),
    // Child's field -> `list` parameter that fills it. Key parts among them always come from the partition.
    inject: z.record(z.string(), z.string()).default({}),
    // Only parents that meet one of these have children; empty: all do.
    when: z.array(condition).default([]),
    // Field of the parent record that changes with anything below it: children found with the same value again are not
    // read. `settlesMs`: its clock is that coarse. Null: children are read whenever they are found.
    marker: strictObject({ field: z.string(), settlesMs: durationMs }).nullable().default(null),
    // Those not `byDefault` are chosen in the settings.
    byDefault: z.boolean().default(true),
  });

  const recursive = strictObject({
    // `list` parameter that names the listing.
    param: z.string(),
    // Boolean field: the record has its own listing.
    flag: z.string(),
    // Object field that names the listing a record belongs to: `parent.type` says which member of it holds the id.
    parentField: z.string(),
    typeField: z.string(),
    // Types whose children are stored elsewhere and are not entered.
    skipTypes: names.default([]),
    // Values of `parent.type` under which a record lies in a tree; one with another has left it. Empty: any.
    ownerTypes: names.default([]),
    maxDepth: z.int().min(1).max(100),
    // Injected fields: the root listing's id, the depth (0 for the root listing's own records), the position in the
    // listing (from 0).
    rootField: z.string(),
    depthField: z.string(),
    positionField: z.string(),
  });

  const explode = strictObject({
    field: z.string(),
    into: z.string(),
    // Fields taken over from the parent record.
    carry: names.default([]),
    fields,
    // Every part is NOT NULL; an absent one is ''.
    key: names.min(1),
  });

  const params = z.record(z.string(), jsonValue());

  // `field`: the change value, a dotted path in the record; into an exploded array, the highest of its elements counts
  // (`activity.timestamp`). `lookbackMs` is taken off the watermark when it is read.
  const incremental = z.discriminatedUnion(
    'kind',
    [
      // `keyset`: sorted by `field` (the entity's `order`), page after page from the last value on. `since`: the
      // service filters by `sinceParam`; paged as a full walk is.
      strictObject({
        kind: z.enum(['keyset', 'since']),
        field: z.string(),
        sinceParam: z.string(),
        lookbackMs: durationMs,
      }),
      // Sorted by `field` descending with `params`; ends below the watermark.
      strictObject({ kind: z.literal('newestFirst'), field: z.string(), params, lookbackMs: durationMs }),
    ],
    { error: 'expected kind: keyset, since or newestFirst' },
  );

  const unlisted = strictObject({
    field: z.string(),
    values: z.array(z.union([z.string(), z.boolean()])).min(1),
  });

  const entity = strictObject({
    // What its records are, for people; null where the file does not say.
    description: text.nullable().default(null),
    // What fields mean, for people: its own and those of exploded elements.
    descriptions: z.record(z.string(), text).default({}),
    // Columns of the views of current rows that are made of others. They are stored nowhere, and no record changes with
    // them.
    derived: z.record(z.string(), strictObject({ from: names.min(1), path: z.string() })).default({}),
    fields,
    // Fields that count in a record's hash as if they still lay in `_extra`.
    addedLater: names.default([]),
    key: names.min(1),
    // Top-level fields dropped on arrival: the only ones that ever are.
    ignored: names.default([]),
    // Dotted paths left out of the content hash; `*` stands for any one name or array position.
    volatile: names.default([]),
    // Text field -> addresses that the service has moved: a value that begins with `to` counts in the content hash as
    // if it began with `from`.
    moved: z.record(z.string(), strictObject({ from: z.string().min(8), to: z.string().min(8) })).default({}),
    // Field -> the field that the service sends in its place. The first is given the value of the second, which is kept
    // as well; a value that is such a copy is left out of the content hash.
    filledFrom: z.record(z.string(), z.string()).default({}),
    // What a search of the indexed store returns and can be asked for, by name. Empty: every column. The entity is in
    // the store where it has the action `context_store_search`.
    searchable: z.record(z.string(), searchable).default({}),
    actions: strictObject({
      list: action.optional(),
      get: get.optional(),
      context_store_search: action.optional(),
      download: download.optional(),
    }),
    pagination,
    // Parameters that sort by a field no record ever moves backwards in; null where no such sort exists.
    order: strictObject({ field: z.string(), params }).nullable().default(null),
    // Fields that every whole record has: one that lacks a value in any of them came in part, and is never stored as it
    // is. Empty: nothing is known.
    whole: names.default([]),
    // Rows are only ever added, anywhere in a stable order, and never leave: pages that overlap prove a walk without a
    // sort.
    growsOnly: z.boolean().default(false),
    totals: z.enum(['trust', 'ignore']).default('trust'),
    // How only what changed is asked for; null: every walk is full.
    incremental: incremental.nullable().default(null),
    // What it takes to believe that a record is deleted: `sweep`: absence from a complete full walk (records never move
    // from one parent to another); `confirm`: `get` finds nothing either; `never`: an event happened and stays.
    deletes: z.enum(['sweep', 'confirm', 'never']).default('sweep'),
    // Records that meet one of these exist although listings may leave them out (trashed, archived): they are not
    // deleted.
    unlisted: z.array(unlisted).default([]),
    // `list` parameters that bound a walk at both ends, for backfills; null where there are none.
    window: strictObject({ since: z.string(), before: z.string() }).nullable().default(null),
    // Sent with every `list` call (for example a filter that keeps pages and data sources apart).
    fixedParams: params.default({}),
    // Records whose `field` has another value are of another kind and are filtered.
    only: strictObject({ field: z.string(), value: z.string() }).nullable().default(null),
    // Ways to find this entity's partitions; empty for a root entity.
    parents: z.array(parent).default([]),
    recursive: recursive.nullable().default(null),
    explode: explode.nullable().default(null),
  });

  const errorPattern = strictObject({
    status: z.int().min(400).max(599),
    contains: z.string().min(3),
    // oxlint-disable-next-line unicorn/no-thenable -- the file format's word; a schema is never awaited
    then: z.enum(['restart-walk', 'skip-partition', 'skip-entity', 'throttle', 'smaller-page', 'stop']),
    // Only for this entity; null: for all.
    entity: z.string().nullable().default(null),
  });

  return strictObject({
    name: z.string(),
    title: z.string().min(1),
    // Other names that people know it by, such as that of the product.
    aliases: z.array(z.string().min(1)).default([]),
    // UUID by which the API's catalog knows this connector type.
    id: z.uuid({ error: 'expected a UUID' }),
    rateLimit: strictObject({
      requestsPerSecond: z.number().positive().max(1000),
      concurrency: z.int().min(1).max(32),
    }),
    errors: z.array(errorPattern).default([]),
    // What a new connector may bring to sign in with the third party: one of these. Empty: nothing is known about it,
    // anything goes.
    credentials: z.array(credentials).default([]),
    entities: z.record(z.string(), entity),
    upstream: upstreamFile().nullable().default(null),
  });
}

/** `email: string` is short for `email: { type: string }`. */
function orShort<Schema extends z.ZodType>(schema: Schema): z.ZodPreprocess<Schema> {
  return z.preprocess((value) => (typeof value === 'string' ? { type: value } : value), schema);
}
