import { SyncError } from '../../core/errors.ts';
import type { EntityName } from '../../core/names.ts';
import type { RunPlan } from '../sink.ts';
import { believedUntil, type ChainReading } from '../decisions/becoming-due.ts';
import { writeJson } from './json-text.ts';
import type { HeldConnector } from './ledger.ts';

/** How the plan's entities are read in a chain of runs. Throws where the plan does not say it. */
export function chainReadings(
  { definitionHash }: HeldConnector,
  plan: RunPlan,
  isFull: boolean,
): ReadonlyMap<EntityName, ChainReading> {
  const leaves = new Set(plan.leaves);
  return new Map(
    plan.entities.map((entity) => {
      const reading = plan.reading.get(entity);
      if (reading === undefined) throw unsaid(entity);
      // A leaf concludes nothing from the choices; what leads to others must lead to them all, unchanged or not.
      const scope = writeJson(leaves.has(entity) ? [definitionHash] : [definitionHash, plan.choices]);
      return [entity, { ...reading, isFull, scope, believedUntil: believedUntil(plan.startedAt) }];
    }),
  );
}

/** Without it the entity's partitions would never become ready, and nobody would hear of it. */
function unsaid(entity: EntityName): SyncError {
  return new SyncError(
    `The run's plan does not say how "${entity}" is read. This is a defect: report it with the run's log.`,
    { code: 'INTERNAL', recovery: 'stop', context: { entity } },
  );
}

/** What a run reads, as text. A changed definition is another scope: what it stored as positions may mean something else now. */
export function scopeOf({ definitionHash }: HeldConnector, plan: RunPlan): string {
  return writeJson({
    definition: definitionHash,
    choices: plan.choices,
    entities: [...plan.entities].sort(),
    roots: plan.roots.map(({ entity, params }) => writeJson([entity, params])).sort(),
  });
}
