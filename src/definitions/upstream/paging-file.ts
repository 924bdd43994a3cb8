import * as z from 'zod';
import { expectedKind, strictObject } from '../schema-problems.ts';

/** The format of `paging:`. */
export function pagingFile() {
  const total = placeFile().nullable().default(null);
  const fromAddress = {
    keep: z.array(z.string()).min(1),
    alone: z.boolean().default(false),
  };
  const kinds = [
    strictObject({ kind: z.literal('none') }),
    strictObject({ kind: z.literal('cursor'), token: placeFile(), more: total }),
    strictObject({ kind: z.literal('lastRecord'), field: z.string(), more: placeFile() }),
    strictObject({ kind: z.literal('nextUrl'), path: z.string(), ...fromAddress }),
    strictObject({ kind: z.literal('linkHeader'), ...fromAddress }),
    strictObject({ kind: z.literal('offset'), total }),
    strictObject({
      kind: z.literal('page'),
      param: z.string(),
      first: z.int().min(0).max(1),
      total,
      // Without a default: the content hash of a definition that does not say it stays as it was.
      fixed: z.literal(true).optional(),
      end: z
        .union([z.literal('repeats'), strictObject({ status: z.int().min(400).max(499) })], {
          error: 'expected repeats, or { status: 404 }',
        })
        .optional(),
    }),
  ] as const;
  return z.discriminatedUnion('kind', kinds, { error: expectedKind(kinds) });
}

/** `next_cursor` is short for `{ path: next_cursor }`. */
export function placeFile() {
  return z.preprocess(
    (value) => (typeof value === 'string' ? { path: value } : value),
    strictObject({ path: z.string().optional(), header: z.string().optional() }),
  );
}
