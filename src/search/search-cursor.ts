import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import * as z from 'zod';
import { writeJson } from '../core/json-text.ts';
import type { SearchIndex } from './index/open-search-index.ts';
import type { Position } from './order-rule.ts';
import { searchLimits, searchProblem } from './search-problem.ts';
import type { SearchRequest } from './search-request.ts';
import type { SearchTarget } from './search-target.ts';
import type { Bound } from './sql-piece.ts';

/** What a cursor is written and read with: whose it is, and of which query. */
type CursorSeal = ReturnType<typeof cursorSeal>;

/**
 * `query` is of scope, filter, sort, and how the sorted fields are stored and compared: the rest may change from page
 * to page.
 */
export function cursorSeal(
  key: Buffer,
  scope: string,
  { filter, sort }: Pick<SearchRequest, 'filter' | 'sort'>,
  { fields }: Pick<SearchTarget, 'fields'>,
  index: Pick<SearchIndex, 'isInOrderAsStored'>,
): { readonly key: Buffer; readonly query: string } {
  // A column compares its own values, anything else bytes made of them: no place among the ones is one among the
  // others.
  const sorted = sort.map(({ path: [name = ''] }) => [fields.get(name), index.isInOrderAsStored(name)]);
  const query = createHash('sha256')
    .update(writeJson([scope, filter, sort, sorted]))
    .digest('base64url')
    .slice(0, 22);
  return { key, query };
}

/** Throws SEARCH_INVALID where the place takes more than a cursor may hold: long texts are sorted by. */
export function writeCursor({ values, row }: Position, seal: CursorSeal): string {
  const payload = Buffer.from(JSON.stringify([seal.query, row, ...values.map(written)])).toString(
    'base64url',
  );
  const cursor = `${payload}.${signature(payload, seal)}`;
  if (cursor.length > searchLimits.cursorBytes) {
    throw searchProblem(
      'query.sort',
      `expected values that a cursor of ${searchLimits.cursorBytes} bytes can hold, got longer texts; sort by another field`,
    );
  }
  return cursor;
}

/** Throws SEARCH_INVALID for what `writeCursor` did not write with this seal. */
export function readCursor(cursor: string, seal: CursorSeal): Position {
  const [payload = '', given = '', ...more] = cursor.split('.');
  const expected = Buffer.from(signature(payload, seal));
  const isOurs = more.length === 0 && expected.length === Buffer.byteLength(given);
  if (!isOurs || !timingSafeEqual(expected, Buffer.from(given))) {
    throw searchProblem(
      'cursor',
      'expected meta.cursor of an earlier page, got something else; begin without it',
    );
  }
  const [query, row, ...values] = payloadText.parse(Buffer.from(payload, 'base64url').toString());
  if (query !== seal.query) {
    throw searchProblem(
      'cursor',
      'expected a cursor of this query, got one of another entity, filter or sort, or from before a sorted field was stored in another way or held times in another spelling; begin without it',
    );
  }
  return { row, values };
}

function signature(payload: string, { key }: CursorSeal): string {
  return createHmac('sha256', key).update('search cursor 1\n').update(payload).digest('base64url');
}

/** Texts, integers and bytes say what they are; JSON has only doubles. */
function written(value: Bound): z.input<typeof writtenValue> {
  if (value === null || typeof value === 'number') return value;
  if (typeof value === 'string') return { text: value };
  return typeof value === 'bigint' ? { integer: String(value) } : { bytes: value.toString('base64url') };
}

const writtenValue = z.union([
  z.null(),
  z.number(),
  z.object({ text: z.string() }).transform(({ text }): Bound => text),
  z.object({ integer: z.string() }).transform(({ integer }): Bound => BigInt(integer)),
  z.object({ bytes: z.string() }).transform(({ bytes }): Bound => Buffer.from(bytes, 'base64url')),
]);

const payloadText = z
  .string()
  .transform((text): unknown => JSON.parse(text))
  .pipe(z.tuple([z.string(), z.number()]).rest(writtenValue));
