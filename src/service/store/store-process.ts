import { type Clock, systemClock } from '../../core/clock.ts';
import type { HttpAnswer, HttpTransport } from '../../source/api/http-transport.ts';
import type { FromStoreProcess, StoreJob, ToStoreProcess } from './run-store-process.ts';
import { syncStore } from './sync-store.ts';

/**
 * The process of one sync of one store: told what to do by `run-store-process.ts`, it asks for pages, stores them, says
 * what it came to, and goes when its parent lets go of it. Killed at any moment it leaves a store that the next sync
 * resumes.
 */
const send = (message: FromStoreProcess): void => {
  // This process exits when its parent does: see `disconnect`.
  if (process.connected) process.send?.(message);
};
const transport = openStoreTransport(send);
const stop = new AbortController();

process.on('message', (message: ToStoreProcess) => {
  if (message.kind === 'answer') transport.answered(message);
  else void run(message.job);
});
process.once('disconnect', () => process.exit());
// Ctrl-C reaches every process of a terminal; it is the parent that ends this one.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);

async function run(job: StoreJob): Promise<void> {
  const end = await syncStore({
    job,
    transport,
    clock: clockFrom(job.nowMs),
    onLedger: (ledger) => send({ kind: 'ledger', ledger }),
    signal: stop.signal,
  });
  send({ kind: 'ended', end });
}

/** The service's time, which may be another than the machine's. */
function clockFrom(nowMs: number): Clock {
  const startedMs = performance.now();
  return { ...systemClock, now: () => Math.floor(nowMs + performance.now() - startedMs) };
}

type Answer = Extract<ToStoreProcess, { kind: 'answer' }>;

/** Calls of the process of a sync on their way to the service, which are answered by `answered`. */
interface StoreTransport extends HttpTransport {
  answered(answer: Answer): void;
}

/** What `http-transport.ts` is to a socket, over the channel to the parent process. The parent keeps the time limit. */
function openStoreTransport(send: (message: FromStoreProcess) => void): StoreTransport {
  const waiting = new Map<number, (answer: HttpAnswer) => void>();
  let lastId = 0;
  return {
    send: (request, signal) =>
      new Promise((resolve, reject) => {
        signal.throwIfAborted();
        lastId += 1;
        const id = lastId;
        const onAbort = (): void => {
          waiting.delete(id);
          reject(signal.reason as Error);
        };
        signal.addEventListener('abort', onAbort, { once: true });
        waiting.set(id, (answer) => {
          signal.removeEventListener('abort', onAbort);
          resolve(answer);
        });
        send({ kind: 'call', id, body: request.body ?? '' });
      }),
    stream: () => Promise.reject(new TypeError('a sync of a store downloads nothing')),
    answered({ id, status, text, retryAfter }) {
      const resolve = waiting.get(id);
      waiting.delete(id);
      resolve?.({ status, text, retryAfter, date: null, link: null, wireBytes: text.length });
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
