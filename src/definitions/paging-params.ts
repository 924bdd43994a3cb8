import type { Pagination } from './definition.ts';

/** Parameters that the walk itself sets: neither a person nor a definition chooses them. */
export function pagingParams(pagination: Pagination): readonly string[] {
  switch (pagination.kind) {
    case 'offset':
      return [pagination.offsetParam, pagination.sizeParam];
    case 'pageToken':
      return pagination.sizeParam === null
        ? [pagination.tokenParam]
        : [pagination.tokenParam, pagination.sizeParam];
    case 'single':
      return [];
  }
}
