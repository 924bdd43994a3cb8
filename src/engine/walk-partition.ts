import { SyncError } from '../core/errors.ts';
import { fixedParamsAt } from '../definitions/clock-value.ts';
import type { Partition } from '../sinks/partition.ts';
import type { PageCommit } from '../sinks/sink.ts';
import { answeredMs, smallestOf } from './clock-difference.ts';
import type { CompletedPage } from './complete-page.ts';
import { afterFailure, afterPage, afterRefusal, beginning, isLook, type Fetched } from './next-step.ts';
import { openPosition, sealPosition } from './sealed-position.ts';
import { paginationOf, sortParams } from '../pagination/pagination-of.ts';
import type { Advance } from '../pagination/pagination.ts';
import type { PreparedPage } from './prepare/prepare-page.ts';
import {
  afterRecords,
  readState,
  type WalkPoint,
  type Walk,
  type WalkContext,
  type WalkEnd,
} from './walk.ts';

/**
 * Pages of one walk that may be received and not yet stored: what a kill makes the next run ask for again. Two commits
 * of pages of a thousand records: the pages of the second are prepared while a server stores the first.
 */
const maxPagesAhead = 8;

/**
 * Reads one partition to its end: fetch, prepare, commit; a few pages ahead of what is stored, so that commits are
 * large. Throws what must end the run (recovery `stop` or `throttle`), and the signal's reason when it is aborted:
 * received pages are stored first.
 */
export async function walkPartition(context: WalkContext, stored: Partition): Promise<WalkEnd> {
  const { entity, commits } = context;
  const partition = { ...stored, position: openPosition(entity, stored.position) };
  const walk: Walk = { ...context, partition, pagination: paginationOf(entity, partition, context) };
  const ahead: Ahead = { fetching: null, stored: [] };
  commits.walkOpened();
  try {
    return await walkPages(walk, ahead);
  } finally {
    await commits.waitFor(Promise.allSettled(ahead.stored));
    // Only a failed commit leaves one behind, and that has aborted the call.
    if (ahead.fetching !== null) dropPage(walk, await ahead.fetching);
    commits.walkClosed();
  }
}

/** What a walk has under way: the call for its next page, and pages that are being stored. */
interface Ahead {
  fetching: Promise<Fetched> | null;
  readonly stored: Promise<void>[];
}

async function walkPages(walk: Walk, ahead: Ahead): Promise<WalkEnd> {
  const { commits, inFlight, partition } = walk;
  const { onEvent } = walk.run;
  const { entity, params, position } = partition;
  const isIncremental = partition.mode === 'incremental';
  onEvent({ kind: 'walk-started', entity, params, isIncremental, resumed: position !== null });
  let point: WalkPoint =
    position === null ? beginning(walk) : { position, state: readState(position), restarts: 0, halvings: 0 };

  let isCounted = isIncremental && walk.entity.incremental?.kind === 'newestFirst';
  for (;;) {
    const { next, page } = await takePage(walk, point, takeFetching(ahead) ?? fetchPage(walk, point));
    if (page !== null) {
      inFlight.bytes += page.bytes;
      if (!isCounted && page.total !== undefined && walk.trustsTotal) {
        isCounted = true;
        const records = Math.max(0, page.total - point.state.read);
        onEvent({ kind: 'listing-counted', entity, params, records });
      }
      if (next.kind === 'continue' && inFlight.bytes < inFlight.maxBytes) {
        ahead.fetching = fetchPage(walk, next.point);
      }
      const stored = storePage(walk, page);
      ahead.stored.push(stored);
      // One that fails stays, to be waited for.
      stored.then(
        () => void ahead.stored.splice(ahead.stored.indexOf(stored), 1),
        () => undefined,
      );
    }
    const isAhead = next.kind === 'continue' && ahead.fetching !== null;
    const [oldest] = ahead.stored;
    if (!isAhead) await commits.waitFor(Promise.all(ahead.stored));
    else if (oldest !== undefined && ahead.stored.length >= maxPagesAhead) await commits.waitFor(oldest);
    if (next.kind === 'end') return { kind: 'sealed', seal: next.seal };
    if (next.kind === 'set-aside') return next;
    if (next.restartedBecause !== null) {
      onEvent({ kind: 'walk-restarted', entity, params, why: next.restartedBecause });
    }
    point = next.point;
  }
}

/**
 * The caller waits for the call from now on; kept in a variable beside it, the raw page would outlive its preparation.
 */
function takeFetching(ahead: Ahead): Promise<Fetched> | null {
  const { fetching } = ahead;
  ahead.fetching = null;
  return fetching;
}

/**
 * The page that the position asks for. Never rejects: a page asked for ahead of time must not fail before it is
 * awaited.
 */
async function fetchPage(
  walk: Walk,
  { position, state }: Pick<WalkPoint, 'position' | 'state'>,
): Promise<Fetched> {
  const { run, entity, pagination, partition, completePage } = walk;
  const { source, clock, onEvent, signal } = run;
  const { params } = partition;
  try {
    const expired = pagination.expired(position, clock.now());
    if (expired !== null) throw new SyncError(expired, { code: 'TOKEN_EXPIRED', recovery: 'restart-walk' });
    const request = {
      entity: entity.name,
      params: {
        // Of one time for the whole walk, also where another run resumes it.
        ...fixedParamsAt(entity, state.cap),
        ...sortParams(entity, partition),
        ...params,
        ...pagination.request(position),
      },
      isRoot: entity.parents.length === 0,
      ...(isLook(pagination, position) ? { isLook: true } : {}),
    };
    const startedMs = clock.now();
    onEvent({ kind: 'page-requested', entity: entity.name, params });
    const page = await source.list(request, signal);
    onEvent({
      kind: 'page-fetched',
      entity: entity.name,
      records: page.records.length,
      bytes: page.bytes,
      ms: clock.now() - startedMs,
    });
    return await completePage(partition, page);
  } catch (error) {
    return afterRefusal((status) => pagination.refused(position, status), error);
  }
}

