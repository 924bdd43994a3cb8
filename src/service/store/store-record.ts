import { SyncError } from '../../core/errors.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { StoreStatus } from './context-stores.ts';
import type { StoreProcessEnd } from './run-store-process.ts';
import { emptyLedger, isUnusable, readStoreLedger, type StoreLedger } from './store-ledger.ts';
import { failedWith, madeAnew } from './store-problem.ts';
import { statusOf } from './store-readiness.ts';

/** What the service knows of one store: read from its file once, then told by its syncs. */
interface StoreRecord {
  ledger(): StoreLedger;
  status(): StoreStatus;
  /** The file is of no use and must go before the next sync. */
  mustRebuild(): boolean;
  /** Reads the file, which no sync is at work on. Never throws: what it finds is in the status. */
  read(): void;
  /** A sync begins; a file that must go is gone. */
  begun(): void;
  stored(ledger: StoreLedger): void;
  ended(end: StoreProcessEnd): void;
  /** The file turned out to be of no use. */
  damaged(code: SyncError['code']): void;
}

export function storeRecord(file: string, definition: () => Definition): StoreRecord {
  let ledger = emptyLedger;
  let problem: string | null = null;
  let isSyncing = false;
  let isUseless = false;

  const damaged = (code: SyncError['code']): void => {
    isUseless = true;
    ledger = emptyLedger;
    problem = madeAnew(code);
  };
  const read = (): void => {
    try {
      ledger = readStoreLedger(file, definition());
      ({ problem } = ledger);
    } catch (error) {
      // What SQLite reads well may still be no account of ours: a bit of a text that has changed, for example.
      if (!(error instanceof SyncError)) damaged('SINK_FAILED');
      else if (isUnusable(error)) damaged(error.code);
      else problem = failedWith(error.code);
    }
  };

  return {
    ledger: () => ledger,
    status: () => statusOf(definition(), ledger, { isSyncing, problem }),
    mustRebuild: () => isUseless,
    read,
    begun() {
      isSyncing = true;
      isUseless = false;
    },
    stored(told) {
      // A search may have found meanwhile that it cannot be read.
      if (!isUseless) ledger = told;
    },
    ended(end) {
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
          read();
          problem ??= `The process of the last sync ended too early (${end.how}); the next one resumes.`;
      }
    },
    damaged,
  };
}
