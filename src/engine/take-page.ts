import type { PageCommit } from '../sinks/sink.ts';
import type { SourcePage } from '../source/source.ts';
import { answeredMs, smallestOf } from './clock-difference.ts';
import type { Fetched } from './fetch-page.ts';
import { afterFailure, afterPage, type Next, type Standing } from './next-step.ts';
import type { PreparedPage } from './prepare/prepare-page.ts';
import type { Walk } from './walk-partition.ts';
import { afterRecords } from './walk-state.ts';

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
export async function takePage(walk: Walk, standing: Standing, fetching: Promise<Fetched>): Promise<Taken> {
  const fetched = await fetching;
  try {
    walk.signal.throwIfAborted();
    if (fetched.kind === 'error') return { next: afterFailure(walk, standing, fetched.error), page: null };
    const prepared = prepare(walk, standing, fetched.page);
    if (prepared.kind === 'ready') return makeReady(walk, standing, fetched.page, prepared.page);
    dropPage(walk, fetched);
    return { next: prepared.next, page: null };
  } catch (error) {
    dropPage(walk, fetched);
    throw error;
  }
}

/** Accounts for a page that was fetched and will not be stored. */
export function dropPage({ onEvent, entity }: Walk, fetched: Fetched): void {
  if (fetched.kind === 'page') {
    onEvent({ kind: 'page-dropped', entity: entity.name, bytes: fetched.page.bytes });
  }
}

type Preparation =
  | { readonly kind: 'ready'; readonly page: PreparedPage }
  | { readonly kind: 'not-storable'; readonly next: Next };

/** A page that must not be stored (its fields have changed, and the settings say to stop then) ends the walk as a failed call does. */
function prepare(walk: Walk, standing: Standing, page: SourcePage): Preparation {
  try {
    return {
      kind: 'ready',
      page: walk.preparePage(walk.partition, page.records, {
        alreadyRead: standing.state.read,
        answeredMs: answeredMs(page.serverTime, { capMs: walk.capMs, nowMs: walk.clock.now() }),
        differenceMs: smallestOf(walk.partition.clockDifferences, standing.state.behind),
      }),
    };
  } catch (error) {
    return { kind: 'not-storable', next: afterFailure(walk, standing, error) };
  }
}

function makeReady(walk: Walk, standing: Standing, page: SourcePage, prepared: PreparedPage): Taken {
  const advance = walk.pagination.advance(standing.position, {
    marks: prepared.marks,
    changes: prepared.changes,
    capMs: standing.state.cap ?? walk.capMs,
    bytes: page.bytes,
    next: page.next,
    nowMs: walk.clock.now(),
  });
  const isFurther = advance.kind === 'continue' && advance.isFurther;
  const state = afterRecords(standing.state, page, prepared, isFurther);
  const next = afterPage(walk, { ...standing, state }, advance);
  const commit: PageCommit = {
    walk: { partition: walk.partition.id, run: walk.run },
    fetched: page.fetched,
    filtered: prepared.filtered,
    foreign: prepared.foreign,
    refused: prepared.refused,
    children: prepared.children,
    rows: prepared.rows,
    position: { ...next.standing.position, ...next.standing.state },
    seal: next.kind === 'end' ? next.seal : null,
    drift: prepared.drift,
    ...(advance.kind === 'continue' && advance.followed !== undefined ? { followed: advance.followed } : {}),
  };
  return { next, page: { prepared, commit, bytes: page.bytes } };
}
