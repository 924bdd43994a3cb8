import type { Params } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { Partition } from '../../sinks/partition.ts';
import { keysetPagination } from './keyset.ts';
import { newestFirstPagination } from './newest-first.ts';
import { offsetPagination } from './offset.ts';
import type { PageLengths } from './page-lengths.ts';
import { pageTokenPagination } from './page-token.ts';
import type { Pagination } from './pagination.ts';
import { sincePagination } from './since.ts';
import { singlePagination } from './single.ts';

/** How a partition is read: in full, or from its watermark on. */
export type Reading = Pick<Partition, 'mode' | 'watermark' | 'storedRows'>;

/** `pageLengths` is shared by all partitions of one entity in a run: it shows what the server caps a page at. */
export function paginationOf(entity: Entity, reading: Reading, pageLengths: PageLengths): Pagination {
  const { incremental, pagination } = entity;
  if (incremental === null || reading.mode === 'full' || reading.watermark === null) {
    return fullPagination(entity, pageLengths, reading.storedRows);
  }
  const sinceMs = Date.parse(reading.watermark) - incremental.lookbackMs;
  switch (incremental.kind) {
    case 'keyset':
      // The definition was checked: keyset stands on paging by offset alone, newest first on page tokens.
      return pagination.kind === 'offset'
        ? keysetPagination(pagination, { sinceParam: incremental.sinceParam, sinceMs, pageLengths })
        : fullPagination(entity, pageLengths, 0);
    case 'since':
      return sincePagination(fullPagination(entity, pageLengths, 0), {
        sinceParam: incremental.sinceParam,
        sinceMs,
      });
    case 'newestFirst':
      return newestFirstPagination(fullPagination(entity, pageLengths, 0), { untilMs: sinceMs });
  }
}

/** Parameters that sort the listing as the walk needs it. */
export function sortParams(entity: Entity, reading: Reading): Params {
  const isNewestFirst = entity.incremental?.kind === 'newestFirst';
  return isNewestFirst && reading.mode === 'incremental' && reading.watermark !== null
    ? entity.incremental.params
    : (entity.order?.params ?? {});
}

function fullPagination(entity: Entity, pageLengths: PageLengths, storedRows: number): Pagination {
  const { pagination } = entity;
  switch (pagination.kind) {
    case 'offset':
      return offsetPagination(pagination, {
        isOrdered: entity.order !== null || entity.growsOnly,
        pageLengths,
        storedRows,
      });
    case 'pageToken':
      return pageTokenPagination(pagination);
    case 'single':
      return singlePagination();
  }
}
