import * as z from 'zod';
import type { ErrorCode } from '../core/errors.ts';
import type { Entity } from '../definitions/definition.ts';
import type { Proof } from '../sinks/partition.ts';
import { readToken } from './answer-keys.ts';
import {
  countMarks,
  doubtOf,
  pageMark,
  shortMark,
  walkWith,
  type Advance,
  type Listing,
  type PageSeen,
  type Pagination,
  type PaginationStyle,
} from './pagination.ts';

type PageTokenRules = Extract<Entity['pagination'], { kind: 'pageToken' }>;
interface TokenRules extends Pick<PageTokenRules, 'tokenParam' | 'sizeParam' | 'maxSize' | 'totalKeys'> {
  /** How long a token is valid; null: for ever. */
  readonly lifetimeMs: number | null;
}

/** A position, which holds the token as JSON, may take 64 KiB in the ledger. */
const maxTokenChars = 10_000;

/** The defaults are those of its first page. */
export const tokenPosition = z.object({
  kind: z.literal('pageToken'),
  token: z.string().nullable().default(null),
  /** When the token was received: it is refused by the service some time later. */
  tokenAtMs: z.number().default(0),
  size: z.number().int().min(1).nullable(),
  pages: z.number().int().min(0).default(0),
  pageMark: z.string().default(''),
  /** The token of page 1, 2, 4, 8...: meeting it again means that the tokens go in a circle. */
  milestone: z.string().default(''),
  /** The records of that page: fresh tokens may lead in a circle too. */
  milestonePage: z.string().default(''),
  /** Different records so far, or all that came where not all of them are remembered. */
  shown: z.number().int().min(0).nullable().default(0),
  /** Different records so far; null where not all of them are remembered. */
  distinct: z.number().int().min(0).nullable().default(0),
  /** That every answer so far has named; null where one did not, or named another. */
  total: z.number().int().min(0).nullable().default(null),
  /** A token so far counted pages only. */
  isNumbered: z.boolean().default(false),
});
type TokenPosition = z.infer<typeof tokenPosition>;

/** The response's own flag says that there is more, and a token what to ask for. */
export function pageTokenStyle(rules: PageTokenRules): PaginationStyle {
  return {
    restsOnOrder: false,
    walk: (listing) => pageTokenPagination(rules, listing),
    readNext: (answer) => readToken(rules, answer),
    calls: (rows, listings) => listings + Math.floor(rows / (rules.maxSize ?? 100)),
  };
}

/** Walks by an opaque token. Only the response's own flag ends the walk: short and empty pages say nothing. */
export function pageTokenPagination(
  rules: TokenRules,
  { trustsTotal }: Pick<Listing, 'trustsTotal'>,
): Pagination {
  const countDistinct = countMarks();
  return walkWith(tokenPosition, {
    begin: () => tokenPosition.parse({ kind: 'pageToken', size: rules.maxSize }),
    request: ({ token, size }) => ({
      ...(rules.sizeParam !== null && size !== null ? { [rules.sizeParam]: size } : {}),
      ...(token === null ? {} : { [rules.tokenParam]: token }),
    }),
    advance: (before, { total, ...page }) => {
      const distinct =
        trustsTotal && rules.totalKeys.length > 0
          ? countDistinct(before.distinct, page.marks.map(shortMark))
          : null;
      const shown = distinct ?? (before.shown === null ? null : before.shown + page.marks.length);
      const seen = trustsTotal && total !== undefined ? { ...page, total } : page;
      const named = trustsTotal ? (total ?? null) : null;
      const steady = before.pages === 0 || named === before.total ? named : null;
      return advance({ ...before, distinct, shown, total: steady }, seen);
    },
    halve: (position) =>
      position.size === null || position.size === 1
        ? null
        : { ...position, size: Math.floor(position.size / 2) },
    expired: ({ token, tokenAtMs }, nowMs) => {
      const ageMs = nowMs - tokenAtMs;
      return token !== null && rules.lifetimeMs !== null && ageMs > rules.lifetimeMs
        ? `the page token is ${Math.round(ageMs / 1000)} s old and lives ${Math.round(rules.lifetimeMs / 1000)} s`
        : null;
    },
  });
}

function advance(position: TokenPosition, page: PageSeen): Advance {
  const pages = position.pages + 1;
  if (page.next === null) {
    return broken('BODY_INVALID', 'the response does not say whether another page follows');
  }
  const { token } = page.next;
  const hasMore = page.next.hasMore ?? token !== null;
  if (!hasMore) {
    return {
      kind: 'end',
      position: { ...position, pages, token: null },
      proof: proofOf(position),
      ...doubtOf(page.total, position.shown),
    };
  }
  if (token === null || token === '') {
    return broken('PAGING_BROKEN', 'the response says that more follows and gives no page token');
  }
  if (token.length > maxTokenChars) {
    return broken(
      'PAGING_BROKEN',
      `a page token of ${token.length} characters, at most ${maxTokenChars} can be kept`,
    );
  }
  const tokenMark = shortMark(token);
  if (token === position.token || tokenMark === position.milestone) {
    return broken('PAGING_BROKEN', 'the API returned a page token that it had returned before');
  }
  const thisPage = pageMark(page.marks);
  if (thisPage !== '' && thisPage === position.pageMark) {
    return broken('PAGING_BROKEN', 'another page token brought exactly the same page');
  }
  if (thisPage !== '' && thisPage === position.milestonePage) {
    return broken('PAGING_BROKEN', 'fresh page tokens lead back to a page read before');
  }
  const isPowerOfTwo = (pages & (pages - 1)) === 0;
  return {
    kind: 'continue',
    isFurther: true,
    position: {
      ...position,
      token,
      tokenAtMs: page.nowMs,
      pages,
      pageMark: thisPage,
      milestone: isPowerOfTwo ? tokenMark : position.milestone,
      milestonePage: isPowerOfTwo ? thisPage : position.milestonePage,
      isNumbered: position.isNumbered || page.next.isNumbered === true,
    },
  };
}

/** The service kept the place, unless a token only counted pages: then a steady total has to agree. */
function proofOf({ isNumbered, distinct, total }: TokenPosition): Proof {
  const isCounted = total !== null && distinct === total;
  return { kind: 'token', isOrdered: !isNumbered, ...(isNumbered && isCounted ? { isCounted } : {}) };
}

function broken(code: ErrorCode, why: string): Advance {
  return { kind: 'broken', code, why, dropWatermark: false };
}
