import { instant, type Instant } from '../core/clock.ts';

/**
 * Two clocks may differ by a thousandth in their speed, far more than they do: the service's time is never overtaken.
 */
const clockDrift = 0.999;

/** The service's own time, as far as its answers tell it. */
export function openServerClock() {
  let served: { readonly dateMs: number; readonly heardAt: number } | null = null;
  return {
    heard(dateMs: number): void {
      if (!Number.isNaN(dateMs)) served = { dateMs, heardAt: performance.now() };
    },
    /**
     * The `Date` of the answer that came last, and the whole seconds that have passed since by a clock that never
     * jumps. Never ahead of the service. Null before the first answer that has a date.
     */
    now(): Instant | null {
      if (served === null) return null;
      const { dateMs, heardAt } = served;
      return instant(dateMs + Math.floor(((performance.now() - heardAt) * clockDrift) / 1_000) * 1_000);
    },
  };
}
