import { systemClock, type Clock } from '../../core/clock.ts';
import type { FromStoreProcess, StoreJob, ToStoreProcess } from './store-messages.ts';
import { openStoreTransport } from './store-transport.ts';
import { syncStore } from './sync-store.ts';

/**
 * The process of one sync of one store: told what to do by `run-store-process.ts`, it asks for pages, stores them, says what it came
 * to, and goes when its parent lets go of it. Killed at any moment it leaves a store that the next one goes on with.
 */
const send = (message: FromStoreProcess): void => {
  // A parent that is gone takes this process with it: see `disconnect`.
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
