/** Times in milliseconds, sizes in bytes. Production uses the defaults; tests shorten what they would wait for. */
export interface ApiLimits {
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  /**
   * Between two chunks of a body; a drip feed never trips it, `attemptTimeoutMs` does, or for a file `leastFileBytes`.
   */
  readonly bodyTimeoutMs: number;
  /** Of a file in `bodyTimeoutMs` of waiting for it. */
  readonly leastFileBytes: number;
  /** From sending to the last byte. One call may take minutes: the API retries the third party inside. */
  readonly attemptTimeoutMs: number;
  readonly maxWireBytes: number;
  /** After decompression. */
  readonly maxBodyBytes: number;
  readonly maxErrorBytes: number;
  readonly maxHeaderBytes: number;
  /** Attempts after the first one. */
  readonly retries: number;
  readonly backOffMs: number;
  readonly maxBackOffMs: number;
  /** Attempts and waits of one call together; above `attemptTimeoutMs`, so that one that timed out gets another. */
  readonly maxCallMs: number;
  /** A longer Retry-After is not waited for here: the caller gets a `ThrottledError`. */
  readonly maxThrottleWaitMs: number;
}

export const defaultApiLimits: ApiLimits = {
  connectTimeoutMs: 5_000,
  headersTimeoutMs: 300_000,
  bodyTimeoutMs: 300_000,
  leastFileBytes: 64 * 1024,
  attemptTimeoutMs: 300_000,
  maxWireBytes: 64 * 1024 * 1024,
  maxBodyBytes: 64 * 1024 * 1024,
  maxErrorBytes: 64 * 1024,
  maxHeaderBytes: 16_384,
  retries: 5,
  backOffMs: 500,
  maxBackOffMs: 30_000,
  maxCallMs: 600_000,
  maxThrottleWaitMs: 30_000,
};
