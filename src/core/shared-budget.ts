/** A rate and a number of calls at a time that all processes keep together for one account. */
export interface SharedBudget extends AsyncDisposable {
  /**
   * Resolves when a call may start; whoever entered releases when the call has ended. Rejects with the signal's reason,
   * and with `ThrottledError` when the account is paused for longer than this process waits. While the place that
   * all share cannot be reached, everybody is let through at once: each process keeps its own pace all the same.
   */
  enter(signal: AbortSignal): Promise<SharedTurn>;
  /** The service asked for `waitMs` of quiet: nobody of any process starts before, and then slower for a while. */
  slowDown(waitMs: number): Promise<void>;
}

/** The right of one call to be on its way. */
export interface SharedTurn {
  /** Lets another call start. Idempotent. */
  release(): Promise<void>;
}
