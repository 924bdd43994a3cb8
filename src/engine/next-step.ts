import { instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { Seal, WalkFailure } from '../sinks/partition.ts';
import type { Advance } from '../pagination/pagination.ts';
import { sealOf } from './seal-of.ts';
import { stuckBecause } from './walk-progress.ts';
import { beginState, type Standing, type Walk } from './walk.ts';

/** Beginnings of one walk in one run, after the first. */
const maxRestarts = 3;

export type Next =
  | { readonly kind: 'continue'; readonly standing: Standing; readonly restartedBecause: string | null }
  | { readonly kind: 'end'; readonly standing: Standing; readonly seal: Seal }
  | { readonly kind: 'set-aside'; readonly standing: Standing; readonly failure: WalkFailure };

/** What a page means for the walk; `standing` has its records in it. */
export function afterPage(walk: Walk, standing: Standing, advance: Advance): Next {
  switch (advance.kind) {
    case 'continue': {
      const why = stuckBecause(standing.state.progress);
      return why === null
        ? { kind: 'continue', standing: { ...standing, position: advance.position }, restartedBecause: null }
        : broken(walk, standing, { code: 'PAGING_BROKEN', why, dropWatermark: false });
    }
    case 'end': {
      const { entity, partition, isBackfill, isFiltered } = walk;
      const { state } = standing;
      return {
        kind: 'end',
        standing: { ...standing, position: advance.position },
        seal: {
          ...sealOf(entity, partition, { proof: advance.proof, state, isBackfill, isFiltered }),
          ...(advance.lastPage === undefined ? {} : { lastPage: advance.lastPage }),
        },
      };
    }
    case 'restart':
      return restart(
        walk,
        standing,
        new SyncError(advance.why, { code: advance.code, recovery: 'restart-walk' }),
      );
    case 'broken':
      return broken(walk, standing, advance);
  }
}

function broken(
  walk: Walk,
  standing: Standing,
  { code, why, dropWatermark }: Omit<Extract<Advance, { kind: 'broken' }>, 'kind'>,
): Next {
  const error = new SyncError(why, { code, recovery: 'skip-partition' });
  const failure = failureOf(walk, error, { dropPosition: true, dropWatermark });
  return { kind: 'set-aside', standing: { ...standing, ...beginning(walk) }, failure };
}

/** What a failed call means for the walk. Throws what must end the run: a long pause too, as the service keeps the whole account waiting. */
export function afterFailure(walk: Walk, standing: Standing, error: unknown): Exclude<Next, { kind: 'end' }> {
  if (!(error instanceof SyncError)) throw error;
  switch (error.recovery) {
    case 'restart-walk':
      return restart(walk, standing, error);
    case 'smaller-page': {
      const position = walk.pagination.halve(standing.position);
      if (position !== null) {
        return { kind: 'continue', standing: { ...standing, position }, restartedBecause: null };
      }
      return { kind: 'set-aside', standing, failure: failureOf(walk, error) };
    }
    case 'stop':
    case 'throttle':
      throw error;
    case 'retry':
    case 'skip-partition':
    case 'skip-entity':
      return { kind: 'set-aside', standing, failure: failureOf(walk, error, whatToDrop(walk, error)) };
  }
}

/** A service that refuses the call for what changed may well answer the one for everything. */
function whatToDrop({ partition }: Walk, { code }: SyncError): Dropped {
  return code === 'REQUEST_REFUSED' && partition.mode === 'incremental'
    ? { dropPosition: true, dropWatermark: true }
    : nothingDropped;
}

function restart(walk: Walk, standing: Standing, error: SyncError): Exclude<Next, { kind: 'end' }> {
  const begun: Standing = { ...beginning(walk), restarts: standing.restarts + 1 };
  if (begun.restarts > maxRestarts) {
    const failure = failureOf(
      walk,
      new SyncError(`${error.message}; begun again ${maxRestarts} times`, {
        code: error.code,
        recovery: error.recovery,
      }),
      { dropPosition: true, dropWatermark: false },
    );
    return { kind: 'set-aside', standing: begun, failure };
  }
  return { kind: 'continue', standing: begun, restartedBecause: error.message };
}

/** Where the walk stands when it begins, or begins again: by this run's clock, whichever run began it. */
function beginning({ pagination, run: { capMs } }: Walk): Pick<Standing, 'position' | 'state'> {
  return { position: pagination.begin(), state: beginState(capMs) };
}

type Dropped = Pick<WalkFailure, 'dropPosition' | 'dropWatermark'>;
const nothingDropped: Dropped = { dropPosition: false, dropWatermark: false };

function failureOf(walk: Walk, error: SyncError, dropped: Dropped = nothingDropped): WalkFailure {
  return {
    code: error.code,
    recovery: error.recovery,
    message: error.message,
    at: instant(walk.run.clock.now()),
    ...dropped,
  };
}
