import { SyncError } from '../core/errors.ts';
import type { Partition, Position } from '../sinks/sink.ts';
import type { SourcePage } from '../source/source.ts';
import type { WalkContext } from './walk-partition.ts';

export type Fetched =
  { readonly kind: 'page'; readonly page: SourcePage } | { readonly kind: 'error'; readonly error: unknown };

/** The page that `position` asks for. Never rejects: a page asked for ahead of time must not fail before anybody waits for it. */
export async function fetchPage(
  context: WalkContext,
  partition: Partition,
  position: Position,
): Promise<Fetched> {
  const { source, entity, pagination, clock, onEvent, signal } = context;
  const { params } = partition;
  try {
    const expired = pagination.expired(position, clock.now());
    if (expired !== null) throw new SyncError(expired, { code: 'TOKEN_EXPIRED', recovery: 'restart-walk' });
    const request = {
      entity: entity.name,
      params: { ...entity.fixedParams, ...entity.order?.params, ...params, ...pagination.request(position) },
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
