import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { HostileCall, Reply } from './exchange.ts';
import { apiError, success } from './replies.ts';

interface PagedRowsOptions {
  /** Offset paging with `count`/`offset`, or page tokens with `start_cursor`/`page_size`. */
  readonly paging: 'offset' | 'token';
  /** The service answers with at most so many, whatever is asked for, and does not say so. */
  readonly silentCap?: number;
  /** Runs before each page is cut: the place to insert, delete or move rows under a walk. */
  readonly beforePage?: (rows: JsonObject[], call: HostileCall, pageIndex: number) => void;
  /** Token paging only: changes what is sent about the next page. */
  readonly bend?: TokenBend;
}

export type TokenBend =
  /** The same token again and again, though more pages follow. */
  | { readonly kind: 'repeated-token' }
  /** Tokens lead back to the beginning after `length` pages. */
  | { readonly kind: 'cycle'; readonly length: number }
  | { readonly kind: 'more-without-token' }
  /** Every other page is empty, with more to come. */
  | { readonly kind: 'empty-pages' }
  /** A token is refused as expired from the given call on, `times` times. */
  | { readonly kind: 'expired'; readonly fromCall: number; readonly times: number }
  /** Whatever is asked for, the first page comes. */
  | { readonly kind: 'ignores-paging' };

/** A service that pages over `rows` as they are at the time of each call: no snapshot, as the real ones. */
export function pagedRows(initial: readonly JsonObject[], options: PagedRowsOptions) {
  const rows = [...initial];
  let pages = 0;
  let expiredLeft = options.bend?.kind === 'expired' ? options.bend.times : 0;

  const byOffset = (call: HostileCall): Reply => {
    const count = Math.min(numberIn(call.params['count'], 10), options.silentCap ?? Infinity);
    const offset = options.bend?.kind === 'ignores-paging' ? 0 : numberIn(call.params['offset'], 0);
    return success(rows.slice(offset, offset + count), { links: [] });
  };

  const byToken = (call: HostileCall): Reply => {
    const { bend } = options;
    const size = Math.min(numberIn(call.params['page_size'], 100), options.silentCap ?? 100);
    const token = call.params['start_cursor'];
    if (bend?.kind === 'expired' && typeof token === 'string' && pages > bend.fromCall && expiredLeft > 0) {
      expiredLeft -= 1;
      return apiError(400, 'The start_cursor provided is invalid: it has expired');
    }
    const at = bend?.kind === 'ignores-paging' ? 0 : positionIn(token);
    if (bend?.kind === 'empty-pages' && pages % 2 === 1) {
      return success([], { has_more: true, next_cursor: `at-${at}-${pages}` });
    }
    const end = at + size;
    const hasMore = end < rows.length;
    const page = rows.slice(at, end);
    if (bend?.kind === 'repeated-token') return success(page, { has_more: true, next_cursor: 'at-0' });
    if (bend?.kind === 'more-without-token') return success(page, { has_more: true, next_cursor: null });
    if (bend?.kind === 'cycle') {
      const next = pages % bend.length === 0 ? 'at-0' : `at-${end}`;
      return success(page, { has_more: true, next_cursor: next });
    }
    return success(page, { has_more: hasMore, next_cursor: hasMore ? `at-${end}-${pages}` : null });
  };

  return {
    /** The truth; tests may change it between calls. */
    rows,
    /** Pages served so far. */
    pages: () => pages,
    /** Answers one `list` call. */
    reply(call: HostileCall) {
      options.beforePage?.(rows, call, pages);
      pages += 1;
      return options.paging === 'offset' ? byOffset(call) : byToken(call);
    },
  };
}

/** `at-<offset>` or `at-<offset>-<page>`: the page number keeps tokens of one offset apart. */
function positionIn(token: JsonValue | undefined): number {
  return typeof token === 'string' ? Number(/^at-(\d+)/.exec(token)?.[1] ?? 0) : 0;
}

function numberIn(value: JsonValue | undefined, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}
