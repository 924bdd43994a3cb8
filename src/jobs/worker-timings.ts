/** Milliseconds unless the name says otherwise. */
export interface WorkerTimings {
  /** How long a worker that says nothing keeps its jobs. An event loop busy for half of it would lose them. */
  readonly lockMs: number;
  /** How often lost jobs are looked for: a killed worker's run is taken over after at most a lock and two of these. */
  readonly stalledMs: number;
  readonly reconcileMs: number;
  readonly watchdogMs: number;
  /** How often the files of the sinks are looked for at their places. */
  readonly sinkWatchMs: number;
  /** The first pause before a failed run is tried again; each further one is twice as long, each less up to a half. */
  readonly retryDelayMs: number;
  /** When a job that cannot run yet is looked at again. */
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
