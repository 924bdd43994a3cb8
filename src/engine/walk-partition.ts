import type { Clock } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { RunId } from '../core/names.ts';
import type { Entity } from '../definitions/definition.ts';
import type { Partition, Proof, WalkFailure } from '../sinks/partition.ts';
import type { Source } from '../source/source.ts';
import { fetchPage, type Fetched } from './fetch-page.ts';
import type { Standing } from './next-step.ts';
import type { GroupCommits } from './group-commits.ts';
import type { PageLengths } from './pagination/page-lengths.ts';
import { paginationOf } from './pagination/pagination-of.ts';
import type { Pagination } from './pagination/pagination.ts';
import type { PreparePage } from './prepare/prepare-page.ts';
import type { RunTally } from './run-tally.ts';
import { dropPage, takePage, type ReadyPage } from './take-page.ts';
import { readState } from './walk-state.ts';

export interface WalkContext {
  readonly run: RunId;
  readonly source: Source;
  readonly commits: GroupCommits;
  readonly tally: RunTally;
  readonly entity: Entity;
  readonly pageLengths: PageLengths;
  readonly preparePage: PreparePage;
  readonly inFlight: InFlight;
  /** The run's start by the service's clock, in milliseconds. */
  readonly capMs: number;
  /** The walks are bounded at both ends: what they do not meet may lie outside. */
  readonly isBackfill: boolean;
  /** The settings say which of the entity's records are read. */
  readonly isFiltered: boolean;
  readonly clock: Clock;
  readonly onEvent: OnRunEvent;
  readonly signal: AbortSignal;
}

/** One partition being read. */
export interface Walk extends WalkContext {
  readonly partition: Partition;
  readonly pagination: Pagination;
}

/** Bytes of pages that are received and not yet stored, over all walks of a run. */
export interface InFlight {
  bytes: number;
  readonly maxBytes: number;
}

export type WalkEnd =
  | { readonly kind: 'sealed'; readonly proof: Proof }
  | { readonly kind: 'set-aside'; readonly failure: WalkFailure };

/** Pages of one walk that may be received and not yet stored: what a kill makes the next run ask for again. */
const maxPagesAhead = 4;

/**
 * Reads one partition to its end: fetch, prepare, commit. The walk runs a few pages ahead of what is stored, so that
 * commits are large; it ends only when all of its pages are. Throws what must end the run (recovery `stop` or `throttle`),
 * and the signal's reason when it is aborted: pages in hand are stored first.
 */
export async function walkPartition(context: WalkContext, partition: Partition): Promise<WalkEnd> {
  const { entity, pageLengths } = context;
  const walk: Walk = { ...context, partition, pagination: paginationOf(entity, partition, pageLengths) };
  const ahead: Ahead = { fetching: null, stored: [] };
  try {
    return await walkPages(walk, ahead);
  } finally {
    await context.commits.waitFor(Promise.allSettled(ahead.stored));
    // Only a failed commit leaves one behind, and that has aborted the call.
    if (ahead.fetching !== null) dropPage(walk, await ahead.fetching);
  }
}

/** What a walk has under way: the call for its next page, and pages that are being stored. */
interface Ahead {
  fetching: Promise<Fetched> | null;
  readonly stored: Promise<void>[];
}

async function walkPages(walk: Walk, ahead: Ahead): Promise<WalkEnd> {
  const { pagination, commits, onEvent, inFlight, partition } = walk;
  const { entity, params } = partition;
  let standing: Standing = {
    position: partition.position ?? pagination.begin(),
    state: readState(partition.position, walk.capMs),
    restarts: 0,
  };
  const isIncremental = partition.mode === 'incremental';
  onEvent({ kind: 'walk-started', entity, params, isIncremental, resumed: partition.position !== null });

  for (;;) {
    const { next, page } = await takePage(
      walk,
      standing,
      takeFetching(ahead) ?? fetchPage(walk, standing.position),
    );
    if (page !== null) {
      inFlight.bytes += page.bytes;
      if (next.kind === 'continue' && inFlight.bytes < inFlight.maxBytes) {
        ahead.fetching = fetchPage(walk, next.standing.position);
      }
      const stored = storePage(walk, page);
      // It is waited for below; until then a failure must not count as one that nobody handles.
      stored.catch(() => undefined);
      ahead.stored.push(stored);
    }
    const mayRunAhead =
      next.kind === 'continue' && ahead.fetching !== null && ahead.stored.length < maxPagesAhead;
    if (!mayRunAhead) await commits.waitFor(Promise.all(ahead.stored.splice(0)));
    if (next.kind === 'end') return { kind: 'sealed', proof: next.seal.proof };
    if (next.kind === 'set-aside') return next;
    if (next.restartedBecause !== null) {
      onEvent({ kind: 'walk-restarted', entity, params, why: next.restartedBecause });
    }
    standing = next.standing;
  }
}

/** The caller waits for the call from now on; kept in a variable beside it, the raw page would outlive its preparation. */
function takeFetching(ahead: Ahead): Promise<Fetched> | null {
  const { fetching } = ahead;
  ahead.fetching = null;
  return fetching;
}

async function storePage(walk: Walk, page: ReadyPage): Promise<void> {
  const { commits, tally, onEvent, inFlight, partition } = walk;
  const committed = await commits
    .submit(page.commit)
    .catch((error: unknown) => {
      onEvent({ kind: 'page-dropped', entity: partition.entity, bytes: page.bytes });
      throw error;
    })
    .finally(() => (inFlight.bytes -= page.bytes));
  tally.pageCommitted(partition, page.prepared, page.commit.fetched, committed);
  for (const { entity, counts } of committed.counts) {
    const isOwn = entity === partition.entity;
    const newlyDue = isOwn ? committed.newlyDue : 0;
    onEvent({ kind: 'page-committed', entity, counts, newlyDue, bytes: isOwn ? page.bytes : 0 });
  }
}
