import * as z from 'zod';
import { paginationFile } from './pagination-file.ts';
import { jsonValue, names, strictObject, textAs } from './schema-problems.ts';
import { pathText } from './upstream/sent-texts.ts';

/** How an entity's listings are walked, and what follows from what they show. */
export function readingShape() {
  const unlisted = strictObject({
    field: z.string(),
    values: z.array(z.union([z.string(), z.boolean()])).min(1),
  });
  return {
    pagination: paginationFile(),
    // Parameters that sort by a field no record ever moves backwards in, none where the service sorts so by default;
    // null where no such sort exists.
    order: strictObject({ field: z.string(), params: params().default({}) })
      .nullable()
      .default(null),
    // Fields that every whole record has: one that lacks a value in any of them came in part, and is never stored as it
    // is. Empty: nothing is known.
    whole: names().default([]),
    // Rows are only ever added, anywhere in a stable order, and never leave: pages that overlap prove a walk without a
    // sort.
    growsOnly: z.boolean().default(false),
    totals: z.enum(['trust', 'ignore']).default('trust'),
    // The service shows a part of a long listing. Without a default: no content hash changes.
    cut: cut().optional(),
    // How only what changed is asked for; null: every walk is full.
    incremental: incremental().nullable().default(null),
    // What it takes to believe that a record is deleted: `sweep`: absence from a complete full walk (records never move
    // from one parent to another); `confirm`: `get` finds nothing either; `never`: an event happened and stays.
    deletes: z.enum(['sweep', 'confirm', 'never']).default('sweep'),
    // Records that meet one of these exist although listings may leave them out (trashed, archived): they are not
    // deleted.
    unlisted: z.array(unlisted).default([]),
    // `list` parameters that bound a walk at both ends, for backfills; null where there are none.
    window: strictObject({ since: z.string(), before: z.string() }).nullable().default(null),
    // Sent with every `list` call (for example a filter that keeps pages and data sources apart). Of a parameter that
    // is no object, an object is a time of the clock: see `clock-value.ts`.
    fixedParams: params().default({}),
    // Records whose `field` has another value are of another kind and are filtered.
    only: strictObject({ field: z.string(), value: z.string() }).nullable().default(null),
    // Ways to find this entity's partitions; empty for a root entity.
    parents: z.array(parent()).default([]),
    recursive: recursive().nullable().default(null),
  };
}

function cut() {
  const scalar = z.union([z.string(), z.number(), z.boolean()]);
  return strictObject({
    // The key of `connector_metadata` that says that a listing is cut; `is` absent: by any value but null, false, 0 and
    // an empty text.
    sign: strictObject({ key: textAs('x', pathText), is: scalar.optional() }).optional(),
    // No listing shows more.
    maxResults: z.int().min(1).max(1_000_000_000).optional(),
    // Parameters that sort by the field of `order` in the opposite direction.
    reversed: params().optional(),
  }).refine(({ sign, maxResults }) => sign !== undefined || maxResults !== undefined, {
    error: 'expected sign, maxResults or both',
    params: { standIn: { maxResults: 1 } },
  });
}

/**
 * `field`: the change value, a dotted path in the record; into an exploded array, the highest of its elements counts
 * (`activity.timestamp`). `format`: it is a number, of seconds or milliseconds since 1970; absent: a text in ISO 8601.
 * `sinceFormat`: how `sinceParam` has it; absent: as the field. `lookbackMs` is taken off the watermark when it is
 * read.
 */
function incremental() {
  // Without defaults: the content hash of a definition that does not say them stays as it was.
  const format = z.enum(['unix', 'unixMs']).optional();
  return z.discriminatedUnion(
    'kind',
    [
      // `keyset`: sorted by `field` (the entity's `order`), page after page from the last value on. `since`: the
      // service filters by `sinceParam`; paged as a full walk is.
      strictObject({
        kind: z.enum(['keyset', 'since']),
        field: z.string(),
        format,
        sinceParam: z.string(),
        sinceFormat: z.enum(['iso', 'unix', 'unixMs']).optional(),
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
    ],
    { error: 'expected kind: keyset, since or newestFirst' },
  );
}

function parent() {
  const condition = z.discriminatedUnion(
    'kind',
    [
      strictObject({ kind: z.literal('in'), field: z.string(), values: names().min(1) }),
      strictObject({ kind: z.literal('notIn'), field: z.string(), values: names().min(1) }),
      strictObject({ kind: z.literal('present'), field: z.string() }),
    ],
    { error: 'expected kind: in, notIn or present' },
  );
  return strictObject({
    entity: z.string(),
    // Child's `list` parameter -> field of the parent record.
    params: z.record(z.string(), z.string()),
    // Child's field -> `list` parameter that fills it. Key parts among them always come from the partition.
    inject: z.record(z.string(), z.string()).default({}),
    // Only parents that meet one of these have children; empty: all do.
    when: z.array(condition).default([]),
    // Field of the parent record that changes with anything below it: children found with the same value again are not
    // read. `settlesMs`: its clock is that coarse. Null: children are read whenever they are found.
    marker: strictObject({ field: z.string(), settlesMs: durationMs() }).nullable().default(null),
    // Numbers in the parent record whose sum is about how many records there are below it: shown to people while a run
    // is in progress, and used for nothing else.
    childCount: names().default([]),
    // Those not `byDefault` are chosen in the settings.
    byDefault: z.boolean().default(true),
  });
}

function recursive() {
  return strictObject({
    // `list` parameter that names the listing.
    param: z.string(),
    // Boolean field: the record has its own listing.
    flag: z.string(),
    // Object field that names the listing a record belongs to: `parent.type` says which member of it holds the id.
    parentField: z.string(),
    typeField: z.string(),
    // Types whose children are stored elsewhere and are not entered.
    skipTypes: names().default([]),
    // Values of `parent.type` under which a record lies in a tree; one with another has left it. Empty: any.
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