/**
 * Waits for a page and prepares it; the raw page is released with this call. `page` is null where the fetch failed.
 * Throws what must end the run, and the signal's reason: the page is dropped then.
 */
async function takePage(walk: Walk, point: WalkPoint, fetching: Promise<Fetched>) {
  const fetched = await fetching;
  try {
    walk.run.signal.throwIfAborted();
    if ('error' in fetched) return { next: afterFailure(walk, point, fetched.error), page: null };
    let prepared: PreparedPage;
    try {
      prepared = await prepare(walk, point, fetched);
    } catch (error) {
      // It must not be stored (its fields have changed, and the settings say to stop then): the walk ends as after a
      // failed call.
      const next = afterFailure(walk, point, error);
      dropPage(walk, fetched);
      return { next, page: null };
    }
    if (point.state.read === 0) await walk.checkAccount(walk.entity, walk.partition, prepared);
    return makeReady(walk, point, fetched, prepared);
  } catch (error) {
    dropPage(walk, fetched);
    throw error;
  }
}

/** Accounts for a page that was fetched and will not be stored. */
function dropPage({ run, entity }: Walk, fetched: Fetched): void {
  if ('error' in fetched) return;
  run.onEvent({ kind: 'page-dropped', entity: entity.name, bytes: fetched.page.bytes });
}

async function prepare(
  { run, partition, preparePage }: Walk,
  { state }: WalkPoint,
  { page }: CompletedPage,
): Promise<PreparedPage> {
  return await preparePage(partition, page.records, {
    alreadyRead: state.read,
    answeredMs: answeredMs(page.serverTime, { capMs: run.capMs, nowMs: run.clock.now() }),
    differenceMs: smallestOf(partition.clockDifferences, state.behind),
  });
}

function makeReady(walk: Walk, point: WalkPoint, completed: CompletedPage, prepared: PreparedPage) {
  const { page } = completed;
  const advance = walk.pagination.advance(point.position, {
    marks: prepared.marks,
    changes: prepared.changes,
    capMs: point.state.cap,
    bytes: page.bytes,
    next: page.next,
    ...(page.total === undefined ? {} : { total: page.total }),
    ...(page.isCut === undefined ? {} : { isCut: page.isCut }),
    ...(page.refusal === undefined ? {} : { refusal: page.refusal }),
    nowMs: walk.run.clock.now(),
  });
  const isFurther = advance.kind === 'continue' && advance.isFurther;
  const state = afterRecords(point.state, completed, prepared, isFurther);
  const isWeak = page.wasNull === true && walk.partition.storedRows > state.read;
  const next = afterPage(walk, { ...point, state }, isWeak ? unordered(advance) : advance);
  const commit: PageCommit = {
    ...prepared.stored,
    walk: { partition: walk.partition.id, run: walk.run.id },
    fetched: page.records.length,
    position: sealPosition(walk.entity, { ...next.point.position, ...next.point.state }),
    seal: next.kind === 'end' ? next.seal : null,
    ...('followed' in advance && advance.followed !== undefined ? { followed: advance.followed } : {}),
  };
  return { next, page: { prepared, commit, bytes: page.bytes, total: page.total } };
}

/** What the end proves where stored rows contradict it: no more than that of a listing in unknown order. */
function unordered(advance: Advance): Advance {
  return advance.kind === 'end' ? { ...advance, proof: { ...advance.proof, isOrdered: false } } : advance;
}

/** A page that is to be stored. */
interface ReadyPage {
  readonly prepared: PreparedPage;
  readonly commit: PageCommit;
  /** As it came. */
  readonly bytes: number;
}

/** Stores a page of a walk, and reports what came of it. Rejects where its commit fails. */
async function storePage(walk: Walk, page: ReadyPage): Promise<void> {
  const { run, commits, inFlight, partition } = walk;
  const { tally, onEvent } = run;
  const shown = run.shownProgress?.() ?? null;
  const committed = await commits
    .submit(shown === null ? page.commit : { ...page.commit, shown })
    .catch((error: unknown) => {
      onEvent({ kind: 'page-dropped', entity: partition.entity, bytes: page.bytes });
      throw error;
    })
    .finally(() => (inFlight.bytes -= page.bytes));
  walk.onStored(committed.newlyDue);
  tally.pageCommitted(partition, page.prepared, page.commit.fetched, committed);
  for (const { entity, counts } of committed.counts) {
    const isOwn = entity === partition.entity;
    const newlyDue = isOwn ? committed.newlyDue : 0;
    const { params } = partition;
    onEvent({ kind: 'page-committed', entity, params, counts, newlyDue, bytes: isOwn ? page.bytes : 0 });
  }
  for (const found of foundListings(page.prepared, committed.newlyDue)) {
    onEvent({ kind: 'listings-found', parent: partition.entity, ...found });
  }
}

/** By entity, for people. Where only some of the listings became due, which ones is not known. */
function foundListings({ stored: { children } }: PreparedPage, newlyDue: number) {
  if (newlyDue === 0) return [];
  const isAll = newlyDue >= children.length;
  const entities = new Set(children.map(({ entity }) => entity));
  return [...entities].map((entity) => {
    const records = children.filter((one) => one.entity === entity).map((one) => one.records);
    const isStated = isAll && !records.includes(null);
    return {
      entity,
      listings: isAll ? records.length : null,
      records: isStated ? records.reduce<number>((sum, one) => sum + (one ?? 0), 0) : null,
    };
  });
}
