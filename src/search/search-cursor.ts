import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import * as z from 'zod';
import { writeJson } from '../core/json-text.ts';
import type { Position } from './ordering.ts';
import { searchProblem } from './search-problem.ts';
import type { SearchRequest } from './search-request.ts';

/** What a cursor is written and read with: whose it is, and of which query. */
type CursorSeal = ReturnType<typeof cursorSeal>;

/** `query` is of scope, filter and sort: the rest may change from page to page. */
export function cursorSeal(
  key: Buffer,
  scope: string,
  { filter, sort }: Pick<SearchRequest, 'filter' | 'sort'>,
): { readonly key: Buffer; readonly query: string } {
  const query = createHash('sha256')
    .update(writeJson([scope, filter, sort]))
    .digest('base64url')
    .slice(0, 22);
  return { key, query };
}

/** A cursor fits into a request: there are few keys, and a key is short. */
export function writeCursor({ keys, row }: Position, seal: CursorSeal): string {
  const bytes = keys.map((key) => (key === null ? null : Buffer.from(key, 'latin1').toString('base64url')));
  const payload = Buffer.from(JSON.stringify([seal.query, row, ...bytes])).toString('base64url');
  return `${payload}.${signature(payload, seal)}`;
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
  const [query, row, ...keys] = payloadText.parse(Buffer.from(payload, 'base64url').toString());
  if (query !== seal.query) {
    throw searchProblem(
      'cursor',
      'expected a cursor of this query, got one of another entity, filter or sort; begin without it',
    );
  }
  return { row, keys };
}

function signature(payload: string, { key }: CursorSeal): string {
  return createHmac('sha256', key).update('search cursor 2\n').update(payload).digest('base64url');
}

const writtenKey = z
  .string()
  .transform((bytes) => Buffer.from(bytes, 'base64url').toString('latin1'))
  .nullable();

const payloadText = z
  .string()
  .transform((text): unknown => JSON.parse(text))
  .pipe(z.tuple([z.string(), z.number()]).rest(writtenKey));
