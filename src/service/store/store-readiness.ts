import type { Definition } from '../../definitions/definition.ts';
import type { EntityStatus, Readiness, StoreStatus } from './context-stores.ts';
import { searchableEntities } from './store-entities.ts';
import type { StoreLedger } from './store-ledger.ts';

/** See `Readiness`. A connector without anything to search is `Ready` as it is. */
function readinessOf(definition: Definition, ledger: StoreLedger): Readiness {
  const whole = new Set(ledger.entities.filter(({ isWhole }) => isWhole).map(({ entity }) => entity));
  if (searchableEntities(definition).every(({ name }) => whole.has(name))) return 'Ready';
  if (ledger.entities.every(({ records }) => records === 0)) return 'Loading';
  return ledger.hasEnded ? 'Preview' : 'Building Preview';
}

export function isSearchable(readiness: Readiness): boolean {
  return readiness === 'Preview' || readiness === 'Ready';
}

/** `isSyncing`: a process is at work on the store. */
export function statusOf(
  definition: Definition,
  ledger: StoreLedger,
  now: { readonly isSyncing: boolean; readonly problem: string | null },
): StoreStatus {
  const readiness = readinessOf(definition, ledger);
  return {
    readiness,
    entities: searchableEntities(definition).map(({ name }) =>
      entityStatus(name, ledger, isSearchable(readiness), now.isSyncing),
    ),
    problem: now.problem,
  };
}

function entityStatus(
  entity: string,
  ledger: StoreLedger,
  isStoreSearchable: boolean,
  isSyncing: boolean,
): EntityStatus {
  const stored = ledger.entities.find((one) => one.entity === entity);
  // Without a table it was declared since the last sync.
  if (stored === undefined || !isStoreSearchable) {
    const status = (stored?.records ?? 0) === 0 ? 'Initializing' : 'Building Preview';
    return { entity, status, isSearchable: false, records: null, updatedAt: null };
  }
  const { records, isWhole, updatedAt } = stored;
  const status = isSyncing ? 'Updating' : isWhole ? 'Ready' : 'Preview';
  return { entity, status, isSearchable: true, records, updatedAt };
}
