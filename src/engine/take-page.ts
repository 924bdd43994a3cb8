import type { PageCommit, Partition } from '../sinks/sink.ts';
import type { SourcePage } from '../source/source.ts';
import type { Fetched } from './fetch-page.ts';
import { afterFailure, afterPage, type Next, type Standing } from './next-step.ts';
import type { PreparedPage } from './prepare/prepare-page.ts';
import type { WalkContext } from './walk-partition.ts';

export interface Taken {
  readonly next: Next;
  /** Null where the fetch failed. */
  readonly page: ReadyPage | null;
}

export interface ReadyPage {
  readonly prepared: PreparedPage;
  readonly commit: PageCommit;
  readonly bytes: number;
}

/**
 * Waits for a page and makes ready what is to be stored of it. What came raw is let go with this call: while a page is
 * stored, only what is stored is held. Throws what must end the run, and the signal's reason: the page is dropped then.
 */
export async function takePage(
  context: WalkContext,
  partition: Partition,
  standing: Standing,
  fetching: Promise<Fetched>,
): Promise<Taken> {
  const fetched = await fetching;
  try {
    context.signal.throwIfAborted();
    return fetched.kind === 'page'
      ? makeReady(context, partition, standing, fetched.page)
      : { next: afterFailure(context, standing, fetched.error), page: null };
  } catch (error) {
    dropPage(context, partition, fetched);
    throw error;
  }
}

/** Accounts for a page that was fetched and will not be stored. */
export function dropPage({ onEvent }: WalkContext, { entity }: Partition, fetched: Fetched): void {
  if (fetched.kind === 'page') onEvent({ kind: 'page-dropped', entity, bytes: fetched.page.bytes });
}

function makeReady(context: WalkContext, partition: Partition, standing: Standing, page: SourcePage): Taken {
  const prepared = context.preparePage(partition, page.records, standing.read);
  const advance = context.pagination.advance(standing.position, {
    marks: prepared.marks,
    bytes: page.bytes,
    next: page.next,
    nowMs: context.clock.now(),
  });
  const next = afterPage(context, standing, page, advance);
  const commit: PageCommit = {
    walk: { partition: partition.id, run: context.run },
    fetched: page.fetched,
    filtered: prepared.filtered,
    foreign: prepared.foreign,
    refused: prepared.refused,
    children: prepared.children,
    rows: prepared.rows,
    position: { ...next.standing.position, read: next.standing.read },
    seal: next.kind === 'end' ? next.proof : null,
  };
  return { next, page: { prepared, commit, bytes: page.bytes } };
}
