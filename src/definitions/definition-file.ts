import * as z from 'zod';
import { timeMs } from '../core/clock.ts';
import { derivedKinds } from '../core/records.ts';
import { timeFormatFault } from '../core/time-format.ts';
import { guesses } from './guesses.ts';
import { paginationFile } from './pagination-file.ts';
import { names, strictObject, jsonValue, textAs } from './schema-problems.ts';
import { emptyFile, paths, recordsFile, pathText } from './upstream/service-texts.ts';
import { upstreamFile } from './upstream/upstream-file.ts';

let schema: ReturnType<typeof makeSchema> | null = null;

/**
 * The format of `config/definitions/*.yaml`: shapes only; `checkDefinition` checks the parts against each other. The
 * schema is made on first use: that takes a tenth of a start, and definitions that the build has checked do not need
 * it.
 */
export function definitionFile(): ReturnType<typeof makeSchema> {
  return (schema ??= makeSchema());
}

export type DefinitionFile = z.infer<ReturnType<typeof makeSchema>>;
export type EntityFile = DefinitionFile['entities'][string];
export type ActionFile = NonNullable<EntityFile['actions']['list' | 'get' | 'download']>;
export type ParamFile = ActionFile['params'][string];

function makeSchema() {
  const errorPattern = strictObject({
    status: z.int().min(400).max(599),
    contains: z.string().min(3),
    // oxlint-disable-next-line unicorn/no-thenable -- the file format's word; a schema is never awaited
    then: z.enum(['restart-walk', 'skip-partition', 'skip-entity', 'throttle', 'smaller-page', 'stop']),
    // Only for this entity; null: for all.
    entity: z.string().nullable().default(null),
  });
  const credentials = strictObject({
    title: z.string().min(1),
    fields: z.record(
      z.string(),
      strictObject({ secret: z.boolean().default(true), required: z.boolean().default(true) }),
    ),
  });
  const setting = strictObject({
    title: z.string().min(1),
    secret: z.boolean().default(false),
    required: z.boolean().default(true),
    default: z.string().min(1).nullable().default(null),
    // The allowed texts; null: any.
    values: names().min(1).nullable().default(null),
  });
  return strictObject({
    name: z.string(),
    title: z.string().min(1),
    // Other names that people use for the type, such as that of the product.
    aliases: z.array(z.string().min(1)).default([]),
    // UUID of this connector type in the API's catalog.
    id: z.uuid({ error: 'expected a UUID' }),
    rateLimit: strictObject({
      requestsPerSecond: z.number().positive().max(1000),
      concurrency: z.int().min(1).max(32),
    }),
    errors: z.array(errorPattern).default([]),
    // The ways to sign in with the third party; a new connector brings one of them. Empty: nothing is known, and any
    // credentials are accepted.
    credentials: z.array(credentials).default([]),
    // Texts that a connector gives beside its credentials, whatever the way to sign in, such as the id of an account.
    settings: z.record(z.string(), setting).default({}),
    entities: z.record(z.string(), entity()),
    upstream: upstreamFile().nullable().default(null),
  });
}

