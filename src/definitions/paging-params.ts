import type { Frozen } from './deep-freeze.ts';
import type { EntityFile } from './definition-file.ts';

/** A list parameter that the walk itself sets: neither a person nor a definition chooses its value. */
interface PagingParam {
  /** The name that the definition gives the parameter by. */
  readonly role: 'offsetParam' | 'pageParam' | 'tokenParam' | 'sizeParam';
  readonly name: string;
  /** One of them must be declared. */
  readonly types: readonly ('integer' | 'string')[];
}

export function pagingParams(pagination: Frozen<EntityFile['pagination']>): readonly PagingParam[] {
  const param = (role: PagingParam['role'], name: string, ...types: PagingParam['types']): PagingParam => ({
    role,
    name,
    types,
  });
  const size =
    pagination.kind === 'single' || pagination.sizeParam === null
      ? []
      : [param('sizeParam', pagination.sizeParam, 'integer')];
  switch (pagination.kind) {
    case 'offset':
      return [param('offsetParam', pagination.offsetParam, 'integer'), ...size];
    case 'page':
      return [param('pageParam', pagination.pageParam, 'integer'), ...size];
    case 'pageToken':
      return [param('tokenParam', pagination.tokenParam, 'string'), ...size];
    case 'lastRecord':
      return [param('tokenParam', pagination.tokenParam, 'string', 'integer'), ...size];
    case 'single':
      return [];
  }
}
