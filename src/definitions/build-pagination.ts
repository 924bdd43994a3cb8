import type { EntityFile } from './definition-file.ts';
import { recordsPlace } from './upstream/records-file.ts';
import type { PagingFile } from './upstream/upstream-file.ts';

/** How an entity is paged, with what follows from its other parts. `paging`: how the service itself is asked. */
export function buildPagination(entity: EntityFile, paging: PagingFile | undefined) {
  const { pagination } = entity;
  switch (pagination.kind) {
    case 'page':
    case 'pageToken':
      return pagination;
    case 'single':
      // Around one object, names of the answer are members of the record.
      return entity.records !== undefined && recordsPlace(entity.records).isOne
        ? { flagKeys: [], ...pagination }
        : pagination;
    case 'lastRecord':
      return {
        ...pagination,
        tokenType:
          entity.actions.list?.params[pagination.tokenParam]?.type === 'integer' ? 'integer' : 'string',
        /** No two records of a listing have the same token. */
        isUnique: isUniqueInListing(pagination.field, entity),
      } as const;
    case 'offset': {
      const numbered =
        paging?.kind === 'page'
          ? {
              isFixed: paging.fixed === true,
              endsByRepeat: paging.end === 'repeats',
              endStatus: typeof paging.end === 'object' ? paging.end.status : null,
            }
          : undefined;
      return {
        ...pagination,
        /**
         * The service numbers its pages, and so does the walk: their size may be its own, and one that was shown before
         * may mean the end. Absent: it takes any offset.
         */
        ...(numbered && { numbered }),
      };
    }
  }
}

/** The field is all of the key that the way to the listing does not fill. */
export function isUniqueInListing(field: string, { key, parents }: EntityFile): boolean {
  const isFilled = (part: string): boolean =>
    parents.length > 0 && parents.every(({ inject }) => Object.hasOwn(inject, part));
  return key.includes(field) && key.every((part) => part === field || isFilled(part));
}
