import * as z from 'zod';
import { expectedKind, names, strictObject } from './schema-problems.ts';

/** Names the next page's token in an answer: its key, or that of an address and the parameter that is the token. */
export type TokenKey = string | { readonly key: string; readonly param: string };

export function keyOfToken(key: TokenKey): string {
  return typeof key === 'string' ? key : key.key;
}

/** The key of `connector_metadata` that says, by `true`, that the next page's token only counts pages. */
export const numberedKey = 'pages_are_numbered';

/**
 * The key of `connector_metadata` that says how a page without an array of records came: `nothing` (it is known to be
 * empty) or `null` (it is taken for empty).
 */
export const emptyKey = 'records_came_as';

/** How an entity's listing is cut into pages. Keys are those of `connector_metadata`; the first match wins. */
export function paginationFile() {
  const maxSize = z.int().min(1).max(10_000);
  // How many records the listing has. An answer may lack them.
  const totalKeys = names().default([]);
  // Keys that say whether more follows.
  const flagKeys = names().default([]);
  // The service documents that a page holds as many records as were asked for, and fewer only at the end.
  const honoursSize = z.literal(true).optional();
  // The service documents that it leaves no records out of a page that it has cut. Without a default, as the others.
  const gaps = z.literal('never').optional();
  const sized = {
    sizeParam: z.string().nullable().default(null),
    maxSize: maxSize.nullable().default(null),
  };
  const kinds = [
    strictObject({
      kind: z.literal('offset'),
      offsetParam: z.string(),
      sizeParam: z.string(),
      maxSize,
      totalKeys,
      // The service documents that its totals count the listing, not the page: a first page with as many records as
      // its total is the whole listing.
      totalCountsListing: z.literal(true).optional(),
      honoursSize,
      gaps,
      end: endOfPages(),
    }),
    strictObject({
      kind: z.literal('page'),
      pageParam: z.string(),
      // The number of the first page.
      first: z.int().min(0).max(1),
      // Null: each page holds `maxSize` records, whatever is asked for.
      sizeParam: z.string().nullable().default(null),
      maxSize,
      totalKeys,
      flagKeys,
      honoursSize,
      gaps,
      end: endOfPages(),
    }),
    strictObject({
      kind: z.literal('pageToken'),
      tokenParam: z.string(),
      ...sized,
      flagKeys,
      tokenKeys: z.array(tokenKey()).min(1),
      lifetimeMs: z.int().min(1000).default(60_000),
      totalKeys,
    }),
    // What follows a record is asked for: by the value that the last record of a page has in `field`, a dotted path.
    strictObject({
      kind: z.literal('lastRecord'),
      tokenParam: z.string(),
      field: z.string(),
      ...sized,
      flagKeys,
      totalKeys,
      honoursSize,
    }),
    // Keys that say, against the definition, that more follows. Absent: the names that services use for that. Without a
    // default: no content hash changes.
    strictObject({ kind: z.literal('single'), totalKeys, flagKeys: names().optional() }),
  ] as const;
  return z.discriminatedUnion('kind', kinds, { error: expectedKind(kinds) });
}

function tokenKey() {
  const ofAddress = strictObject({ key: z.string(), param: z.string() });
  return z.union([z.string(), ofAddress], {
    error: "expected a key, or { key: links.next, param: 'page[cursor]' } where its value is an address",
  });
}

/** What comes behind the last of numbered pages; absent: an empty page. Without a default: no content hash changes. */
export function endOfPages() {
  return z
    .union([z.literal('repeats'), strictObject({ status: z.int().min(400).max(500) })], {
      error: 'expected repeats, or { status: 404 }',
    })
    .optional();
}
