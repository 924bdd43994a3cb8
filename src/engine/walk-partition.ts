import type { Clock } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { RunId } from '../core/names.ts';
import type { Entity } from '../definitions/definition.ts';
import type { PageCommit, Partition, Position, Proof, WalkFailure } from '../sinks/sink.ts';
import type { Source } from '../source/source.ts';
import { fetchPage, type Fetched } from './fetch-page.ts';
import { afterFailure, afterPage, type Next, type Standing } from './next-step.ts';
import type { GroupCommits } from './group-commits.ts';
import type { Pagination } from './pagination/pagination.ts';
import type { PreparedPage, PreparePage } from './prepare/prepare-page.ts';
import type { RunTally } from './run-tally.ts';

export interface WalkContext {
  readonly run: RunId;
  readonly source: Source;
  readonly commits: GroupCommits;
  readonly tally: RunTally;
  readonly entity: Entity;
  readonly pagination: Pagination;
  readonly preparePage: PreparePage;
  readonly inFlight: InFlight;
  readonly clock: Clock;
  readonly onEvent: OnRunEvent;
  readonly signal: AbortSignal;
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
 * commits are large; it ends only when all of its pages are. Throws what must end the run (recovery `stop`), and the
 * signal's reason when it is aborted: pages in hand are stored first.
 */
export async function walkPartition(context: WalkContext, partition: Partition): Promise<WalkEnd> {
  const pending: Promise<void>[] = [];
  try {
    return await walkPages(context, partition, pending);
  } finally {
    await context.commits.waitFor(Promise.allSettled(pending));
  }
}

async function walkPages(
  context: WalkContext,
  partition: Partition,
  pending: Promise<void>[],
): Promise<WalkEnd> {
  const { pagination, commits, onEvent, inFlight } = context;
  const { entity, params } = partition;
  let standing: Standing = {
    position: partition.position ?? pagination.begin(),
    read: readSoFar(partition.position),
    restarts: 0,
  };
  onEvent({ kind: 'walk-started', entity, params, resumed: partition.position !== null });
  let fetching: Promise<Fetched> | null = null;

  for (;;) {
    const taken = await takePage(
      context,
      partition,
      standing,
      fetching ?? fetchPage(context, partition, standing.position),
    );
    fetching = null;
    const { next, page } = taken;
    if (page !== null) {
      inFlight.bytes += page.bytes;
      if (next.kind === 'continue' && inFlight.bytes < inFlight.maxBytes) {
        fetching = fetchPage(context, partition, next.standing.position);
      }
      const stored = storePage(context, partition, page);
      // It is waited for below; until then a failure must not count as one that nobody handles.
      stored.catch(() => undefined);
      pending.push(stored);
    }
    const mayRunAhead = next.kind === 'continue' && fetching !== null && pending.length < maxPagesAhead;
    if (!mayRunAhead) await commits.waitFor(Promise.all(pending.splice(0)));
    if (next.kind === 'end') return { kind: 'sealed', proof: next.proof };
    if (next.kind === 'set-aside') return next;
    if (next.restartedBecause !== null)
      onEvent({ kind: 'walk-restarted', entity, params, why: next.restartedBecause });
    standing = next.standing;
  }
}

async function storePage(
  context: WalkContext,
  partition: Partition,
  page: NonNullable<Taken['page']>,
): Promise<void> {
  const { commits, tally, onEvent, inFlight } = context;
  const committed = await commits.submit(page.commit).finally(() => (inFlight.bytes -= page.bytes));
  tally.pageCommitted(partition, page.prepared, page.commit.fetched, committed);
  for (const { entity, counts } of committed.counts) {
    const newlyDue = entity === partition.entity ? committed.newlyDue : 0;
    onEvent({ kind: 'page-committed', entity, counts, newlyDue });
  }
}

interface Taken {
  readonly next: Next;
  /** Null where the fetch failed. */
  readonly page: {
    readonly prepared: PreparedPage;
    readonly commit: PageCommit;
    readonly bytes: number;
  } | null;
}

/**
 * Waits for a page and makes ready what is to be stored of it. What came raw is let go with this call: while a page is
 * stored, only what is stored is held.
 */
async function takePage(
  context: WalkContext,
  partition: Partition,
  standing: Standing,
  fetching: Promise<Fetched>,
): Promise<Taken> {
  const fetched = await fetching;
  context.signal.throwIfAborted();
  if (fetched.kind === 'error') return { next: afterFailure(context, standing, fetched.error), page: null };
  const { page } = fetched;
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

/** A stored position carries the number of records read, beside what its pagination keeps. */
function readSoFar(position: Position | null): number {
  const read = position?.['read'];
  return typeof read === 'number' ? read : 0;
}
