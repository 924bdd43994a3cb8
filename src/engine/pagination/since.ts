import type { Pagination } from './pagination.ts';
import { floorSecond, timeParam } from './time-param.ts';

/** A full walk of what the service lets through: it is asked only for what changed since then. */
export function sincePagination(
  full: Pagination,
  options: { readonly sinceParam: string; readonly sinceMs: number },
): Pagination {
  const { sinceParam, sinceMs } = options;
  const boundMs = floorSecond(sinceMs);
  return {
    ...full,
    request: (position) => ({ ...full.request(position), [sinceParam]: timeParam(boundMs) }),
    advance: (position, page) =>
      // A service may filter whole records and show all their elements: the newest of them is what counts.
      page.changes.some((change) => change !== null && change.highestMs < boundMs)
        ? {
            kind: 'broken',
            code: 'PAGING_BROKEN',
            why: `asked for what changed since ${timeParam(boundMs)}, the API returned older records: it seems to ignore ${sinceParam}`,
            dropWatermark: true,
          }
        : full.advance(position, page),
  };
}
