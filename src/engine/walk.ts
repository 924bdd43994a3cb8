import * as z from 'zod';
import { textNumber } from '../core/text-number.ts';
import { replacesRows, type Entity } from '../definitions/definition.ts';
import type { Partition, Position, Seal, WalkFailure, Absence, Proof } from '../sinks/partition.ts';
import {
  smaller,
  answeredMs,
  smallestOf,
  keptDifferences,
  compilePreparePage,
  type PreparedPage,
  type RememberedRows,
} from './prepare/prepare-page.ts';
import type { CheckAccount } from './check-account.ts';
import { compileCompletePage, type CompletedPage } from './complete-page.ts';
import { givenFirst, isFiltered } from './chosen-entities.ts';
import type { EntityName } from '../core/names.ts';
import type { PageLengths, Pagination, Advance } from '../pagination/pagination.ts';
import type { Run } from './run.ts';
import { checkInWindow, sentParams } from './windows.ts';
import { SyncError } from '../core/errors.ts';
import { fixedParamsAt } from '../definitions/params.ts';
import type { PageCommit, CommittedPage } from '../sinks/sink.ts';
import { paginationOf, sortParams } from '../pagination/pagination-of.ts';
import { instant } from '../core/clock.ts';
import { readRecords, type ListRequest } from '../source/source.ts';
import { readFields, writeJson, isJsonObject, type JsonValue } from '../core/json.ts';

/** State that the walks of all entities of a run share. */
interface SharedByWalks {
  readonly commits: GroupCommits;
  /** Bytes of pages that are received and not yet stored. Absent: no page is fetched ahead. */
  readonly inFlight?: { bytes: number; readonly maxBytes: number };
  /** Absent: every record is read. */
  readonly remembered?: RememberedRows;
  /** Absent: the service can tell its account. */
  readonly checkAccount?: CheckAccount;
  /** Called with each page that was stored, and the partitions that became due by it. */
  readonly onStored?: (entity: EntityName, newlyDue: number) => void;
}

type WalkingRun = Pick<Run, 'source' | 'tally' | 'capMs' | 'clock' | 'onEvent' | 'signal'> &
  Pick<Run, 'id' | 'definition' | 'entities' | 'policies' | 'concurrency'> & {
    readonly asked: Pick<Run['asked'], 'window'>;
  };

export type WalkContext = ReturnType<typeof walkContext>;

/** State that the walks of one entity in one run share, created when the first of them starts. */
export function walkContext(run: WalkingRun, entity: Entity, { remembered, ...shared }: SharedByWalks) {
  const chosen = run.entities.get(entity.name);
  const isBackfill = run.asked.window !== null;
  const pageLengths: PageLengths = new Map();
  return {
    inFlight: { bytes: 0, maxBytes: 0 },
    ...shared,
    run,
    entity,
    /** The walks are bounded at both ends: rows that they do not meet may lie outside. */
    isBackfill,
    /** The settings say which of the entity's records are read. */
    isFiltered: isFiltered(chosen) || givenFirst(entity).length > 0,
    pageLengths,
    /**
     * Times that pages had to be halved in this run before the service gave one in time: later walks do not try larger
     * ones.
     */
    slowPages: { halvings: 0 },
    /** False: totals in answers are ignored. */
    trustsTotal: chosen?.trustsTotal ?? entity.trustsTotal,
    completePage: compileCompletePage(entity, run),
    preparePage: compilePreparePage(
      { ...run, isBackfill, ...(remembered === undefined ? {} : { remembered }) },
      entity,
    ),
  };
}

type Walk = Readonly<WalkContext> & { readonly partition: Partition; readonly pagination: Pagination };

export type WalkEnd =
  | { readonly kind: 'sealed'; readonly seal: Seal }
  | { readonly kind: 'set-aside'; readonly failure: WalkFailure };

/** A position with the walk's own state, and the counts of this run. */
export interface WalkPoint {
  readonly position: Position;
  readonly state: WalkState;
  readonly restarts: number;
  /** Times that the page size was halved in this run. */
  readonly halvings: number;
}

/** Number of keys that a walk keeps of those it has met: the ones with the smallest hashes. */
const sampleSize = 100;
/**
 * Consecutive pages that may lead no further, and records beyond those that the rules below allow: some services send
 * many empty pages.
 */
