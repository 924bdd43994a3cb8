import * as z from 'zod';
import { expectedKind, strictObject, textAs } from '../schema-problems.ts';
import { headerName, pathText, queryName } from './sent-texts.ts';

/**
 * How the pages of the service become those that the entity's `pagination` declares. Where it is by token, the token
 * and the flag are written under the first of its `tokenKeys` and `flagKeys`; where it is by offset, the total under
 * the first of its `totalKeys`.
 */
export function pagingFile() {
  const total = placeFile().nullable().default(null);
  const fromAddress = {
    keep: z.array(textAs('x', queryName)).min(1),
    alone: z.boolean().default(false),
  };
  const kinds = [
    // The parameters are the service's own, and `metadata` copies what its answer says.
    strictObject({ kind: z.literal('none') }),
    // pageToken. No token ends the walk, as does `more` when it is there and not true.
    strictObject({ kind: z.literal('cursor'), token: placeFile(), more: total }),
    // pageToken. The next page begins after the last record: its `field` is the token. `more`: whether there is one.
    strictObject({ kind: z.literal('lastRecord'), field: textAs('x', pathText), more: placeFile() }),
    // pageToken. The next page's address, in the body or the `Link` header with rel=next. It must have the origin of
    // `baseUrl`, and only the `keep` parameters of its query are taken over, into the token; `alone`: a call with a
    // token sends no other parameters.
    strictObject({ kind: z.literal('nextUrl'), path: textAs('x', pathText), ...fromAddress }),
    strictObject({ kind: z.literal('linkHeader'), ...fromAddress }),
    // offset. The parameters are the service's own (perhaps under other names).
    strictObject({ kind: z.literal('offset'), total }),
    // offset. `param` counts pages from `first` on. One call for a page, never two, between which rows could move. An
    // offset at which no page of the asked size begins gets that of a smaller one which shows the most from there on;
    // those before the offset are left out.
    strictObject({
      kind: z.literal('page'),
      param: textAs('x', queryName),
      first: z.int().min(0).max(1),
      total,
      // The service has no parameter for the size: each page holds the `maxSize` of the entity's pagination. Without a
      // default: the content hash of a definition that does not say it stays as it was.
      fixed: z.literal(true).optional(),
      // A later page than the first that is refused with this status is empty.
      end: z
        .union([z.literal('repeats'), strictObject({ status: z.int().min(400).max(499) })], {
          error: 'expected repeats, or { status: 404 }',
        })
        .optional(),
    }),
  ] as const;
  return z.discriminatedUnion('kind', kinds, { error: expectedKind(kinds) });
}

/** Where an answer has a value; `next_cursor` is short for `{ path: next_cursor }`. */
export function placeFile() {
  const header = textAs('x', (name, note) => {
    headerName(name, note);
    return name;
  });
  return z.preprocess(
    (value) => (typeof value === 'string' ? { path: value } : value),
    strictObject({ path: textAs('x', pathText).optional(), header: header.optional() }).refine(
      ({ path, header }) => (path === undefined) !== (header === undefined),
      { error: 'expected path or header, one of the two', params: { standIn: { path: 'x' } } },
    ),
  );
}
