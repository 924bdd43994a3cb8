import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';

/** What an attempt said about the service: `unknown` when it was aborted or never reached it. */
export type AttemptOutcome = 'alive' | 'down' | 'unknown';

export interface CircuitBreaker {
  /** Call before an attempt, and the function it returns after it. Throws UPSTREAM (`retry`) while the circuit is open. */
  enter(): (outcome: AttemptOutcome) => void;
}

const maxFailures = 20;
const firstPauseMs = 1_000;
const maxPauseMs = 30_000;

/**
 * After 20 failures in a row nothing is sent but one probe at a time, the first after a second, then at doubling
 * pauses of at most 30 s; any answer that shows the service alive closes the circuit.
 */
export function openCircuitBreaker(clock: Clock): CircuitBreaker {
  let failures = 0;
  let pauseMs = firstPauseMs;
  let probeAt = 0;
  let isProbing = false;

  return {
    enter() {
      const isProbe = failures >= maxFailures;
      if (isProbe) {
        if (isProbing || clock.now() < probeAt) throw openError(failures);
        isProbing = true;
      }
      return (outcome) => {
        if (isProbe) isProbing = false;
        if (outcome === 'alive') {
          failures = 0;
          pauseMs = firstPauseMs;
        } else if (outcome === 'down') {
          failures += 1;
          if (failures < maxFailures) return;
          probeAt = clock.now() + pauseMs;
          if (isProbe) pauseMs = Math.min(pauseMs * 2, maxPauseMs);
        }
      };
    },
  };
}

function openError(failures: number): SyncError {
  return new SyncError(
    `the service failed ${failures} times in a row; calls are not sent until a probe is answered, so try again later`,
    { code: 'UPSTREAM', recovery: 'retry', context: { failures } },
  );
}
