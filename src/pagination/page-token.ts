import * as z from 'zod';
import type { ErrorCode } from '../core/errors.ts';
import { isJsonObject, valueAtKey } from '../core/json.ts';
import type { Entity } from '../definitions/definition.ts';
import { convertValue } from '../definitions/params.ts';
import type { Proof } from '../sinks/partition.ts';
import * as paging from './pagination.ts';

type PageTokenRules = Extract<Entity['pagination'], { kind: 'pageToken' }>;
interface TokenRules extends Pick<PageTokenRules, 'tokenParam' | 'sizeParam' | 'maxSize' | 'totalKeys'> {
  /** Lifetime of a token; null: unlimited. */
  readonly lifetimeMs: number | null;
}

/** A position, which holds the token as JSON, may take 64 KiB in the ledger. */
const maxTokenChars = 10_000;

/** The defaults are those of its first page. */
const tokenPosition = z.object({
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
  /** Total that every answer so far has named; null where one did not, or named another. */
  total: z.number().int().min(0).nullable().default(null),
  /** A token so far counted pages only. */
  isNumbered: z.boolean().default(false),
});
type TokenPosition = z.infer<typeof tokenPosition>;

/** The response's own flag says that more follows, and a token names the next request. */
export function pageTokenStyle(rules: PageTokenRules): paging.PaginationStyle {
  return {
    restsOnOrder: false,
    walk: (listing) => pageTokenPagination(rules, listing),
    readNext: (answer) => paging.readToken(rules, answer),
  };
}

