/** Milliseconds unless the name says otherwise. */
export interface WorkerTimings {
  /** How long a job's lock lives without renewal. An event loop blocked for half of it would lose its locks. */
  readonly lockMs: number;
  /** Interval of the check for stalled jobs: a killed worker's run is taken over after at most `lockMs` and two intervals. */
  readonly stalledMs: number;
  readonly reconcileMs: number;
  readonly watchdogMs: number;
  /** How often to check that the files of the sinks are in place. */
  readonly sinkWatchMs: number;
  /** The first backoff of a failed run; each further one doubles, with a jitter of up to minus a half. */
  readonly retryDelayMs: number;
  /** Delay until a job that cannot run yet is checked again. */
  readonly busyDelayMs: number;
  /** How long a job waits for a slot before it goes back to the queue. */
  readonly slotPatienceMs: number;
  readonly drainDelayS: number;
}

export const defaultTimings: WorkerTimings = {
  lockMs: 15_000,
  stalledMs: 5000,
  reconcileMs: 60_000,
  watchdogMs: 60_000,
  sinkWatchMs: 5000,
  retryDelayMs: 30_000,
  busyDelayMs: 5000,
  slotPatienceMs: 10_000,
  drainDelayS: 5,
};
