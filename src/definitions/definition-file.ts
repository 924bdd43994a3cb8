import * as z from 'zod';
import { derivedKinds } from '../core/records.ts';
import { readingShape } from './reading-file.ts';
import { names, strictObject } from './schema-problems.ts';
import { emptyFile, recordsFile } from './upstream/records-file.ts';
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
    // What its records are, for people; null where the file does not say.
    description: text.nullable().default(null),
    // What fields mean, for people: its own and those of exploded elements.
    descriptions: z.record(z.string(), text).default({}),
    // Columns of the views of current rows that are made of others. They are stored nowhere, and no record changes with
    // them.
    derived: z.record(z.string(), strictObject({ from: names().min(1), path: z.string() })).default({}),
    // The same, of one value: a field, or a dotted path in one, as a type of the database.
    unpack: z
      .record(z.string(), strictObject({ from: z.string(), as: z.enum(derivedKinds).exclude(['texts']) }))
      .default({}),
    fields,
    // Fields that count in a record's hash as if they still lay in `_extra`.
    addedLater: names().default([]),
    // `none`: nothing identifies a record: see `withHashKey`.
    key: z.preprocess((key) => (key === 'none' ? [noKey] : key), names().min(1)),
    // Field as the service names it -> field of the file. Before anything else is read of a record. Without a default:
    // the content hash of a definition that does not say it stays as it was.
    rename: z.record(z.string(), z.string()).optional(),
    // Where the result of a `list` of an API has the records, if it is no array. Without a default, as above.
    records: recordsFile().optional(),
    // The same of an empty one; absent: as the list request of `upstream` says.
    empty: emptyFile().optional(),
    // Top-level fields dropped on arrival: the only ones that ever are.
    ignored: names().default([]),
    // Dotted paths left out of the content hash; `*` stands for any one name or array position.
    volatile: names().default([]),
    // Text field -> addresses that the service has moved: a value that begins with `to` counts in the content hash as
    // if it began with `from`.
    moved: z.record(z.string(), strictObject({ from: z.string().min(8), to: z.string().min(8) })).default({}),
    // Field -> the field that the service sends in its place. The first is given the value of the second, which is kept
    // as well; a value that is such a copy is left out of the content hash.
    filledFrom: z.record(z.string(), z.string()).default({}),
    // Field -> the fields whose values it gives away, as a hash of an address does: for the masks of a config.
    reveals: z.record(z.string(), names().min(1)).default({}),
    // Path of a field -> the field whose values it holds, as `lists.id`, for the masks of a config. Fields that
    // `parents` fill in are not among them.
    references: z.record(z.string(), z.string()).default({}),
    // What a search of the indexed store returns and can be asked for, by name. Empty: every column. The entity is in
    // the store where it has the action `context_store_search`.
    searchable: z.record(z.string(), searchable()).default({}),
    actions: actions(),
    ...readingShape(),
    explode: explode.nullable().default(null),
  }).transform(withHashKey);
}

/** The field that identifies a record of an entity without a key: a hash of all that the record is. */
const recordHash = 'record_hash';
/** What `key: none` is read as: the name of no field. */
const noKey = '';

interface Keyed {
  readonly key: string[];
  readonly fields: Record<string, z.output<ReturnType<typeof fieldType>>>;
  readonly descriptions: Record<string, string>;
}

/** Only a file that says `key: none` gets the new member: others keep their content hash. */
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
    // `direct`: the service itself has it, and a Connector Execution API does not.
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
    // What the service does above `max`: `cap` answers with `max` records, `refuse` answers 400.
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
