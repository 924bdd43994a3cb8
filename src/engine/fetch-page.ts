import { SyncError } from '../core/errors.ts';
import type { Position } from '../sinks/partition.ts';
import type { SourcePage } from '../source/source.ts';
import { sortParams } from './pagination/pagination-of.ts';
import type { Walk } from './walk-partition.ts';

export type Fetched =
  { readonly kind: 'page'; readonly page: SourcePage } | { readonly kind: 'error'; readonly error: unknown };

/** The page that `position` asks for. Never rejects: a page asked for ahead of time must not fail before anybody waits for it. */
export async function fetchPage(walk: Walk, position: Position): Promise<Fetched> {
  const { source, entity, pagination, clock, onEvent, signal, partition } = walk;
  const { params } = partition;
  try {
    const expired = pagination.expired(position, clock.now());
    if (expired !== null) throw new SyncError(expired, { code: 'TOKEN_EXPIRED', recovery: 'restart-walk' });
    const request = {
      entity: entity.name,
      params: {
        ...entity.fixedParams,
        ...sortParams(entity, partition),
        ...params,
        ...pagination.request(position),
      },
      isRoot: entity.parents.length === 0,
    };
    const startedMs = clock.now();
    onEvent({ kind: 'page-requested', entity: entity.name, params });
    const page = await source.list(request, signal);
    onEvent({
      kind: 'page-fetched',
      entity: entity.name,
      records: page.fetched,
      bytes: page.bytes,
      ms: clock.now() - startedMs,
    });
    return { kind: 'page', page };
  } catch (error) {
    return { kind: 'error', error };
  }
}
