import type { Pagination } from './definition.ts';

/** A list parameter that the walk itself sets: neither a person nor a definition chooses its value. */
interface PagingParam {
  /** The name that the definition gives the parameter by. */
  readonly role: 'offsetParam' | 'tokenParam' | 'sizeParam';
  readonly name: string;
  /** As it must be declared. */
  readonly type: 'integer' | 'string';
}

export function pagingParams(pagination: Pagination): readonly PagingParam[] {
  const size = (name: string): PagingParam => ({ role: 'sizeParam', name, type: 'integer' });
  switch (pagination.kind) {
    case 'offset':
      return [
        { role: 'offsetParam', name: pagination.offsetParam, type: 'integer' },
        size(pagination.sizeParam),
      ];
    case 'pageToken':
      return [
        { role: 'tokenParam', name: pagination.tokenParam, type: 'string' },
        ...(pagination.sizeParam === null ? [] : [size(pagination.sizeParam)]),
      ];
    case 'single':
      return [];
  }
}