const patience = 1_000;
/** Times that a record may come while a walk continues: pages of eleven records overlap by ten. */
const mostRepeats = 32;
/**
 * Highest multiple of the records that a walk had read before that may come again as rows move; more is no accident.
 */
const mostRereads = 4;

const hashes = z.array(z.number()).readonly();

/**
 * Whether a walk gets anywhere, whatever its strategy: kept in its position, so that it survives a kill. A key that was
 * not met before joins a full sample with a probability of its size to all keys met. So a walk that continues is all
 * but certain (1 to 10^13) to change its sample before it has read four times as much again, and one that only meets
 * known keys never does.
 */
const walkProgress = z.object({
  /** Pages in a row that were empty, or led to no row behind those read. */
  stalled: z.number().default(0),
  sample: hashes.default([]),
  /** Records up to the last change of the sample; an empty page counts as one. */
  before: z.number().default(0),
  /** Records since then, and the sample of their keys alone. */
  since: z.number().default(0),
  sinceSample: hashes.default([]),
});
type WalkProgress = Readonly<z.infer<typeof walkProgress>>;

export const noProgress: WalkProgress = walkProgress.parse({});

/**
 * State of a walk beside its pagination's position. It is stored with the position under these names, so it survives a
 * kill. The defaults are those of its beginning.
 */
export const walkState = z.object({
  read: z.number().default(0),
  /** The walk's beginning by the service's clock, in milliseconds. */
  cap: z.number(),
  /** The highest change value so far that is not later than the beginning, in milliseconds. */
  high: z.number().nullable().default(null),
  /** Most that the records' clock is behind the service's, in milliseconds: see `differenceMs`. Null: not known. */
  behind: z.number().nullable().default(null),
  /** Records that were refused. */
  refused: z.number().default(0),
  /** Records that came in part and stayed so. */
  partial: z.number().default(0),
  /** Incomplete records that `get` could not be asked for at the time. */
  unanswered: z.number().default(0),
  /** Nothing has contradicted the order that was asked for. */
  isSorted: z.boolean().default(true),
  progress: walkProgress.default(noProgress),
});
export type WalkState = Readonly<z.infer<typeof walkState>>;

/** `isFurther`: as the pagination says of the page. */
export function afterRecords(
  state: WalkState,
  { page, unanswered }: CompletedPage,
  prepared: PreparedPage,
  isFurther: boolean,
): WalkState {
  const { cap } = state;
  let { high } = state;
  for (const change of prepared.changes) {
    if (change === null) continue;
    // An array may have elements that are later than the walk's beginning: only the others count.
    const settledMs = change.highestMs <= cap ? change.highestMs : change.lowestMs;
    if (settledMs <= cap) high = Math.max(high ?? settledMs, settledMs);
  }
  return {
    ...state,
    read: state.read + page.records.length,
    high,
    behind: smaller(state.behind, prepared.differenceMs),
    refused: state.refused + prepared.stored.refused.length,
    partial: state.partial + prepared.partial,
    unanswered: state.unanswered + unanswered,
    isSorted: state.isSorted && prepared.isSorted,
    progress: afterKeys(state.progress, prepared.keys, isFurther && page.records.length > 0),
  };
}

/** `keys`: of the page's records that have one. `isFurther`: the page reaches behind everything read before. */
export function afterKeys(progress: WalkProgress, keys: readonly string[], isFurther: boolean): WalkProgress {
  const { before, since, sinceSample } = progress;
  const stalled = isFurther ? 0 : progress.stalled + 1;
  const met = keys.map((key) => textNumber(key) % 2 ** 32);
  const sample = withSmallest(progress.sample, met);
  const read = since + Math.max(1, keys.length);
  return sample === progress.sample
    ? { stalled, sample, before, since: read, sinceSample: withSmallest(sinceSample, met) }
    : { stalled, sample, before: before + read, since: 0, sinceSample: [] };
}

