import type { Readiness } from './context-stores.ts';
import type { StoreProcessEnd } from './run-store-process.ts';
import type { StoreLedger } from './store-ledger.ts';

const firstBackOffMs = 1_000;
const maxBackOffMs = 15 * 60_000;

/** Whether a sync came as far as it can: what it left out, a later one would leave out too. */
export function isSettled(end: StoreProcessEnd, readiness: Readiness): boolean {
  if (end.kind !== 'run') return false;
  return end.outcome === 'ok' || (end.outcome === 'degraded' && readiness === 'Ready');
}

/**
 * When the next sync of a store is due: in milliseconds since the epoch; null: not before a request. One that did not
 * settle is followed by another after a back-off that doubles; `failures` counts those in a row.
 */
export function nextSyncAt(
  end: StoreProcessEnd,
  context: {
    readonly readiness: Readiness;
    readonly failures: number;
    readonly refreshEveryMs: number | null;
    readonly nowMs: number;
  },
): number | null {
  const { readiness, failures, refreshEveryMs, nowMs } = context;
  if (end.kind === 'run' && end.resumeAt !== null) return Math.max(nowMs, Date.parse(end.resumeAt));
  const refreshAt = refreshEveryMs === null ? null : nowMs + refreshEveryMs;
  if (isSettled(end, readiness)) return refreshAt;
  const retryAt = nowMs + Math.min(maxBackOffMs, firstBackOffMs * 2 ** Math.max(0, failures - 1));
  return refreshAt === null ? retryAt : Math.min(retryAt, refreshAt);
}

/** The same for a store that is found at the start of the service. */
export function firstSyncAt(
  ledger: StoreLedger,
  context: { readonly readiness: Readiness; readonly refreshEveryMs: number | null; readonly nowMs: number },
): number | null {
  const { readiness, refreshEveryMs, nowMs } = context;
  if (readiness !== 'Ready' || ledger.endedAt === null || ledger.problem !== null) return nowMs;
  // A clock that was ahead when the last sync ended puts nothing off for longer than this.
  return refreshEveryMs === null ? null : Math.min(nowMs, Date.parse(ledger.endedAt)) + refreshEveryMs;
}
