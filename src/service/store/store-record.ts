import { SyncError } from '../../core/errors.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { EntityStatus, Readiness, StoreStatus } from './context-stores.ts';
import type { StoreProcessEnd } from './run-store-process.ts';
import { searchableEntities } from './store-entities.ts';
import { storeOrigin } from './store-file.ts';
import {
  emptyLedger,
  failedWith,
  isUnusable,
  rebuilding,
  readStoreLedger,
  type StoreLedger,
} from './store-ledger.ts';

/** What the service knows of one store: read from its file once, then updated by its syncs. */
export function storeRecord(file: string, definition: () => Definition) {
  let ledger = emptyLedger;
  let problem: string | null = null;
  let isSyncing = false;
  let isUseless = false;

  /** The file turned out to be of no use. */
  const damaged = (code: SyncError['code']): void => {
    isUseless = true;
    ledger = emptyLedger;
    problem = rebuilding(code);
  };
  /** Reads the file, which no sync is at work on. Never rejects: what it finds is in the status. */
  const read = async (): Promise<void> => {
    try {
      ledger = await readStoreLedger(file, definition(), storeOrigin(definition()));
      ({ problem } = ledger);
    } catch (error) {
      // What SQLite reads well may still be no account of ours: a bit of a text that has changed, for example.
      if (!(error instanceof SyncError)) damaged('SINK_FAILED');
      else if (isUnusable(error)) damaged(error.code);
      else problem = failedWith(error.code);
    }
  };

  return {
    ledger: (): StoreLedger => ledger,
    status: (): StoreStatus => statusOf(definition(), ledger, { isSyncing, problem }),
    /** The file is of no use and must go before the next sync. */
    mustRebuild: (): boolean => isUseless,
    read,
    /** A sync begins; a file that had to be removed is removed. */
    begun(): void {
      isSyncing = true;
      isUseless = false;
    },
    stored(told: StoreLedger): void {
      // A search may have found meanwhile that it cannot be read.
      if (!isUseless) ledger = told;
    },
    async ended(end: StoreProcessEnd): Promise<void> {
      isSyncing = false;
      switch (end.kind) {
        case 'run':
          if (!isUseless) ({ problem } = ledger);
          return;
        case 'unusable':
          damaged(end.code);
          return;
        case 'error':
          problem = failedWith(end.code);
          return;
        case 'died':
          if (isUseless) return;
          await read();
          problem ??= `The process of the last sync ended too early (${end.how}); the next one resumes.`;
      }
    },
    damaged,
  };
}

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
    syncedAt: ledger.endedAt,
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
