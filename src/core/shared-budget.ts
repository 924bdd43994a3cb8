/** A rate that all processes keep together for one account. */
export interface SharedBudget {
  /**
   * Resolves when a call may start. Rejects with the signal's reason, and with `ThrottledError` when the account is
   * paused for longer than this process waits. While the shared store is unreachable, every call may start at once:
   * each process still applies its own rate limit.
   */
  enter(signal: AbortSignal): Promise<void>;
  /**
   * The API asked for a pause of `waitMs`: no process starts a call before, and the rate is lower for a while after.
   * Never rejects.
   */
  slowDown(waitMs: number): Promise<void>;
  /** The rate of this process's calls from now on, as the API states it. */
  limitTo(requestsPerSecond: number): void;
}
