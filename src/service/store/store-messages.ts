import type { Instant } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { RunOutcome } from '../../sinks/run-report.ts';
import type { StoreLedger } from './store-ledger.ts';

/** One sync of one store, as its process is told. */
export interface StoreJob {
  readonly file: string;
  readonly connectorId: string;
  readonly definition: Definition;
  /** The service's time, which goes on from there in the process. Milliseconds since the epoch. */
  readonly nowMs: number;
}

/** To the process of a sync. */
export type ToStoreProcess =
  | { readonly kind: 'begin'; readonly job: StoreJob }
  /** What the third party answered, as it would come over HTTP. */
  | {
      readonly kind: 'answer';
      readonly id: number;
      readonly status: number;
      readonly text: string;
      /** In seconds; null: it did not say. */
      readonly retryAfter: string | null;
    };

/** From the process of a sync, in this order: any number of calls and ledgers, then `ended`. */
export type FromStoreProcess =
  /** An execute call to be answered: its body as JSON text. */
  | { readonly kind: 'call'; readonly id: number; readonly body: string }
  /** What is stored by now: after the first records, every now and then, and at the end. */
  | { readonly kind: 'ledger'; readonly ledger: StoreLedger }
  | { readonly kind: 'ended'; readonly end: StoreSyncEnd };

/** What a sync of a store came to. */
export type StoreSyncEnd =
  /** `resumeAt`: the third party asked for quiet until then. */
  | { readonly kind: 'run'; readonly outcome: RunOutcome; readonly resumeAt: Instant | null }
  /** The file holds something else, another connector's records, or is damaged: nothing can be stored in it. */
  | { readonly kind: 'unusable'; readonly code: ErrorCode }
  /** No run could be begun, or its end could not be stored. */
  | { readonly kind: 'error'; readonly code: ErrorCode };