/** Walks by an opaque token. Only the response's own flag ends the walk: short and empty pages say nothing. */
export function pageTokenPagination(rules: TokenRules, { trustsTotal }: Pick<paging.Listing, 'trustsTotal'>) {
  const countDistinct = paging.countMarks();
  return paging.walkWith(tokenPosition, {
    begin: () => tokenPosition.parse({ kind: 'pageToken', size: rules.maxSize }),
    request: ({ token, size }) => ({
      ...(rules.sizeParam !== null && size !== null ? { [rules.sizeParam]: size } : {}),
      ...(token === null ? {} : { [rules.tokenParam]: token }),
    }),
    advance: (before, { total, ...page }) => {
      const distinct =
        trustsTotal && rules.totalKeys.length > 0
          ? countDistinct(before.distinct, page.marks.map(paging.shortMark))
          : null;
      const shown = distinct ?? (before.shown === null ? null : before.shown + page.marks.length);
      const seen = trustsTotal && total !== undefined ? { ...page, total } : page;
      const named = trustsTotal ? (total ?? null) : null;
      // Behind the last record an answer may count nothing.
      const isSteady = named === before.total || (named === null && page.marks.length === 0);
      const steady = before.pages === 0 ? named : isSteady ? before.total : null;
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

function advance(position: TokenPosition, page: paging.PageSeen): paging.Advance {
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
      // A token that only counted pages keeps no place.
      proof: proofOf(position, !position.isNumbered),
      ...paging.doubtOf(page.total, position.shown),
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
  const tokenMark = paging.shortMark(token);
  if (token === position.token || tokenMark === position.milestone) {
    return broken('PAGING_BROKEN', 'the API returned a page token that it had returned before');
  }
  const thisPage = paging.pageMark(page.marks);
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

/** Where the service has not kept the place, a steady total has to agree. */
function proofOf({ distinct, total }: TokenPosition, isOrdered: boolean, needsTotal = !isOrdered): Proof {
  const isCounted = total !== null && distinct === total;
  return { kind: 'token', isOrdered, ...(needsTotal && isCounted ? { isCounted } : {}) };
}

function broken(code: ErrorCode, why: string): paging.Advance {
  return { kind: 'broken', code, why, dropWatermark: false };
}

type LastRecordRules = Extract<Entity['pagination'], { kind: 'lastRecord' }>;

/** The defaults are those of its first page. */
const lastRecordPosition = z.object({
  kind: z.literal('lastRecord'),
  /** The page tokens' own position. */
  inner: tokenPosition,
  /** Records of the page before, and the last of them. */
  before: z.number().int().min(0).default(0),
  last: z.string().default(''),
});
type LastRecordPosition = z.infer<typeof lastRecordPosition>;

/** A field of a page's last record is the token of the next one; the answer's flag, or an empty page, is the end. */
export function lastRecordStyle(rules: LastRecordRules): paging.PaginationStyle {
  const { field, tokenType } = rules;
  return {
    restsOnOrder: false,
    walk: (listing) => lastRecordPagination(rules, listing),
    readNext: (answer, lastRecord) => {
      const flag = paging.readFlag(rules, answer) ?? { hasMore: null, token: null };
      if ('fault' in flag) return flag;
      const last = flag.hasMore === false ? undefined : lastRecord();
      if (last === undefined) return flag;
      const value = isJsonObject(last) ? (valueAtKey(last, field) ?? null) : null;
      const token = convertValue('string', value === '' ? null : convertValue(tokenType, value));
      if (typeof token === 'string') return { ...flag, token };
      const expected = tokenType === 'integer' ? 'a whole number' : 'text or a whole number';
      return { fault: `expected ${expected} at ${field} of the last record, which asks for the next page` };
    },
  };
}

/**
 * Walks as by any token: the service keeps the place. Where two records may have the same token, those behind the end
 * of a page could be passed over: then only a page that is all, or a steady total, proves something.
 */
function lastRecordPagination(rules: LastRecordRules, listing: paging.Listing): paging.Pagination {
  const { pageLengths, trustsTotal } = listing;
  const tokens = pageTokenPagination({ ...rules, lifetimeMs: null }, listing);

  function advance(before: LastRecordPosition, page: paging.PageSeen): paging.Advance {
    const received = page.marks.length;
    if (before.last !== '' && before.last === paging.shortMark(page.marks[0] ?? '')) {
      const why = `asked for what follows a record, got the record itself: ${rules.tokenParam} does not page as declared`;
      return broken('PAGING_BROKEN', why);
    }
    const step = tokens.advance(before.inner, page);
    if (step.kind === 'restart' || step.kind === 'broken') return step;
    const isFirst = before.inner.pages === 0;
    const position: LastRecordPosition = {
      kind: 'lastRecord',
      inner: tokenPosition.parse(step.position),
      before: received,
      last: received === 0 ? '' : paging.shortMark(page.marks.at(-1) ?? ''),
    };
    const { followed, isShortEnd } = judgeLength(before, position, page);
    const isLeft = page.total !== undefined && trustsTotal && page.total > (position.inner.shown ?? 0);
    if (step.kind === 'end' || (isShortEnd && !isLeft && page.next?.hasMore === null)) {
      const lastPage = { size: position.inner.size ?? 0, records: received };
      return {
        ...followed,
        ...(step.kind === 'end' ? step : { kind: 'end', lastPage }),
        ...(received === 0 && page.next?.hasMore === null && mayHideMore(before, position)
          ? { doubt: { kind: 'behind' } }
          : {}),
        position,
        proof: isFirst ? { kind: 'single', isOrdered: true } : proofOf(position.inner, rules.isUnique, true),
      };
    }
    return { ...step, ...followed, position };
  }

  /**
   * Behind an empty page there is no record to ask on from. Where more is stored than came, it is believed to be the
   * end, but not where a whole page of it is missing, nor behind a full page, nor where pages far shorter than others
   * were followed by more: the service may leave out all of a page.
   */
  function mayHideMore({ before: last }: LastRecordPosition, { inner }: LastRecordPosition): boolean {
    const { records, followed } = paging.lengthsOf(pageLengths, inner.size ?? 0);
    const missing = listing.storedRows - (inner.shown ?? 0);
    return missing > 0 && (missing >= records || last >= records || followed * 2 < records);
  }

  /** Judges a page by its length; pages without a size prove nothing by it. */
  function judgeLength(
    { inner, before }: LastRecordPosition,
    next: LastRecordPosition,
    page: paging.PageSeen,
  ) {
    const { size } = inner;
    const received = page.marks.length;
    if (size === null) return { followed: {}, isShortEnd: false };
    const known = paging.noteLength(pageLengths, size, page);
    if (received === 0) {
      if (inner.pages === 1) paging.noteWhole(pageLengths, { size, records: before });
      return { followed: {}, isShortEnd: false };
    }
    const isLater = inner.pages > 0;
    // Noted before the length is judged: once more has come after a page, a page as long does not end a walk.
    const followed = isLater ? paging.noteFollowed(pageLengths, { size, records: before }) : {};
    const isShort = paging.isLastByLength(pageLengths, page, known, {
      size,
      // In the middle of a listing a page may be short because the service has left records out of it.
      honoursSize: isLater ? undefined : rules.honoursSize,
      isLater,
    });
    // Stored rows of the listing existed once: a page that shows fewer of them may have been cut.
    return { followed, isShortEnd: isShort && (isLater || next.before >= listing.storedRows) };
  }

  return paging.walkWith(lastRecordPosition, {
    begin: () => lastRecordPosition.parse({ kind: 'lastRecord', inner: tokens.begin() }),
    request: ({ inner }) => {
      const { [rules.tokenParam]: token = null, ...others } = tokens.request(inner);
      return token === null
        ? others
        : { ...others, [rules.tokenParam]: convertValue(rules.tokenType, token) };
    },
    advance,
    halve: (position) => paging.halveInner(tokens, { ...position, before: 0 }),
  });
}