/** Why the walk must stop; null while it makes progress. */
export function stuckBecause({ stalled, before, since, sinceSample }: WalkProgress): string | null {
  const advice =
    'what was read is kept, and the next run begins this listing again; report it to the operator of the service if it stays so';
  if (stalled > patience) {
    return `expected each page to lead on, got ${stalled} in a row that were empty or showed no row behind those read; ${advice}`;
  }
  const isCounted = sinceSample.length < sampleSize;
  const most = isCounted
    ? mostRepeats * sinceSample.length
    : Math.max(mostRepeats * sampleSize, mostRereads * before);
  if (since <= patience + most) return null;
  const shown = isCounted ? `${sinceSample.length} different ones` : 'all known before';
  return `expected each page to lead to other records, got the same ones again and again: the last ${since} were ${shown}; ${advice}`;
}

/** The sample itself where none of `met` belongs into it. */
function withSmallest(sample: readonly number[], met: readonly number[]): readonly number[] {
  const largest = sample.length < sampleSize ? null : (sample.at(-1) ?? null);
  const joining = new Set(met.filter((one) => (largest === null || one < largest) && !sample.includes(one)));
  if (joining.size === 0) return sample;
  return [...sample, ...joining].toSorted((one, other) => one - other).slice(0, sampleSize);
}

/**
 * Pages of one walk that may be received and not yet stored: a kill makes the next run request them again. Two commits
 * of pages of a thousand records: the pages of the second are prepared while a server stores the first.
 */
const maxPagesAhead = 8;

