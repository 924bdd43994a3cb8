/**
 * Public clients keep an application token for 14 minutes, whatever `expires_in` says: less would cut them off midway.
 */
export const shortestTokenSeconds = 900;
export const defaultTokenSeconds = 900;
/** The API does not tell how long a scoped token lives; its clients expect 20 minutes. */
export const scopedTokenSeconds = 1_200;
export const defaultMaxTokens = 1_000;

/** Limits on what clients may use of the server. Times in milliseconds. */
export const defaultServerLimits = {
  maxBodyBytes: 1024 * 1024,
  /** Request line and headers; 431 for more. */
  maxHeaderBytes: 16 * 1024,
  /** A client that sends its headers drop by drop, or none at all, is cut off with 408. */
  headersTimeoutMs: 5_000,
  /** The same for a whole request, body included. */
  requestTimeoutMs: 30_000,
  /** Interval at which the two timeouts are checked. */
  timeoutCheckMs: 1_000,
  /**
   * A connection over which nothing comes or goes for so long is cut: a client that reads no further, for example.
   * Longer than any answer is waited for.
   */
  idleTimeoutMs: 330_000,
  maxRequestsPerSocket: 1_000,
  /** Limit at which the connection that has waited longest for a whole request makes room for a new one. */
  maxConnections: 256,
  /** The same among the connections from one address. */
  maxConnectionsPerClient: 192,
  /**
   * Tokens that one application may get in a second; as many at once after a second of quiet. Each is two writes to the
   * disk.
   */
  tokensPerSecond: 50,
  /** Live tokens of one application; the oldest one goes when another is asked for. */
  maxTokens: defaultMaxTokens,
  /** Rate of one token, and of all requests without one from one address; as many at once after a second of quiet. */
  requestsPerSecond: 1_000,
};

export type ServerLimits = Readonly<typeof defaultServerLimits>;
