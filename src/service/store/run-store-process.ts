import { setMaxListeners } from 'node:events';
import type { Instant } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { builtModule } from '../../core/program-files.ts';
import type { Definition } from '../../definitions/definition.ts';
import { forkModule } from '../../search/process/fork-module.ts';
import type { RunOutcome } from '../../sinks/run-report.ts';
import type { CallAnswer } from './answer-call.ts';
import type { StoreLedger } from './store-ledger.ts';

interface StoreProcessOptions {
  readonly job: StoreJob;
  /** Never rejects. The signal is aborted when the process is gone. */
  readonly answer: (body: string, signal: AbortSignal) => Promise<CallAnswer>;
  readonly onLedger: (ledger: StoreLedger) => void;
  /** Aborted: the process is killed. */
  readonly signal: AbortSignal;
}

/** `died`: it was killed, or broke down; `how` is its signal or exit code. */
export type StoreProcessEnd = StoreSyncEnd | { readonly kind: 'died'; readonly how: string };

/** Far more than a sync takes; one that goes beyond ends instead of the machine's memory. */
const maxHeapMiB = 1_024;

/**
 * Runs one sync of a store in a child process. Resolves when the process has exited, for whatever reason; never
 * rejects.
 */
export async function runStoreProcess(options: StoreProcessOptions): Promise<StoreProcessEnd> {
  const { job, answer, onLedger, signal } = options;
  if (signal.aborted) return { kind: 'died', how: 'not begun' };
  const gone = new AbortController();
  // Every call that is being answered listens: many of them are no leak.
  setMaxListeners(0, gone.signal);
  let end: StoreSyncEnd | null = null;

  const entry = builtModule('service/store/store-process');
  const child = forkModule<ToStoreProcess, FromStoreProcess>(entry, maxHeapMiB);
  const answerCall = async (id: number, body: string): Promise<void> =>
    child.send({ kind: 'answer', id, ...(await answer(body, gone.signal)) });
  child.listen((message) => {
    switch (message.kind) {
      case 'call':
        void answerCall(message.id, message.body);
        break;
      case 'ledger':
        onLedger(message.ledger);
        break;
      case 'ended':
        ({ end } = message);
        // The process ends when the channel closes. If it ended by itself, this message could be lost.
        child.disconnect();
        break;
    }
  });
  signal.addEventListener('abort', child.kill, { once: true });
  child.send({ kind: 'begin', job });
  const how = await child.gone;
  signal.removeEventListener('abort', child.kill);
  gone.abort(new Error('The process that asked is gone.'));
  return end ?? { kind: 'died', how };
}

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
