import * as z from 'zod';
import { isJsonObject, valueAtKey, type JsonValue } from '../core/json.ts';
import { convertValue } from '../definitions/params.ts';
import type { Entity } from '../definitions/definition.ts';
import type { Proof } from '../sinks/partition.ts';
import { readFlag } from './answer-keys.ts';
import {
  isLastByLength,
  lengthsOf,
  noteFollowed,
  noteLength,
  noteWhole,
  shortMark,
  walkWith,
  type Advance,
  type Listing,
  type NextPage,
  type PageAnswer,
  type PageSeen,
  type Pagination,
  type PaginationStyle,
  type UnreadableNext,
} from './pagination.ts';
import { pageTokenPagination, tokenPosition } from './page-token.ts';

type LastRecordRules = Extract<Entity['pagination'], { kind: 'lastRecord' }>;

/** The defaults are those of its first page. */
const positionSchema = z.object({
  kind: z.literal('lastRecord'),
  /** The page tokens' own position. */
  inner: tokenPosition,
  /** Records of the page before, and the last of them. */
  before: z.number().int().min(0).default(0),
  last: z.string().default(''),
  /** That every answer so far has named; null where one did not, or named another. */
  total: z.number().int().min(0).nullable().default(null),
});
type LastRecordPosition = z.infer<typeof positionSchema>;

/** A field of a page's last record is the token of the next one; the answer's flag, or an empty page, is the end. */
export function lastRecordStyle(rules: LastRecordRules): PaginationStyle {
  return {
    restsOnOrder: false,
    walk: (listing) => lastRecordPagination(rules, listing),
    readNext: (answer, lastRecord) => readNext(rules, answer, lastRecord),
    calls: (rows, listings) => listings + Math.floor(rows / (rules.maxSize ?? 100)),
  };
}

function readNext(
  { field, flagKeys, tokenType }: LastRecordRules,
  answer: PageAnswer,
  lastRecord: () => JsonValue | undefined,
): NextPage | UnreadableNext {
  const flag = readFlag(flagKeys, answer);
  if ('fault' in flag) return flag;
  const last = flag.hasMore === false ? undefined : lastRecord();
  if (last === undefined) return flag;
  const value = isJsonObject(last) ? (valueAtKey(last, field) ?? null) : null;
  const token = convertValue('string', value === '' ? null : convertValue(tokenType, value));
  if (typeof token !== 'string') {
    const expected = tokenType === 'integer' ? 'a whole number' : 'text or a whole number';
    return { fault: `expected ${expected} at ${field} of the last record, which asks for the next page` };
  }
  return { ...flag, token };
}

/**
 * Walks as by any token: the service keeps the place. Where two records may have the same token, those behind the end
 * of a page could be passed over: then only a page that is all, or a steady total, proves something.
 */
function lastRecordPagination(rules: LastRecordRules, listing: Listing): Pagination {
  const { pageLengths, trustsTotal } = listing;
  const tokens = pageTokenPagination({ ...rules, lifetimeMs: null }, listing);

  function advance(before: LastRecordPosition, page: PageSeen): Advance {
    const received = page.marks.length;
    if (before.last !== '' && before.last === shortMark(page.marks[0] ?? '')) {
      const why = `asked for what follows a record, got the record itself: ${rules.tokenParam} does not page as declared`;
      return { kind: 'broken', code: 'PAGING_BROKEN', why, dropWatermark: false };
    }
    const step = tokens.advance(before.inner, page);
    if (step.kind === 'restart' || step.kind === 'broken') return step;
    const isFirst = before.inner.pages === 0;
    const named = trustsTotal ? (page.total ?? null) : null;
    // Behind the last record an answer may count nothing.
    const isSteady = isFirst || named === before.total || (named === null && received === 0);
    const position: LastRecordPosition = {
      kind: 'lastRecord',
      inner: tokenPosition.parse(step.position),
      before: received,
      last: received === 0 ? '' : shortMark(page.marks.at(-1) ?? ''),
      total: isSteady ? (named ?? before.total) : null,
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
        proof: isFirst ? { kind: 'single', isOrdered: true } : proofOf(position),
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
    const { records, followed } = lengthsOf(pageLengths, inner.size ?? 0);
    const missing = listing.storedRows - (inner.shown ?? 0);
    return missing > 0 && (missing >= records || last >= records || followed * 2 < records);
  }

  /** What a page's length says; pages without a size say nothing by it. */
  function judgeLength({ inner, before }: LastRecordPosition, next: LastRecordPosition, page: PageSeen) {
    const { size } = inner;
    const received = page.marks.length;
    if (size === null) return { followed: {}, isShortEnd: false };
    const known = noteLength(pageLengths, size, page);
    if (received === 0) {
      if (inner.pages === 1) noteWhole(pageLengths, { size, records: before });
      return { followed: {}, isShortEnd: false };
    }
    const isLater = inner.pages > 0;
    // Noted before the length is judged: once more has come after a page, a page as long does not end a walk.
    const followed = isLater ? noteFollowed(pageLengths, { size, records: before }) : {};
    const isShort = isLastByLength(pageLengths, page, known, {
      size,
      // In the middle of a listing a page may be short because the service has left records out of it.
      honoursSize: isLater ? undefined : rules.honoursSize,
      isLater,
    });
    // What is stored of the listing was there once: a page that shows less of it may have been cut.
    return { followed, isShortEnd: isShort && (isLater || next.before >= listing.storedRows) };
  }

  function proofOf({ inner, total }: LastRecordPosition): Proof {
    const isCounted = total !== null && inner.distinct === total;
    return { kind: 'token', isOrdered: rules.isUnique, ...(isCounted ? { isCounted } : {}) };
  }

  return walkWith(positionSchema, {
    begin: () => positionSchema.parse({ kind: 'lastRecord', inner: tokens.begin() }),
    request: ({ inner }) => {
      const { [rules.tokenParam]: token = null, ...others } = tokens.request(inner);
      return token === null
        ? others
        : { ...others, [rules.tokenParam]: convertValue(rules.tokenType, token) };
    },
    advance,
    halve: (position) => {
      const inner = tokens.halve(position.inner);
      return inner === null ? null : { ...position, inner: tokenPosition.parse(inner), before: 0 };
    },
  });
}
