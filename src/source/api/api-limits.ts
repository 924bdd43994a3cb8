/** Times in milliseconds, sizes in bytes. Production uses them unchanged; tests shorten the waits. */
export const defaultApiLimits = {
  connectTimeoutMs: 5_000,
  headersTimeoutMs: 300_000,
  /**
   * Between two chunks of a body; a drip feed never trips it, `attemptTimeoutMs` does, or for a file `leastFileBytes`.
   */
  bodyTimeoutMs: 300_000,
  /** Fewest bytes of a file that must arrive within `bodyTimeoutMs` of waiting. */
  leastFileBytes: 64 * 1024,
  /** Time from sending to the last byte. One call may take minutes: the API retries the third party inside. */
  attemptTimeoutMs: 300_000,
  /** Limit on a body, before and after decompression. */
  maxBodyBytes: 64 * 1024 * 1024,
  maxErrorBytes: 64 * 1024,
  maxHeaderBytes: 16_384,
  /** Attempts after the first one. */
  retries: 5,
  backOffMs: 500,
  maxBackOffMs: 30_000,
  /** Attempts and waits of one call together; above `attemptTimeoutMs`, so that one that timed out gets another. */
  maxCallMs: 600_000,
  /** A longer Retry-After is not waited for here: the caller gets a `ThrottledError`. */
  maxThrottleWaitMs: 30_000,
  /** Time that the answer to a look-up of a connector is cached; 0: every run asks again. */
  lookUpCacheMs: 3_600_000,
};

export type ApiLimits = Readonly<typeof defaultApiLimits>;
