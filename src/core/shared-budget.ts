/** A rate and a number of calls at a time that all processes keep together for one account. */
export interface SharedBudget extends AsyncDisposable {
  /**
   * Resolves when a call may start; the caller releases its turn when the call has ended. Rejects with the signal's
   * reason, and with `ThrottledError` when the account is paused for longer than this process waits. While the shared
   * store is unreachable, every call may start at once: each process still applies its own rate limit.
   */
  enter(signal: AbortSignal): Promise<SharedTurn>;
  /**
   * The API asked for a pause of `waitMs`: no process starts a call before, and the rate is lower for a while after.
   */
  slowDown(waitMs: number): Promise<void>;
  /** The rate of this process's calls from now on, as the API states it. Absent: it has no rate. */
  limitTo?(requestsPerSecond: number): void;
}

/** Permission for one call. */
export interface SharedTurn {
  /** Lets another call start. Idempotent. */
  release(): Promise<void>;
}
