import type { EntityName } from '../core/names.ts';

/** Walks of one entity in a row without an answer: asking for its others is no use then. */
const silentWalks = 20;
const longestPauseMs = 15_000;

/**
 * Tells an entity that is down from a service that is down. After twenty silent walks of an entity the rest of it is denied, so that others have their turn; when a second one
 * falls silent and nothing was stored in between, the run ends. The pause after each silent walk leaves walks that are
 * open the time to show that they are alive. A service that answers in another shape is alive: it needs none.
 */
export function watchSilence() {
  let pages = 0;
  /** Silent walks in a row, and the pages that had been stored when the first of them ended. */
  const streaks = new Map<EntityName, { walks: number; readonly pagesBefore: number }>();
  const unbroken = (): number =>
    [...streaks.values()].filter(({ walks, pagesBefore }) => walks >= silentWalks && pagesBefore === pages)
      .length;

  return {
    /** A page was stored: the service responds. */
    pageStored: (entity: EntityName): void => {
      pages += 1;
      streaks.delete(entity);
    },
    /** A walk ended without an answer; `isBroken`: with answers of another shape than the API promises. */
    walkUnanswered: (
      entity: EntityName,
      isBroken: boolean,
    ): { readonly verdict: 'go-on' | 'deny-entity' | 'end-run'; readonly pauseMs: number } => {
      const streak = streaks.get(entity) ?? { walks: 0, pagesBefore: pages };
      streak.walks += 1;
      streaks.set(entity, streak);
      if (streak.walks < silentWalks) {
        const pauseMs = isBroken ? 0 : Math.min(longestPauseMs, 1000 * (streak.walks - 1));
        return { verdict: 'go-on', pauseMs };
      }
      return { verdict: unbroken() > 1 ? 'end-run' : 'deny-entity', pauseMs: 0 };
    },
    /** True when nothing was stored since an entity fell silent: for all that is known, the service is down. */
    isUnbroken: (): boolean => unbroken() > 0,
  };
}