function entity() {
  const fields = z.record(z.string(), fieldType());
  const text = z
    .string()
    .min(1)
    .max(500)
    .regex(/^[^\p{Cc}\p{Cs}]+$/u, { error: 'expected a text of one line' });
  const explode = strictObject({
    field: z.string(),
    into: z.string(),
    // Fields taken over from the parent record.
    carry: names().default([]),
    fields,
    // Every part is NOT NULL; an absent one is ''.
    key: names().min(1),
  });
  return strictObject({
    // Describes the records, for people; null where the file does not.
    description: text.nullable().default(null),
    // Describes fields, for people: those of the records and of exploded elements.
    descriptions: z.record(z.string(), text).default({}),
    // Columns of the views of current rows that are computed from others. They are not stored, and do not change
    // records.
    derived: z.record(z.string(), strictObject({ from: names().min(1), path: z.string() })).default({}),
    // Columns that are computed from one value (a field, or a dotted path in one) as a type of the database.
    unpack: z
      .record(z.string(), strictObject({ from: z.string(), as: z.enum(derivedKinds).exclude(['texts']) }))
      .default({}),
    fields,
    // Fields that the record hash treats as if they were still in `_extra`.
    addedLater: names().default([]),
    // `none`: nothing identifies a record: see `withHashKey`.
    key: z.preprocess((key) => (key === 'none' ? [noKey] : key), names().min(1)),
    // Field as the service names it -> field of the file. Applied before anything else reads the record. Without a
    // default, so that definitions without it keep their content hash.
    rename: z.record(z.string(), z.string()).optional(),
    // Field -> the dotted path in the record, after `rename`, that fills it. If the record also has a different value
    // under the field's name, that value is kept as `<field>_in_record`.
    at: z.record(z.string(), textAs(pathText)).optional(),
    // The place of the records in the result of an API's `list`, if the result is no array. Without a default, as
    // above.
    records: recordsFile().optional(),
    // Forms of an empty result; absent: as the list request of `upstream` says.
    empty: emptyFile().optional(),
    // Top-level fields that are dropped on arrival; all others are kept.
    ignored: names().default([]),
    // Dotted paths left out of the content hash; `*` stands for any one name or array position.
    volatile: paths().default([]),
    // Field -> the field that the service sends instead. The first takes the value of the second, which is kept as
    // well; a value copied in this way is left out of the content hash.
    filledFrom: z.record(z.string(), z.string()).default({}),
    // Field -> the fields whose values it reveals, as a hash of an address does: for the masks of a config.
    reveals: z.record(z.string(), names().min(1)).default({}),
    // Path of a field -> the field whose values it contains, such as `lists.id`, for the masks of a config. Fields that
    // `parents` fill in are not listed.
    references: z.record(z.string(), z.string()).default({}),
    // Fields that a search of the indexed store returns and accepts as conditions, by name. Empty: every column. The
    // entity is in the store if it has the action `context_store_search`.
    searchable: z.record(z.string(), searchable()).default({}),
    actions: actions(),
    ...readingShape(),
    explode: explode.nullable().default(null),
  }).transform(withHashKey);
}

/** The field that identifies a record of an entity without a key: a hash of the whole record. */
const recordHash = 'record_hash';
/** The name that `key: none` is read as; no field has it. */
const noKey = '';

interface Keyed {
  readonly key: string[];
  readonly fields: Record<string, z.output<ReturnType<typeof fieldType>>>;
  readonly descriptions: Record<string, string>;
}

/** Adds the member only for a file with `key: none`: others keep their content hash. */
function withHashKey<File extends Keyed>(
  file: File,
  context: z.RefinementCtx,
): File & { readonly isKeyless?: true } {
  const { key, fields, descriptions } = file;
  if (key[0] !== noKey) return file;
  if (Object.hasOwn(fields, recordHash)) {
    const message = 'is the name of the hash that key: none adds: leave it out, or name a key';
    context.addIssue({ code: 'custom', message, path: ['fields', recordHash] });
  }
  return {
    ...file,
    key: [recordHash],
    fields: { [recordHash]: 'string', ...fields },
    descriptions: {
      [recordHash]: 'Hash of the record, in place of the key that the service does not give',
      ...descriptions,
    },
    isKeyless: true,
  };
}

function searchable() {
  return orShort(
    strictObject({
      type: fieldType(),
      // Fields of the stored record (or of its exploded element): the first of them that has a value. Default: the
      // field of this name.
      from: names().min(1).optional(),
      // `pairs`: an object by name becomes an array of `{name, value}`, by name.
      shape: z.enum(['asIs', 'pairs']).default('asIs'),
    }),
  );
}

