import * as z from 'zod';
import {
  isJsonObject,
  memberInAnySpelling,
  valueAtKey,
  type JsonObject,
  type JsonValue,
} from '../core/json.ts';
import { expectedKind, jsonValue, strictObject, textAs } from './schema-problems.ts';
import { paths, pathText, queryName } from './upstream/service-texts.ts';

/** Names the next page's token in an answer: its key, or that of an address and the parameter that is the token. */
export type TokenKey = string | { readonly key: string; readonly param: string };

export function keyOfToken(key: TokenKey): string {
  return typeof key === 'string' ? key : key.key;
}

/** The key of `connector_metadata` that says, by `true`, that the next page's token only counts pages. */
export const numberedKey = 'pages_are_numbered';

/**
 * The key of `connector_metadata` that classifies a page without an array of records: `nothing` (known to be empty) or
 * `null` (assumed to be empty).
 */
export const emptyKey = 'records_came_as';

/** Describes how a listing is divided into pages. Keys are those of `connector_metadata`; the first match wins. */
export function paginationFile() {
  const maxSize = z.int().min(1).max(10_000);
  // Keys of the number of records in the listing. An answer may lack them.
  const totalKeys = paths().default([]);
  // Keys that say whether more follows.
  const flagKeys = paths().default([]);
  // Keys that say, by true, that a page is the last one. An answer that lacks them is an error.
  const doneKeys = paths().min(1).optional();
  // Parameters that are sent with the request for the first page, and with no other.
  const firstParams = z.record(z.string(), jsonValue()).optional();
  // The service documents that each page holds as many records as requested, and fewer only at the end.
  const honoursSize = z.literal(true).optional();
  // The service documents that a cut page has no gaps. Without a default, as the others.
  const gaps = z.literal('never').optional();
  // Null: each page holds `maxSize` records, whatever size is requested.
  const sizeParam = z.string().nullable().default(null);
  const sized = { sizeParam, maxSize: maxSize.nullable().default(null) };
  const kinds = [
    strictObject({
      kind: z.literal('offset'),
      offsetParam: z.string(),
      // The number of the first record; absent: 0.
      first: z.int().min(0).max(1).optional(),
      // Null: as for `page`. It has no default, so that a size is not forgotten.
      sizeParam: z.string().nullable(),
      maxSize,
      totalKeys,
      flagKeys: paths().optional(),
      doneKeys,
      firstParams,
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
      first: z.int().min(0).max(1000),
      // How much higher the number of the next page is, whatever the size of pages; absent: 1.
      step: z.int().min(1).max(10_000).optional(),
      sizeParam,
      maxSize,
      totalKeys,
      flagKeys,
      doneKeys,
      firstParams,
      honoursSize,
      gaps,
      end: endOfPages(),
    }),
    strictObject({
      kind: z.literal('pageToken'),
      tokenParam: z.string(),
      ...sized,
      flagKeys,
      doneKeys,
      firstParams,
      tokenKeys: z.array(tokenKey()).min(1),
      lifetimeMs: z.int().min(1000).default(60_000),
      totalKeys,
    }),
    // The next page is requested with a value of the last record of a page, at `field`, a dotted path.
    strictObject({
      kind: z.literal('lastRecord'),
      tokenParam: z.string(),
      field: textAs(pathText),
      ...sized,
      flagKeys,
      doneKeys,
      firstParams,
      totalKeys,
      honoursSize,
    }),
    // Keys that contradict the definition, by saying that more follows. Absent: the names that services use for that.
    // Without a default: no content hash changes.
    strictObject({ kind: z.literal('single'), totalKeys, flagKeys: paths().optional() }),
  ] as const;
  return z.discriminatedUnion('kind', kinds, { error: expectedKind(kinds) });
}

function tokenKey() {
  const ofAddress = strictObject({ key: textAs(pathText), param: textAs(queryName) });
  return z.union([textAs(pathText), ofAddress], {
    error: "expected a key, or { key: links.next, param: 'page[cursor]' } where its value is an address",
  });
}

/**
 * The answer after the last of numbered pages; absent: an empty page. It has no default, so that no content hash
 * changes.
 */
function endOfPages() {
  return z
    .union([z.literal('repeats'), strictObject({ status: z.int().min(400).max(500) })], {
      error: 'expected repeats, or { status: 404 }',
    })
    .optional();
}

const flags = ['has_more', 'has_next_page', 'has_next', 'more_records'];
const nexts = [
  'next',
  'next_page',
  'next_url',
  'next_link',
  'next_page_url',
  'next_cursor',
  'next_page_token',
  'next_token',
];
/** The values that services use for yes and no, true and false among them. */
const yes: readonly unknown[] = [true, 'true', 1, '1'];
const no: readonly unknown[] = [false, 'false', 0, '0'];

/** Reads a flag; null: the value is no flag. */
export function flagOf(value: JsonValue | undefined): boolean | null {
  const said = typeof value === 'string' ? value.trim().toLowerCase() : value;
  return yes.includes(said) ? true : no.includes(said) ? false : null;
}

/**
 * Reads a token; null: there is no next page (0 means that too, because no later page is at 0). Undefined: the value is
 * no token.
 */
export function tokenOf(value: JsonValue): string | null | undefined {
  if (value === null || value === '' || value === 0) return null;
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint') return String(value);
  return typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : undefined;
}

/** The number of records in a listing, from the first of the keys that is present; null where none is. */
export function readTotal(keys: readonly string[], metadata: JsonValue): number | null {
  if (!isJsonObject(metadata)) return null;
  const value = keys.map((key) => valueAtKey(metadata, key)).find((one) => one !== undefined);
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** Objects in which services put them; empty: the answer itself. */
const places = ['', 'meta', 'pagination', 'paging', 'page_info', 'links', '_links', 'response_metadata'];

/**
 * Finds the key by which an answer says that more follows, among the names that services use; null where it does not.
 */
export function signOfMore(answer: JsonObject): string | null {
  const found = places.flatMap((place) =>
    [...flags, ...nexts].map((name) => {
      const key = place === '' ? name : `${place}.${name}`;
      return { key, name, value: valueAtKey(answer, key, memberInAnySpelling) };
    }),
  );
  // A token may come with the last page too: a flag says what it means.
  if (found.some(({ name, value }) => flags.includes(name) && flagOf(value) === false)) return null;
  return (
    found.find(({ name, value }) => (flags.includes(name) ? flagOf(value) === true : leads(value)))?.key ??
    null
  );
}

/** An address, a token or a number; or an object that has one, such as `{ href }`. */
function leads(value: JsonValue | undefined): boolean {
  if (typeof value === 'string') return value !== '';
  if (isJsonObject(value)) return Object.values(value).some((one) => typeof one === 'string' && one !== '');
  return value === true || (typeof value === 'number' && value > 0);
}
