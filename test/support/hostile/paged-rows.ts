import type { JsonObject } from '../../../src/core/json.ts';
import type { HostileCall, Reply } from './exchange.ts';
import { apiError, success } from './replies.ts';

/** The service refuses tokens as expired behind the given call, `times` times. */
export interface ExpiredTokens {
  readonly fromCall: number;
  readonly times: number;
}

/** A service that pages by offset, at most `silentCap` rows a page whatever is asked for. */
export function pagedByOffset(rows: readonly JsonObject[], silentCap: number) {
  return ({ params }: HostileCall): Reply => {
    const offset = Number(params['offset'] ?? 0);
    const count = Math.min(Number(params['count'] ?? 10), silentCap);
    return success(rows.slice(offset, offset + count), { links: [] });
  };
}

/** The same by page tokens (`at-<offset>-<page>`: no token comes twice), some of which have expired. */
export function pagedByToken(rows: readonly JsonObject[], silentCap: number, expired: ExpiredTokens) {
  let pages = 0;
  let expiredLeft = expired.times;
  return ({ params }: HostileCall): Reply => {
    const token = params['start_cursor'];
    pages += 1;
    if (typeof token === 'string' && pages > expired.fromCall && expiredLeft > 0) {
      expiredLeft -= 1;
      return apiError(400, 'The start_cursor provided is invalid: it has expired');
    }
    const at = typeof token === 'string' ? Number(/^at-(\d+)/.exec(token)?.[1] ?? 0) : 0;
    const end = at + Math.min(Number(params['page_size'] ?? 100), silentCap);
    const hasMore = end < rows.length;
    const next = hasMore ? `at-${end}-${pages}` : null;
    return success(rows.slice(at, end), { has_more: hasMore, next_cursor: next });
  };
}