function actions() {
  const shape = {
    params: z.record(z.string(), param()).default({}),
    key: z.record(z.string(), z.string()).default({}),
  };
  const action = strictObject(shape);
  return strictObject({
    list: action.optional(),
    // `direct`: the service itself has the action, and a Connector Execution API does not.
    get: strictObject({ ...shape, direct: z.boolean().default(false) }).optional(),
    context_store_search: action.optional(),
    download: strictObject({
      ...shape,
      // Fields of a record that describe its file; null where the record does not say. `size` is in bytes; the file is
      // another one when one of the fields `version` has another value.
      file: strictObject({
        name: z.string().nullable().default(null),
        contentType: z.string().nullable().default(null),
        size: z.string().nullable().default(null),
        version: names().min(1),
      }),
    }).optional(),
  });
}

function param() {
  const shape = {
    type: z.enum(['string', 'integer', 'boolean', 'object', 'array']),
    required: z.boolean().default(false),
    enum: names().min(1).nullable().default(null),
    default: z.union([z.string(), z.number(), z.boolean()]).nullable().default(null),
    min: z.number().nullable().default(null),
    max: z.number().nullable().default(null),
    // Behaviour of the service above `max`: `cap` answers with `max` records, `refuse` answers 400.
    aboveMax: z.enum(['cap', 'refuse']).default('refuse'),
  };
  const member = orShort(strictObject(shape));
  // Members of an `object` parameter, where they are known (`sort.direction`); null: anything goes.
  const members = z.record(z.string(), member).nullable().default(null);
  return orShort(strictObject({ ...shape, members }));
}

function fieldType() {
  return z.enum(['string', 'integer', 'number', 'boolean', 'object', 'array', 'any']);
}

/** `email: string` is short for `email: { type: string }`. */
function orShort<Schema extends z.ZodType>(schema: Schema): z.ZodPreprocess<Schema> {
  return z.preprocess((value) => (typeof value === 'string' ? { type: value } : value), schema);
}

/** The members that say how an entity's listings are walked, and the conclusions drawn from them. */
function readingShape() {
  const unlisted = strictObject({
    field: z.string(),
    values: z.array(z.union([z.string(), z.boolean()])).min(1),
  });
  return {
    ...draft(),
    pagination: paginationFile(),
    // Parameters that sort by a field in which records never move backwards; empty where the service sorts so by
    // default, null where no such sort exists.
    order: strictObject({ field: z.string(), params: params().default({}) })
      .nullable()
      .default(null),
    // Fields that every complete record has: a record without a value in one of them came in part, and is never stored
    // in that form. Empty: nothing is known.
    whole: names().default([]),
    // Rows are only added, anywhere in a stable order, and never removed: overlapping pages prove a walk without a
    // sort.
    growsOnly: z.boolean().default(false),
    totals: z.enum(['trust', 'ignore']).default('trust'),
    // The service returns only part of a long listing. Without a default: no content hash changes.
    cut: cut().optional(),
    // How only changes are requested; null: every walk is full.
    incremental: incremental().nullable().default(null),
    // Evidence that is needed before a record counts as deleted: `sweep`: absence from a complete full walk (records
    // never move from one parent to another); `confirm`: `get` finds nothing either; `never`: records are events, and
    // are never deleted.
    deletes: z.enum(['sweep', 'confirm', 'never']).default('sweep'),
    // Records that meet one of these exist although listings may leave them out (trashed, archived): they are not
    // deleted.
    unlisted: z.array(unlisted).default([]),
    // `list` parameters that bound a walk at both ends, for backfills; null where there are none.
    window: strictObject({ since: z.string(), before: z.string() }).nullable().default(null),
    // Sent with every `list` call (for example a filter that keeps pages and data sources apart). Where the parameter
    // is no object, an object is a time of the clock: see `ClockValue` in `params.ts`.
    fixedParams: params().default({}),
    // Records that do not meet each of these are of another kind and are filtered.
    only: z
      .union([onlyFile(), z.array(onlyFile()).min(1)], {
        error: 'expected { field: path, value: 1 }, with value, values or setting, or a list of these',
      })
      .nullable()
      .default(null),
    // List parameter -> its values, each of which has a listing; or the setting that lists them, by commas.
    each: z
      .record(
        z.string(),
        z.union([z.array(scalar()).min(1), strictObject({ field: z.string() })], {
          error: 'expected a list of texts, numbers or booleans, or { field: setting }',
        }),
      )
      .optional(),
    // Field -> the parameter of `each`, or of windows, that fills it.
    inject: z.record(z.string(), z.string()).optional(),
    // Ways to find this entity's partitions; empty for a root entity.
    parents: z.array(parent()).default([]),
    recursive: recursive().nullable().default(null),
  };
}

