import { answerParent, explainedAs } from '../../child/start-child.ts';
import { type Clock, systemClock } from '../../core/clock.ts';
import { orAborted } from '../../http/or-aborted.ts';
import type { HttpTransport } from '../../source/api/api-caller.ts';
import type { ServiceCalls, StoreCalls } from './open-context-stores.ts';
import { syncStore } from './sync-store.ts';

/**
 * The process of one sync of one store: asks the service for pages, stores them, answers with the result, and ends when
 * its parent closes the channel. Killed at any moment it leaves a store that the next sync resumes.
 */
const calls: StoreCalls = {
  sync: async (job) =>
    await syncStore({
      job,
      transport,
      clock: clockFrom(job.nowMs),
      onLedger: (ledger) => void askService('ledger', ledger),
      signal: new AbortController().signal,
    }),
};
const explain = explainedAs('The sync of a store failed unexpectedly', 'INTERNAL', 'stop');
const askService = answerParent<ServiceCalls>(calls, { explain });

/**
 * Sends calls to the service over the channel to it, in place of `http-transport.ts`. The service keeps the time limit.
 */
const transport: HttpTransport = {
  send: async ({ body }, signal) => {
    signal.throwIfAborted();
    const { status, text, retryAfter } = await orAborted(askService('call', body ?? ''), signal);
    const header = (name: string): string | null => (name === 'retry-after' ? retryAfter : null);
    const answer = Buffer.from(text);
    return { status, body: answer, header, wireBytes: answer.byteLength };
  },
  open: () => Promise.reject(new TypeError('a sync of a store downloads nothing')),
  [Symbol.asyncDispose]: () => Promise.resolve(),
};

/** The service's time, which may be another than the machine's. */
function clockFrom(nowMs: number): Clock {
  const startedMs = performance.now();
  return { ...systemClock, now: () => Math.floor(nowMs + performance.now() - startedMs) };
}