/**
 * Reads one partition to its end: fetch, prepare, commit; fetches run a few pages ahead, so that commits are large.
 * Throws errors that must end the run (recovery `stop` or `throttle`), and the signal's reason when it is aborted:
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

/** Pending work of a walk: the call for its next page, and pages that are being stored. */
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
    position === null
      ? beginning(walk)
      : { position, state: walkState.parse(position), restarts: 0, halvings: 0 };

  // An entity has many listings below records, whose totals would say little of all of them.
  const isRoot = walk.entity.parents.length === 0 && partition.tree === null;
  let isCounted = !isRoot || (isIncremental && walk.entity.incremental?.kind === 'newestFirst');
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
async function fetchPage(walk: Walk, { position, state }: Pick<WalkPoint, 'position' | 'state'>) {
  const { run, entity, pagination, partition, completePage } = walk;
  const { source, clock, onEvent, signal } = run;
  const { params } = partition;
  try {
    const expired = pagination.expired(position, clock.now());
    if (expired !== null) throw new SyncError(expired, { code: 'TOKEN_EXPIRED', recovery: 'restart-walk' });
    const request = pageRequest(entity, partition, pagination, position, state.cap);
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

/** Asks for the page at a position. `capMs`: of one time for the whole walk, also where another run resumes it. */
export function pageRequest(
  entity: Entity,
  listing: Pick<Partition, 'mode' | 'watermark' | 'storedRows' | 'params'>,
  pagination: Pagination,
  position: Position,
  capMs: number,
): ListRequest {
  return {
    entity: entity.name,
    params: {
      ...fixedParamsAt(entity, capMs),
      ...sortParams(entity, listing),
      ...sentParams(entity, listing.params, capMs),
      ...pagination.request(position),
    },
    isRoot: entity.parents.length === 0,
    ...(isLook(pagination, position) ? { isLook: true } : {}),
  };
}

/**
 * Waits for a page and prepares it; the raw page is released with this call. `page` is null where the fetch failed.
 * Throws errors that must end the run, and the signal's reason: the page is dropped then.
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
      // It must not be stored (its fields have changed, and the settings say to stop then; or it is that of another
      // window): the walk ends as after a failed call.
      const next = afterFailure(walk, point, error);
      dropPage(walk, fetched);
      return { next, page: null };
    }
    if (point.state.read === 0) await walk.checkAccount?.(walk.entity, walk.partition, prepared);
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

async function prepare(walk: Walk, { state }: WalkPoint, { page }: CompletedPage) {
  const { run, partition } = walk;
  const prepared = await walk.preparePage(partition, page.records, {
    alreadyRead: state.read,
    answeredMs: answeredMs(page.serverTime, { capMs: run.capMs, nowMs: run.clock.now() }),
    differenceMs: smallestOf(partition.clockDifferences, state.behind),
  });
  checkInWindow(walk.entity, partition.params, prepared.changes);
  return prepared;
}

function makeReady(walk: Walk, point: WalkPoint, completed: CompletedPage, prepared: PreparedPage) {
  const { page } = completed;
  const advance = walk.pagination.advance(point.position, {
    ...page,
    marks: prepared.marks,
    changes: prepared.changes,
    capMs: point.state.cap,
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

/** Weakens the proof of the end where stored rows contradict it: to that of a listing in unknown order. */
function unordered(advance: Advance): Advance {
  return advance.kind === 'end' ? { ...advance, proof: { ...advance.proof, isOrdered: false } } : advance;
}

type ReadyPage = ReturnType<typeof makeReady>['page'];

/** Stores a page of a walk, and reports the result. Rejects where its commit fails. */
async function storePage(walk: Walk, page: ReadyPage): Promise<void> {
  const { run, commits, inFlight, partition } = walk;
  const { tally, onEvent } = run;
  const committed = await commits
    .submit(page.commit)
    .catch((error: unknown) => {
      onEvent({ kind: 'page-dropped', entity: partition.entity, bytes: page.bytes });
      throw error;
    })
    .finally(() => (inFlight.bytes -= page.bytes));
  walk.onStored?.(partition.entity, committed.newlyDue);
  tally.pageCommitted(partition, page.prepared, page.commit.fetched, committed);
  for (const { entity, counts } of committed.counts) {
    const isOwn = entity === partition.entity;
    const newlyDue = isOwn ? committed.newlyDue : 0;
    const { params } = partition;
    onEvent({ kind: 'page-committed', entity, params, counts, newlyDue, bytes: isOwn ? page.bytes : 0 });
  }
}

/** Beginnings of one walk in one run, after the first. */
const maxRestarts = 3;

export type Next =
  | { readonly kind: 'continue'; readonly point: WalkPoint }
  | { readonly kind: 'end'; readonly point: WalkPoint; readonly seal: Seal }
  | { readonly kind: 'set-aside'; readonly point: WalkPoint; readonly failure: WalkFailure };

/** End of a call for a page: the page, or the error. */
export type Fetched = CompletedPage | { readonly error: unknown };

const nothing = { records: readRecords([]), next: null, serverTime: null, bytes: 0 };

/** Some services answer so where they have no page. */
const brokenStatus = 500;

/** Whether a request for this position may be answered so, and the answer is to be taken as it is. */
export function isLook(pagination: Pagination, position: Position): boolean {
  return pagination.refused(position, brokenStatus) === 'empty';
}

/** A call for a page that failed: where it was refused and the page lies behind the last one, the page is empty. */
export function afterRefusal(
  meaningOf: (status: number | null) => ReturnType<Pagination['refused']>,
  error: unknown,
): Fetched {
  if (!(error instanceof SyncError)) return { error };
  const { code, recovery, context, message } = error;
  const { status } = context;
  if (code !== 'NOT_FOUND' && code !== 'REQUEST_REFUSED' && status !== brokenStatus) return { error };
  const meaning = meaningOf(typeof status === 'number' ? status : null);
  if (meaning === null) return { error };
  if (meaning === 'empty') {
    const refusal = status === brokenStatus ? 'failed' : 'refused';
    return { page: { ...nothing, refusal }, unanswered: 0 };
  }
  const advice = 'if the service answers so behind its last page, the paging of the definition needs its end';
  return { error: new SyncError(`${message}; ${advice}`, { code, recovery, context, cause: error }) };
}

/** Decides how the walk continues after a page; `point` has its records in it. */
export function afterPage(walk: Walk, point: WalkPoint, advance: Advance): Next {
  switch (advance.kind) {
    case 'continue': {
      const why = stuckBecause(point.state.progress);
      return why === null
        ? { kind: 'continue', point: { ...point, position: advance.position } }
        : broken(walk, point, { code: 'PAGING_BROKEN', why, dropWatermark: false });
    }
    case 'end':
      return {
        kind: 'end',
        point: { ...point, position: advance.position },
        seal: sealOf(walk, point.state, advance),
      };
    case 'restart': {
      const { why, code } = advance;
      return restart(walk, point, new SyncError(why, { code, recovery: 'restart-walk' }));
    }
    case 'broken':
      return broken(walk, point, advance);
  }
}

function broken(
  walk: Walk,
  point: WalkPoint,
  { code, why, dropWatermark }: Omit<Extract<Advance, { kind: 'broken' }>, 'kind'>,
): Next {
  const error = new SyncError(why, { code, recovery: 'skip-partition' });
  const failure = failureOf(walk, error, { dropPosition: true, dropWatermark });
  return { kind: 'set-aside', point: { ...beginning(walk), restarts: point.restarts }, failure };
}

/**
 * Decides how the walk continues after a failed call. Throws errors that must end the run: a long pause too, as the
 * service keeps the whole account waiting.
 */
export function afterFailure(walk: Walk, point: WalkPoint, error: unknown): Exclude<Next, { kind: 'end' }> {
  if (!(error instanceof SyncError)) throw error;
  // A service that refuses the call for changes may well answer the one for everything.
  const isRefused = error.code === 'REQUEST_REFUSED' && walk.partition.mode === 'incremental';
  // Since an earlier run has stood at this page, rows may have left in front of it: the next run begins again.
  const isOutdated =
    walk.partition.position !== null && (error.code === 'REQUEST_REFUSED' || error.code === 'NOT_FOUND');
  const dropped = { dropPosition: isRefused || isOutdated, dropWatermark: isRefused };
  switch (error.recovery) {
    case 'restart-walk':
      return restart(walk, point, error);
    case 'smaller-page':
      return smallerPage(walk, point, error);
    case 'stop':
    case 'throttle':
      throw error;
    case 'retry':
    case 'skip-partition':
    case 'skip-entity':
      return { kind: 'set-aside', point, failure: failureOf(walk, error, dropped) };
  }
}

/**
 * Halves the page size. A service that was too slow for one listing is as slow for the others of the entity; the size
 * limit may be exceeded by a single record.
 */
function smallerPage(walk: Walk, point: WalkPoint, error: SyncError): Exclude<Next, { kind: 'end' }> {
  const { pagination, slowPages } = walk;
  const isSlow = error.code === 'TIMEOUT';
  const wanted = isSlow ? Math.max(1, slowPages.halvings - point.halvings) : 1;
  const { position, halvings } = halved(pagination, point.position, wanted);
  if (halvings === 0) return { kind: 'set-aside', point, failure: failureOf(walk, error) };
  const smaller = { ...point, position, halvings: point.halvings + halvings };
  if (isSlow) slowPages.halvings = Math.max(slowPages.halvings, smaller.halvings);
  return { kind: 'continue', point: smaller };
}

/** Halved so often, or as often as it can be. */
function halved(pagination: Pagination, whole: Position, times: number) {
  let position = whole;
  for (let halvings = 0; halvings < times; halvings += 1) {
    const next = pagination.halve(position);
    if (next === null) return { position, halvings };
    position = next;
  }
  return { position, halvings: times };
}

function restart(walk: Walk, point: WalkPoint, error: SyncError): Exclude<Next, { kind: 'end' }> {
  const begun = { ...beginning(walk), restarts: point.restarts + 1 };
  if (begun.restarts > maxRestarts) {
    const message = `${error.message}; begun again ${maxRestarts} times`;
    const failure = { ...failureOf(walk, error, { dropPosition: true, dropWatermark: false }), message };
    return { kind: 'set-aside', point: begun, failure };
  }
  const { entity, params } = walk.partition;
  walk.run.onEvent({ kind: 'walk-restarted', entity, params, why: error.message });
  return { kind: 'continue', point: begun };
}

/** Where the walk stands when it begins, or begins again: by this run's clock, whichever run began it. */
export function beginning({ pagination, slowPages, run: { capMs } }: Walk): WalkPoint {
  return {
    ...halved(pagination, pagination.begin(), slowPages.halvings),
    state: walkState.parse({ cap: capMs }),
    restarts: 0,
  };
}

function failureOf(
  walk: Walk,
  { code, recovery, message }: SyncError,
  dropped = { dropPosition: false, dropWatermark: false },
): WalkFailure {
  return { code, recovery, message, at: instant(walk.run.clock.now()), ...dropped };
}

type SealedWalk = Pick<Walk, 'entity' | 'partition' | 'isBackfill' | 'isFiltered'>;

/**
 * Conclusions from the end of a walk: none in a backfill, whose bounds hide most records, and none with a doubt, as
 * where the definition rests on guesses.
 */
export function sealOf(
  { entity, partition, isBackfill, isFiltered }: SealedWalk,
  state: WalkState,
  ended: Omit<Extract<Advance, { kind: 'end' }>, 'kind' | 'position'>,
): Seal {
  const { proof, lastPage, reach, isSettled } = ended;
  const open = entity.draft?.open.map(({ guess }) => guess) ?? [];
  const doubt = ended.doubt ?? (open.length > 0 ? { kind: 'unproven', guesses: open } : undefined);
  // No row can have slipped by between two pages. `single`: there was one page. `token`: the service itself kept the
  // place. `keyset`: each page began at a value. `seam`: each page by offset began with the last records of the one
  // before, and ended with a short page; that proves something only where the service sorts as it was asked to, or
  // where nothing ever leaves.
  const isSlipFree = proof.kind !== 'seam' || entity.growsOnly || state.isSorted;
  const isOrdered = doubt === undefined && proof.isOrdered && isSlipFree;
  const proven = { ...proof, isOrdered };
  const kept = keptDifferences(partition.clockDifferences, state.behind);
  const concludesNothing = isBackfill || doubt !== undefined;
  return {
    ...(doubt === undefined ? {} : { doubt }),
    proof: proven,
    watermark: concludesNothing
      ? null
      : watermarkOf(entity, partition, isOrdered || isSettled === true, state),
    absence: concludesNothing ? null : absenceOf(entity, partition, proven, state, isFiltered),
    ...(isBackfill || kept.length === 0 ? {} : { clockDifferences: kept }),
    ...(lastPage === undefined ? {} : { lastPage }),
    ...(reach === undefined || isBackfill || partition.mode !== 'full' ? {} : { reach }),
  };
}

/**
 * Change times during the walk may be earlier than the walk's beginning, by as much as the records' clock is behind.
 */
function watermarkOf(
  { incremental }: Entity,
  { clockDifferences }: Partition,
  isSettled: boolean,
  { cap, high, behind, unanswered }: WalkState,
): Seal['watermark'] {
  if (incremental === null || !isSettled || high === null) return null;
  // Incomplete records that could not be requested must come again.
  if (unanswered > 0) return null;
  return instant(Math.min(high, cap - (smallestOf(clockDifferences, behind) ?? 0)));
}

function absenceOf(
  entity: Entity,
  partition: Partition,
  proof: Proof,
  { read, refused, partial }: WalkState,
  isFiltered: boolean,
): Absence {
  if (partition.mode === 'incremental' || entity.deletes === 'never') return null;
  // An incomplete record in a tree does not say whether it has a listing: rows below it were not looked for.
  if (entity.recursive !== null && partial > 0) return null;
  if (replacesRows(entity)) {
    // A service that cannot answer may show an empty window, once.
    const isEmptied = read === 0 && partition.storedRows > 0;
    return refused > 0 ? null : isEmptied || !proof.isOrdered ? 'walk' : 'nothing';
  }
  // Records hidden by a filter exist, however many walks do not meet them: only the record itself can tell.
  if (isFiltered) return isGettable(entity, partition) ? 'get' : null;
  // A record in quarantine may be one that is stored: it was there, unrecognized.
  if (proof.isOrdered && entity.deletes === 'sweep' && refused === 0) return 'nothing';
  if (isGettable(entity, partition)) return 'get';
  return refused === 0 ? 'walk' : null;
}

/**
 * Whether `findGetParams` will find all that `get` requires for the rows of this partition: from their keys, or from
 * the partition.
 */
function isGettable(entity: Entity, { inject, params }: Pick<Partition, 'inject' | 'params'>): boolean {
  const get = entity.actions.get('get');
  if (get === undefined) return false;
  return [...get.params].every(([name, { required }]) => {
    const field = get.key.get(name);
    if (field === undefined && !required) return true;
    const isInRow = field !== undefined && (entity.key.includes(field) || Object.hasOwn(inject, field));
    return isInRow || Object.hasOwn(params, name);
  });
}

const sealedKind = 'sealed';

type Masked = Pick<Entity, 'mask'>;

/** The position as it is stored: of a masked entity it may hold values of records, in a page token say. */
export function sealPosition({ mask }: Masked, position: Position): Position {
  return mask === null ? position : { kind: sealedKind, text: mask.seal(writeJson(position)) };
}

/** The stored position; null where it was stored with another mask or with none: the walk starts from the beginning. */
export function openPosition({ mask }: Masked, stored: Position | null): Position | null {
  if (mask === null) return stored?.kind === sealedKind ? null : stored;
  const text = typeof stored?.['text'] === 'string' ? mask.open(stored['text']) : null;
  const opened = text === null ? null : readFields(text);
  return isPosition(opened) ? opened : null;
}

function isPosition(value: JsonValue): value is Position {
  return isJsonObject(value) && typeof value['kind'] === 'string';
}

/** A commit costs a disk sync at any size: pages are gathered up to this many records... */
const enoughRecords = 4000;
/** ...or for this long while a walk waits for its pages, or until every open walk does... */
const longestWaitMs = 50;
/**
 * ...or for this long while all walks read ahead: small commits cost more than a kill, which makes the next run request
 * the gathered pages again.
 */
const longestGatheringMs = 500;

interface Waiting {
  readonly page: PageCommit;
  readonly resolve: (committed: CommittedPage) => void;
  readonly reject: (error: unknown) => void;
}

export type GroupCommits = ReturnType<typeof groupCommits>;

/**
 * Gathers whole pages of several walks into one transaction. A commit that fails ends the run before its pages are
 * refused.
 */
export function groupCommits({
  sink,
  lease,
  ending,
  clock,
  journal,
}: Pick<Run, 'sink' | 'lease' | 'ending' | 'clock' | 'journal'>) {
  let gathered: Waiting[] = [];
  let records = 0;
  let groupsUnderWay = 0;
  let openWalks = 0;
  let waitingWalks = 0;
  let timer: NodeJS.Timeout | null = null;
  let isShort = false;
  let storing: Promise<void> = Promise.resolve();

  function storeIfEnough(): void {
    if (gathered.length === 0) return;
    if (records >= enoughRecords) storeNow();
    // Pages gathered during a commit follow it at once, as one.
    else if (groupsUnderWay > 0) return;
    else if (waitingWalks >= openWalks) storeNow();
    else setTimer();
  }

  function setTimer(): void {
    const isWaiting = waitingWalks > 0;
    if (timer !== null && (isShort || !isWaiting)) return;
    if (timer !== null) clearTimeout(timer);
    isShort = isWaiting;
    timer = setTimeout(storeNow, isWaiting ? longestWaitMs : longestGatheringMs);
  }

  function storeNow(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const group = gathered;
    gathered = [];
    records = 0;
    if (group.length === 0) return;
    groupsUnderWay += 1;
    storing = storing
      .then(() => store(group))
      .then(() => {
        groupsUnderWay -= 1;
        storeIfEnough();
      });
  }

  async function store(group: readonly Waiting[]): Promise<void> {
    const startedMs = clock.now();
    try {
      const committed = await sink.commit(
        lease,
        group.map(({ page }) => page),
      );
      const entities = group.flatMap(({ page }) => page.rows[0]?.entity ?? []);
      journal?.stored(entities, clock.now() - startedMs);
      group.forEach(({ resolve, reject }, index) => {
        const page = committed[index];
        if (page === undefined) {
          reject(new Error(`the sink answered ${committed.length} of ${group.length} pages`));
        } else resolve(page);
      });
    } catch (error) {
      ending.end(error);
      for (const { reject } of group) reject(error);
    }
  }

  return {
    /**
     * Resolves when the page is stored for good. Rejects when the commit it was part of failed: then none of it is
     * stored.
     */
    submit: (page: PageCommit): Promise<CommittedPage> =>
      new Promise((resolve, reject) => {
        gathered.push({ page, resolve, reject });
        records += page.rows.reduce((sum, rows) => sum + rows.records.length, 0);
        storeIfEnough();
      }),
    /** Waits for pages of one walk; once all open walks wait, nothing more can come and the pages are stored. */
    waitFor: async <T>(stored: Promise<T>): Promise<T> => {
      waitingWalks += 1;
      storeIfEnough();
      try {
        return await stored;
      } finally {
        waitingWalks -= 1;
      }
    },
    walkOpened: (): void => void (openWalks += 1),
    walkClosed: (): void => {
      openWalks -= 1;
      storeIfEnough();
    },
  };
}
