import { instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { Position, Proof, WalkFailure } from '../sinks/sink.ts';
import type { SourcePage } from '../source/source.ts';
import type { Advance } from './pagination/pagination.ts';
import type { WalkContext } from './walk-partition.ts';

/** Beginnings of one walk in one run, after the first. */
const maxRestarts = 3;

/** A position with what the walk itself adds to it: the records read so far, and the beginnings of this run. */
export interface Standing {
  readonly position: Position;
  readonly read: number;
  readonly restarts: number;
}

export type Next =
  | { readonly kind: 'continue'; readonly standing: Standing; readonly restartedBecause: string | null }
  | { readonly kind: 'end'; readonly standing: Standing; readonly proof: Proof }
  | { readonly kind: 'set-aside'; readonly standing: Standing; readonly failure: WalkFailure };

/** What a page means for the walk. */
export function afterPage(
  context: WalkContext,
  standing: Standing,
  page: SourcePage,
  advance: Advance,
): Next {
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

/**
 * What a failed call means for the walk. Throws what must end the run: a long pause too, because it is the whole account
 * that the service keeps waiting.
 */
export function afterFailure(
  context: WalkContext,
  standing: Standing,
  error: unknown,
): Exclude<Next, { kind: 'end' }> {
  if (!(error instanceof SyncError)) throw error;
  switch (error.recovery) {
    case 'restart-walk':
      return restart(context, standing, error);
    case 'smaller-page': {
      const position = context.pagination.halve(standing.position);
      if (position !== null)
        return { kind: 'continue', standing: { ...standing, position }, restartedBecause: null };
      return { kind: 'set-aside', standing, failure: failureOf(context, error, false) };
    }
    case 'stop':
    case 'throttle':
      throw error;
    case 'retry':
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
