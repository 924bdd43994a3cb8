import type { EntityName } from '../core/names.ts';

/** Walks of one entity, one after the other, that nobody answered: then asking for its others is no use. */
const silentWalks = 20;
/** So many silent walks of any entity since the last stored page, and the whole service counts as silent. */
const unbrokenWalks = 10;
const longestPauseMs = 15_000;

export type SilenceVerdict = 'go-on' | 'deny-entity' | 'end-run';

/** Tells an entity that is down from a service that is down. */
export interface Silence {
  /** A page was stored: somebody answers. */
  pageStored(entity: EntityName): void;
  /** A walk came to nothing because nobody answered, or the service only asked to wait. */
  walkUnanswered(entity: EntityName): { readonly verdict: SilenceVerdict; readonly pauseMs: number };
  /** True when an entity fell silent and nothing was stored ever since: for all that is known, the service is down. */
  isUnbroken(): boolean;
}

/**
 * After twenty silent walks of an entity the rest of it is denied, so that others have their turn; when a second one
 * falls silent and nothing was stored in between, the run ends. The pause after each silent walk leaves walks that are
 * open the time to show that they are alive.
 */
export function watchSilence(): Silence {
  const walks = new Map<EntityName, number>();
  let sincePage = 0;
  let denied = 0;

  return {
    pageStored: (entity) => {
      walks.delete(entity);
      sincePage = 0;
    },
    walkUnanswered: (entity) => {
      const silent = (walks.get(entity) ?? 0) + 1;
      walks.set(entity, silent);
      sincePage += 1;
      if (silent < silentWalks)
        return { verdict: 'go-on', pauseMs: Math.min(longestPauseMs, 1000 * (silent - 1)) };
      denied += 1;
      const isSecond = denied > 1 && sincePage >= silentWalks + unbrokenWalks;
      return { verdict: isSecond ? 'end-run' : 'deny-entity', pauseMs: 0 };
    },
    isUnbroken: () => denied > 0 && sincePage >= unbrokenWalks,
  };
}
