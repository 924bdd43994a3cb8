import type { Clock } from '../core/clock.ts';
import { instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { RunId } from '../core/names.ts';
import type { Entity } from '../definitions/definition.ts';
import type { PageCommit, Partition, Position, Proof, WalkFailure } from '../sinks/sink.ts';
import type { Source, SourcePage } from '../source/source.ts';
import { fetchPage, type Fetched } from './fetch-page.ts';
import type { GroupCommits } from './group-commits.ts';
import type { Advance, Pagination } from './pagination/pagination.ts';
import type { PreparedPage, PreparePage } from './prepare/prepare-page.ts';
import type { RunTally } from './run-tally.ts';

/** Beginnings of one walk in one run, after the first. */
const maxRestarts = 3;

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

/** A position with what the walk itself adds to it: the records read so far, and the beginnings of this run. */
interface Standing {
  readonly position: Position;
  readonly read: number;
  readonly restarts: number;
}

/**
 * Reads one partition to its end: fetch, prepare, commit, and the next page is fetched while this one is stored.
 * Throws what must end the run (recovery `stop`), and the signal's reason when it is aborted: the ledger then stands
 * at the last committed page.
 */
export async function walkPartition(context: WalkContext, partition: Partition): Promise<WalkEnd> {
  const { pagination, commits, tally, onEvent, inFlight } = context;
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
      const committed = await commits.submit(page.commit).finally(() => (inFlight.bytes -= page.bytes));
      tally.pageCommitted(partition, page.prepared, page.commit.fetched, committed);
      for (const { entity: landedIn, counts } of committed.counts) {
        onEvent({
          kind: 'page-committed',
          entity: landedIn,
          counts,
          newlyDue: landedIn === entity ? committed.newlyDue : 0,
        });
      }
    }
    if (next.kind === 'end') return { kind: 'sealed', proof: next.proof };
    if (next.kind === 'set-aside') return next;
    if (next.restartedBecause !== null)
      onEvent({ kind: 'walk-restarted', entity, params, why: next.restartedBecause });
    standing = next.standing;
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

type Next =
  | { readonly kind: 'continue'; readonly standing: Standing; readonly restartedBecause: string | null }
  | { readonly kind: 'end'; readonly standing: Standing; readonly proof: Proof }
  | { readonly kind: 'set-aside'; readonly standing: Standing; readonly failure: WalkFailure };

function afterPage(context: WalkContext, standing: Standing, page: SourcePage, advance: Advance): Next {
  const read = standing.read + page.fetched;
  switch (advance.kind) {
    case 'continue':
      return {
        kind: 'continue',
        standing: { ...standing, position: advance.position, read },
        restartedBecause: null,
      };
    case 'end':
      return {
        kind: 'end',
        standing: { ...standing, position: advance.position, read },
        proof: advance.proof,
      };
    case 'restart':
      return restart(
        context,
        standing,
        new SyncError(advance.why, { code: advance.code, recovery: 'restart-walk' }),
      );
    case 'broken': {
      const failure = failureOf(
        context,
        new SyncError(advance.why, { code: advance.code, recovery: 'skip-partition' }),
        true,
      );
      return {
        kind: 'set-aside',
        standing: { ...standing, position: context.pagination.begin(), read: 0 },
        failure,
      };
    }
  }
}

function afterFailure(
  context: WalkContext,
  standing: Standing,
  error: unknown,
): Exclude<Next, { kind: 'end' }> {
  if (!(error instanceof SyncError) || error.recovery === 'stop') throw error;
  switch (error.recovery) {
    case 'restart-walk':
      return restart(context, standing, error);
    case 'smaller-page': {
      const position = context.pagination.halve(standing.position);
      if (position !== null)
        return { kind: 'continue', standing: { ...standing, position }, restartedBecause: null };
      return { kind: 'set-aside', standing, failure: failureOf(context, error, false) };
    }
    case 'retry':
    case 'throttle':
    case 'skip-partition':
    case 'skip-entity':
      return { kind: 'set-aside', standing, failure: failureOf(context, error, false) };
  }
}

function restart(context: WalkContext, standing: Standing, error: SyncError): Exclude<Next, { kind: 'end' }> {
  const position = context.pagination.begin();
  const restarts = standing.restarts + 1;
  if (restarts > maxRestarts) {
    const failure = failureOf(
      context,
      new SyncError(`${error.message}; begun again ${maxRestarts} times`, {
        code: error.code,
        recovery: error.recovery,
      }),
      true,
    );
    return { kind: 'set-aside', standing: { position, read: 0, restarts }, failure };
  }
  return { kind: 'continue', standing: { position, read: 0, restarts }, restartedBecause: error.message };
}

function failureOf(context: WalkContext, error: SyncError, dropPosition: boolean): WalkFailure {
  return {
    code: error.code,
    recovery: error.recovery,
    message: error.message,
    at: instant(context.clock.now()),
    dropPosition,
  };
}

/** A stored position carries the number of records read, beside what its pagination keeps. */
function readSoFar(position: Position | null): number {
  const read = position?.['read'];
  return typeof read === 'number' ? read : 0;
}
