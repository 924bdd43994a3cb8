import { setMaxListeners } from 'node:events';
import { startChild } from '../../child/start-child.ts';
import type { Instant } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { RunOutcome } from '../../sinks/run-report.ts';
import type { CallAnswer } from './answer-call.ts';
import type { StoreLedger } from './store-ledger.ts';

interface StoreProcessOptions {
  readonly job: StoreJob;
  /** Never rejects. The signal is aborted when the process has ended. */
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
  const own: ServiceCalls = { call: (body) => answer(body, gone.signal), ledger: onLedger };
  const module = 'service/store/store-process';
  const child = startChild<StoreCalls>({ module, maxHeapMiB, own, signal, died: (how) => new Error(how) });
  const end = await child.ask('sync', job).catch(() => null);
  // The process ends when the channel closes. If it ended by itself, its answer could be lost.
  if (end === null) child.kill();
  else child.disconnect();
  const how = await child.ended;
  gone.abort(new Error('The process that asked has ended.'));
  return end ?? { kind: 'died', how };
}

/** One sync of one store, as its process gets it. */
export interface StoreJob {
  readonly file: string;
  /** See `storeOrigin`. */
  readonly origin: string;
  readonly connectorId: string;
  readonly definition: Definition;
  /** The service's time, which continues from there in the process. Milliseconds since the epoch. */
  readonly nowMs: number;
}

/** What the process of a sync answers. */
export type StoreCalls = { readonly sync: (job: StoreJob) => Promise<StoreSyncEnd> };

/** What the process of a sync asks the service. */
export type ServiceCalls = {
  /** An execute call, by its body as JSON text: what the third party answered, as it would come over HTTP. */
  readonly call: (body: string) => Promise<CallAnswer>;
  /** What is stored by now: after the first records, every now and then, and at the end. */
  readonly ledger: (ledger: StoreLedger) => void;
};

/** What a sync of a store came to. */
export type StoreSyncEnd =
  /** `resumeAt`: the third party asked for quiet until then. */
  | { readonly kind: 'run'; readonly outcome: RunOutcome; readonly resumeAt: Instant | null }
  /** The file holds something else, another connector's records, or is damaged: nothing can be stored in it. */
  | { readonly kind: 'unusable'; readonly code: ErrorCode }
  /** No run could be begun, or its end could not be stored. */
  | { readonly kind: 'error'; readonly code: ErrorCode };
