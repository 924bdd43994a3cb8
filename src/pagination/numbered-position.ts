import * as z from 'zod';
import type { Params } from '../core/records.ts';
import { pagesSoFar, type EndRules } from './listing-end.ts';
import type { Advance } from './pagination.ts';

/** A service that numbers its pages. */
export interface NumberedRules extends EndRules {
  /** Records of a page that are asked for at most. */
  readonly maxSize: number;
  /** Pages hold `maxSize` records, whatever is asked for. */
  readonly isFixed: boolean;
  readonly honoursSize: boolean;
  /** A page that was shown before means the end. */
  readonly endsByRepeat: boolean;
  /** Parameters that ask for a page, counted from 0, of so many records. */
  readonly ask: (page: number, size: number) => Params;
}

const count = z.number().int().min(0);

/**
 * Of a walk through numbered pages: the page numbered `page` of `size` records is requested. The defaults are those of
 * its first page.
 */
export const numberedPosition = z.object({
  kind: z.literal('numbered'),
  ...pagesSoFar,
  /**
   * `first`: nothing is known. `up`: towards the end, where the total expects it. `down`: from the end to the first
   * page. `overlap`: forwards, each page begins with known records. `plain`: forwards, page after page.
   */
  phase: z.enum(['first', 'up', 'down', 'overlap', 'plain']).default('first'),
  page: count.default(0),
  size: count.min(1),
  /** Records of a full page, as the first one showed it; 0 before that. */
  length: count.default(0),
  /** Pages keep their length whatever is asked for. */
  isFixed: z.boolean(),
  /** The flag of an answer was that more follows. */
  hasSaidMore: z.boolean().default(false),
  /**
   * Walking down: what stands at the end of the listing; where this round may stop; the page at which it began; the row
   * behind the last one.
   */
  tail: z.array(z.string()).default([]),
  stopAt: z.array(z.string()).default([]),
  top: count.default(0),
  reach: count.default(0),
  rounds: count.default(0),
  /** Rows may have moved to the end behind the walk's back. */
  isDisturbed: z.boolean().default(false),
  /**
   * Walking forwards: the first row that is not read yet, and the length of the page before where it was short; 0 where
   * it was not.
   */
  row: count.default(0),
  short: count.default(0),
  /** None of the records of that short page had come before: the service leaves records out of its pages. */
  isShortNew: z.boolean().default(false),
  /** What lies behind is asked for once more. */
  isAsking: z.boolean().default(false),
});
export type NumberedPosition = z.infer<typeof numberedPosition>;

export function beginNumbered(size: number, isFixed: boolean): NumberedPosition {
  return numberedPosition.parse({ kind: 'numbered', size, isFixed });
}

export type NumberedStep =
  { readonly kind: 'next'; readonly position: NumberedPosition } | Exclude<Advance, { kind: 'continue' }>;

export function goTo(position: NumberedPosition): NumberedStep {
  return { kind: 'next', position };
}

/** From the first page on, forwards: what the pages have shown so far contradicts what was expected of them. */
export function beginPlain(
  position: NumberedPosition,
  changed: Partial<Pick<NumberedPosition, 'size' | 'isFixed'>> = {},
): NumberedStep {
  return goTo({
    ...position,
    ...changed,
    phase: 'plain',
    page: 0,
    length: 0,
    row: 0,
    short: 0,
    shown: 0,
    distinct: 0,
    strays: 0,
    recent: [],
    pageMark: '',
  });
}

/** The end of a walk. `isOrdered`: its kind of walking is a proof where the records keep their order. */
export function endNumbered(
  position: NumberedPosition,
  isOrdered: boolean,
  more: Pick<Extract<Advance, { kind: 'end' }>, 'doubt' | 'lastPage'> & { readonly isSingle?: boolean } = {},
): NumberedStep {
  const { isSingle = false, ...rest } = more;
  return { kind: 'end', position, proof: { kind: isSingle ? 'single' : 'seam', isOrdered }, ...rest };
}