/** Without defaults, so that definitions without these members keep their content hash. */
function draft() {
  const some = z.array(z.enum(guesses));
  const proof = strictObject({
    on: z.iso.date(),
    rows: z.int().min(0),
    parents: z.int().min(0).optional(),
    // Stands for all that the proof depends on.
    request: z.string().regex(/^[0-9a-f]{16}$/, { error: 'expected 16 hexadecimal digits' }),
  });
  return {
    // Parts that the file of an import does not prove.
    unproven: some.optional(),
    // Guesses that a person answers for.
    accept: some.optional(),
    // Guesses that `definitions try --prove` has found to be right.
    proven: z.partialRecord(z.enum(guesses), proof).optional(),
  };
}

/** `field`: a dotted path; `setting`: its text is the value; `not`: of the others. */
function onlyFile() {
  return strictObject({
    field: textAs(pathText),
    value: scalar().optional(),
    values: z.array(scalar()).min(1).optional(),
    setting: z.string().optional(),
    not: z.literal(true).optional(),
  });
}

function scalar() {
  return z.union([z.string(), z.number(), z.boolean()]);
}

function cut() {
  return strictObject({
    // The key of `connector_metadata` that marks a listing as cut; `is` absent: any value except null, false, 0 and an
    // empty text does.
    sign: strictObject({ key: textAs(pathText), is: scalar().optional() }).optional(),
    // The most records that a listing returns.
    maxResults: z.int().min(1).max(1_000_000_000).optional(),
    // Parameters that sort by the field of `order` in the opposite direction.
    reversed: params().optional(),
  }).refine(({ sign, maxResults }) => sign !== undefined || maxResults !== undefined, {
    error: 'expected sign, maxResults or both',
  });
}

/**
 * `field`: the change value, a dotted path in the record; into an exploded array, the highest of its elements counts
 * (`activity.timestamp`). `format`: how the record has it; absent: a text in ISO 8601. `sinceFormat`: how `sinceParam`
 * has it; absent: as the field. `first`: the value where nothing is known, in full reads as well. `lookbackMs` is taken
 * off the watermark when it is read.
 */
function incremental() {
  // No defaults, so that the content hash of a definition without these members stays the same.
  const format = formatOfTime().optional();
  return z.discriminatedUnion(
    'kind',
    [
      // `keyset`: sorted by `field` (the entity's `order`), each page starting at the last value. `since`: the service
      // filters by `sinceParam`; paged as a full walk is.
      strictObject({
        kind: z.enum(['keyset', 'since']),
        field: z.string(),
        format,
        sinceParam: z.string(),
        sinceFormat: formatOfTime().optional(),
        first: firstTime().optional(),
        lookbackMs: durationMs(),
      }),
      // Sorted by `field` descending with `params`; ends below the watermark.
      strictObject({
        kind: z.literal('newestFirst'),
        field: z.string(),
        format,
        params: params(),
        lookbackMs: durationMs(),
      }),
      windows(),
    ],
    { error: 'expected kind: keyset, since, newestFirst or windows' },
  );
}

/**
 * Each window of the calendar is read as a separate listing, from the one that contains `first` on. It is read in each
 * run until it has ended longer than `lookbackMs` ago, and then with full reads.
 */
