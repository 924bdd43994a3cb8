import { describe, expect, it } from 'vitest';
import {
  firstSyncAt,
  nextSyncAt,
  type StoreProcessEnd,
} from '../../../src/service/store/open-context-stores.ts';
import { emptyLedger } from '../../../src/service/store/store-ledger.ts';

const nowMs = Date.parse('2026-01-01T00:00:00Z');
const hour = 3_600_000;
const ok: StoreProcessEnd = { kind: 'run', outcome: 'ok', resumeAt: null };
const degraded: StoreProcessEnd = { ...ok, outcome: 'degraded' };
const died: StoreProcessEnd = { kind: 'died', how: 'SIGKILL' };

describe('the next sync of a store', () => {
  it('comes after the refresh time, or not by itself where there is none', () => {
    const context = { readiness: 'Ready', failures: 0, nowMs } as const;
    expect(nextSyncAt(ok, { ...context, refreshEveryMs: hour })).toBe(nowMs + hour);
    expect(nextSyncAt(ok, { ...context, refreshEveryMs: null })).toBeNull();
    expect(nextSyncAt(degraded, { ...context, refreshEveryMs: null })).toBeNull();
  });

  it('comes after a doubling back-off where one came to nothing, never later than the refresh', () => {
    const after = (end: StoreProcessEnd, failures: number, refreshEveryMs: number | null): number =>
      (nextSyncAt(end, { readiness: 'Preview', failures, refreshEveryMs, nowMs }) ?? NaN) - nowMs;
    expect([1, 2, 3, 50].map((failures) => after(died, failures, null))).toEqual([
      1_000, 2_000, 4_000, 900_000,
    ]);
    expect(after(degraded, 1, hour)).toBe(1_000);
    expect(after({ kind: 'error', code: 'SINK_FULL' }, 50, 60_000)).toBe(60_000);
  });

  it('comes at the time that the third party asked for, also where that is far ahead', () => {
    const resumeAt = new Date(nowMs + 2 * hour).toISOString();
    const end: StoreProcessEnd = { kind: 'run', outcome: 'partial', resumeAt };
    const context = { readiness: 'Loading', failures: 1, refreshEveryMs: hour } as const;
    expect(nextSyncAt(end, { ...context, nowMs })).toBe(nowMs + 2 * hour);
    expect(nextSyncAt(end, { ...context, nowMs: nowMs + 3 * hour })).toBe(nowMs + 3 * hour);
  });

  it('comes at once at the start of the service where the store is not complete', () => {
    const whole = { ...emptyLedger, hasEnded: true, endedAt: new Date(nowMs - hour / 2).toISOString() };
    const context = { readiness: 'Ready', refreshEveryMs: hour, nowMs } as const;
    expect(firstSyncAt(whole, context)).toBe(nowMs + hour / 2);
    expect(firstSyncAt({ ...whole, problem: 'cut off' }, context)).toBe(nowMs);
    expect(firstSyncAt(whole, { ...context, readiness: 'Preview' })).toBe(nowMs);
    expect(firstSyncAt(emptyLedger, context)).toBe(nowMs);
  });

  it('is not put off for long by a clock that was years ahead when the last one ended', () => {
    const ahead = { ...emptyLedger, hasEnded: true, endedAt: '2031-01-01T00:00:00.000Z' };
    expect(firstSyncAt(ahead, { readiness: 'Ready', refreshEveryMs: hour, nowMs })).toBe(nowMs + hour);
  });
});
