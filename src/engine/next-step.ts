import { instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { Seal, WalkFailure, Absence, Partition, Proof, Position } from '../sinks/partition.ts';
import type { Advance, Pagination } from '../pagination/pagination.ts';
import { beginState, stuckBecause, type WalkPoint, type Walk, type WalkState } from './walk.ts';
import type { Entity } from '../definitions/definition.ts';
import { keptDifferences, smallestOf } from './clock-difference.ts';
import type { CompletedPage } from './complete-page.ts';
import { readRecords } from '../source/page-records.ts';

/** Beginnings of one walk in one run, after the first. */
const maxRestarts = 3;

export type Next =
  | { readonly kind: 'continue'; readonly point: WalkPoint; readonly restartedBecause: string | null }
  | { readonly kind: 'end'; readonly point: WalkPoint; readonly seal: Seal }
  | { readonly kind: 'set-aside'; readonly point: WalkPoint; readonly failure: WalkFailure };

/** A call for a page has ended: with the page, or with what was thrown. */
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

/** What a page means for the walk; `point` has its records in it. */
export function afterPage(walk: Walk, point: WalkPoint, advance: Advance): Next {
  switch (advance.kind) {
    case 'continue': {
      const why = stuckBecause(point.state.progress);
      return why === null
        ? { kind: 'continue', point: { ...point, position: advance.position }, restartedBecause: null }
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
 * What a failed call means for the walk. Throws what must end the run: a long pause too, as the service keeps the whole
 * account waiting.
 */
export function afterFailure(walk: Walk, point: WalkPoint, error: unknown): Exclude<Next, { kind: 'end' }> {
  if (!(error instanceof SyncError)) throw error;
  // A service that refuses the call for what changed may well answer the one for everything.
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
 * A service that was too slow for one listing is as slow for the others of the entity; what is too large may be a
 * single record.
 */
function smallerPage(walk: Walk, point: WalkPoint, error: SyncError): Exclude<Next, { kind: 'end' }> {
  const { pagination, slowPages } = walk;
  const isSlow = error.code === 'TIMEOUT';
  const wanted = isSlow ? Math.max(1, slowPages.halvings - point.halvings) : 1;
  const { position, halvings } = halved(pagination, point.position, wanted);
  if (halvings === 0) return { kind: 'set-aside', point, failure: failureOf(walk, error) };
  const smaller = { ...point, position, halvings: point.halvings + halvings };
  if (isSlow) slowPages.halvings = Math.max(slowPages.halvings, smaller.halvings);
  return { kind: 'continue', point: smaller, restartedBecause: null };
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
  return { kind: 'continue', point: begun, restartedBecause: error.message };
}

/** Where the walk stands when it begins, or begins again: by this run's clock, whichever run began it. */
export function beginning({ pagination, slowPages, run: { capMs } }: Walk): WalkPoint {
  return {
    ...halved(pagination, pagination.begin(), slowPages.halvings),
    state: beginState(capMs),
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

/**
 * What the end of a walk allows to conclude: nothing in a backfill, whose bounds hide most of what there is, nor with a
 * doubt.
 */
export function sealOf(
  {
    entity,
    partition,
    isBackfill,
    isFiltered,
  }: Pick<Walk, 'entity' | 'partition' | 'isBackfill' | 'isFiltered'>,
  state: WalkState,
  { proof, doubt, lastPage, reach, isSettled }: Omit<Extract<Advance, { kind: 'end' }>, 'kind' | 'position'>,
): Seal {
  const isOrdered = doubt === undefined && proof.isOrdered && isOrderKept(entity, proof, state);
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
 * Whether no row can have slipped by between two pages. `single`: there was one page. `token`: the service itself kept
 * the place. `keyset`: each page began at a value. `seam`: each page by offset began with the last records of the one
 * before, and ended with a short page; that proves something only where the service sorts as it was asked to, or where
 * nothing ever leaves.
 */
function isOrderKept(entity: Entity, proof: Proof, state: WalkState): boolean {
  switch (proof.kind) {
    case 'single':
    case 'token':
    case 'keyset':
      return true;
    case 'seam':
      return entity.growsOnly || state.isSorted;
  }
}

/**
 * What changed during the walk may be dated before the walk's beginning, by as much as the records' clock is behind.
 */
function watermarkOf(
  { incremental }: Entity,
  { clockDifferences }: Partition,
  isSettled: boolean,
  { cap, high, behind, unanswered }: WalkState,
): Seal['watermark'] {
  if (incremental === null || !isSettled || high === null) return null;
  // What came in part, and could not be asked for, must come again.
  if (unanswered > 0) return null;
  return instant(Math.min(high, cap - (smallestOf(clockDifferences, behind) ?? 0)));
}

function absenceOf(
  entity: Entity,
  partition: Partition,
  proof: Proof,
  { refused, partial }: WalkState,
  isFiltered: boolean,
): Absence {
  if (partition.mode === 'incremental' || entity.deletes === 'never') return null;
  // A record in a tree that came in part does not say whether it has a listing: what lies there was not looked for.
  if (entity.recursive !== null && partial > 0) return null;
  // What a filter hides is there, however many walks do not meet it: only the record itself can tell.
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