function windows() {
  return strictObject({
    kind: z.literal('windows'),
    fromParam: z.string(),
    // Null: the service knows where a window ends.
    toParam: z.string().nullable().default(null),
    // The service includes `toParam`, which is then the last time of the window that the format can say.
    isToIncluded: z.boolean().default(false),
    format: formatOfTime(),
    step: z.union(
      [strictObject({ days: z.int().min(1).max(366) }), strictObject({ months: z.int().min(1).max(12) })],
      { error: 'expected { days: 1 } to { days: 366 }, or { months: 1 } to { months: 12 }' },
    ),
    lookbackMs: durationMs(),
    first: firstTime(),
    // `now`: the service refuses later times, so the last window ends now.
    last: z.enum(['calendar', 'now']).default('calendar'),
    // Time of a record, in `format` or ISO 8601: one outside of its window shows that the parameters are ignored.
    field: z.string().nullable().default(null),
  });
}

function formatOfTime() {
  return textAs((text, fault) => {
    const found = timeFormatFault(text);
    if (found !== null) fault(found);
    return text;
  });
}

/** A time in ISO 8601, or the setting that holds it. */
function firstTime() {
  const error = 'expected a time such as 2024-01-01 or 2024-01-01T00:00:00Z, or { field: <setting> }';
  const time = z.string().refine((text) => timeMs(text) !== null, { error });
  return z.union([time, strictObject({ field: z.string() })], { error });
}

function parent() {
  const condition = z.discriminatedUnion(
    'kind',
    [
      strictObject({ kind: z.literal('in'), field: textAs(pathText), values: names().min(1) }),
      strictObject({ kind: z.literal('notIn'), field: textAs(pathText), values: names().min(1) }),
      strictObject({ kind: z.literal('present'), field: textAs(pathText) }),
    ],
    { error: 'expected kind: in, notIn or present' },
  );
  // One of the parts of a text: the first is 0, the last -1.
  const parentPart = strictObject({
    path: textAs(pathText),
    split: z.string().min(1).max(10),
    part: z.int().min(-50).max(50),
  });
  return strictObject({
    entity: z.string(),
    // Child's `list` parameter -> field of the parent record.
    params: z.record(
      z.string(),
      z.union([textAs(pathText), parentPart], {
        error: "expected a path such as id, or { path: links.self, split: '/', part: -1 }",
      }),
    ),
    // Child's field -> `list` parameter that fills it. Key parts among them always come from the partition.
    inject: z.record(z.string(), z.string()).default({}),
    // Only parents that meet one of these have children; empty: all do.
    when: z.array(condition).default([]),
    // Field of the parent record that changes with anything below it: children with an unchanged value are not read.
    // `settlesMs`: the resolution of its clock. Null: children are always read.
    marker: strictObject({ field: textAs(pathText), settlesMs: durationMs() })
      .nullable()
      .default(null),
    // False: the parent is read only if the settings choose it.
    byDefault: z.boolean().default(true),
  });
}

function recursive() {
  return strictObject({
    // `list` parameter that names the listing.
    param: z.string(),
    // Boolean field: the record has its own listing.
    flag: z.string(),
    // Object field that names the listing of a record: `parent.type` says which member holds the id.
    parentField: z.string(),
    typeField: z.string(),
    // Types whose children are stored elsewhere and are not entered.
    skipTypes: names().default([]),
    // Values of `parent.type` for records in a tree; a record with another value has left it. Empty: any.
    ownerTypes: names().default([]),
    maxDepth: z.int().min(1).max(100),
    // Injected fields: the root listing's id, the depth (0 for the root listing's own records), the position in the
    // listing (from 0).
    rootField: z.string(),
    depthField: z.string(),
    positionField: z.string(),
  });
}

function durationMs() {
  return z
    .int()
    .min(1000)
    .max(366 * 86_400_000);
}

function params() {
  return z.record(z.string(), jsonValue());
}
