import type { Params } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { Partition } from '../../sinks/partition.ts';
import { keysetPagination } from './keyset.ts';
import { newestFirstPagination } from './newest-first.ts';
import { offsetPagination, type LargestPages } from './offset.ts';
import { pageTokenPagination } from './page-token.ts';
import type { Pagination } from './pagination.ts';
import { sincePagination } from './since.ts';
import { singlePagination } from './single.ts';

/** How a partition is read: in full, or from its watermark on. */
export type Reading = Pick<Partition, 'mode' | 'watermark'>;

/** `largestPages` is shared by all partitions of one entity in a run: it shows what the server caps a page at. */
export function paginationOf(entity: Entity, reading: Reading, largestPages: LargestPages): Pagination {
  const { incremental, pagination } = entity;
  if (incremental === null || reading.mode === 'full' || reading.watermark === null)
    return fullPagination(entity, largestPages);
  const sinceMs = Date.parse(reading.watermark) - incremental.lookbackMs;
  switch (incremental.kind) {
    case 'keyset':
      // The definition was checked: keyset stands on paging by offset alone, newest first on page tokens.
      return pagination.kind === 'offset'
        ? keysetPagination(pagination, { sinceParam: incremental.sinceParam, sinceMs, largestPages })
        : fullPagination(entity, largestPages);
    case 'since':
      return sincePagination(fullPagination(entity, largestPages), {
        sinceParam: incremental.sinceParam,
        sinceMs,
      });
    case 'newestFirst':
      return newestFirstPagination(fullPagination(entity, largestPages), { untilMs: sinceMs });
  }
}

/** Parameters that sort the listing as the walk needs it. */
export function sortParams(entity: Entity, reading: Reading): Params {
  const isNewestFirst = entity.incremental?.kind === 'newestFirst';
  return isNewestFirst && reading.mode === 'incremental' && reading.watermark !== null
    ? entity.incremental.params
    : (entity.order?.params ?? {});
}

function fullPagination(entity: Entity, largestPages: LargestPages): Pagination {
  const { pagination } = entity;
  switch (pagination.kind) {
    case 'offset':
      return offsetPagination(pagination, {
        isOrdered: entity.order !== null || entity.growsOnly,
        largestPages,
      });
    case 'pageToken':
      return pageTokenPagination(pagination);
    case 'single':
      return singlePagination();
  }
}
