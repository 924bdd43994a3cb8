/**
 * Public clients keep an application token for 14 minutes, whatever `expires_in` says: less would cut them off midway.
 */
export const shortestTokenSeconds = 900;
export const defaultTokenSeconds = 900;
/** The API does not tell how long a scoped token lives; its clients expect 20 minutes. */
export const defaultScopedTokenSeconds = 1_200;
export const defaultMaxTokens = 1_000;

/** What one client, or many, may take of the server. Times in milliseconds. */
export interface ServerLimits {
  readonly maxBodyBytes: number;
  /** Request line and headers; 431 for more. */
  readonly maxHeaderBytes: number;
  /** A client that sends its headers drop by drop, or none at all, is cut off with 408. */
  readonly headersTimeoutMs: number;
  /** The same for a whole request, body included. */
  readonly requestTimeoutMs: number;
  /** How often the two timeouts are looked at. */
  readonly timeoutCheckMs: number;
  /** A connection over which nothing comes or goes for so long is cut: a client that reads no further, for example. */
  readonly idleTimeoutMs: number;
  readonly maxRequestsPerSocket: number;
  /** At this number the connection that has waited longest for a whole request makes room for a new one. */
  readonly maxConnections: number;
  /** The same among the connections from one address. */
  readonly maxConnectionsPerClient: number;
  /**
   * Tokens that one application may get in a second; as many at once after a second of quiet. Each is two writes to the
   * disk.
   */
  readonly tokensPerSecond: number;
  /** Live tokens of one application; the oldest one goes when another is asked for. */
  readonly maxTokens: number;
  /** Of one token, and of all requests without one from one address; as many at once after a second of quiet. */
  readonly requestsPerSecond: number;
}

export const defaultServerLimits: ServerLimits = {
  maxBodyBytes: 1024 * 1024,
  maxHeaderBytes: 16 * 1024,
  headersTimeoutMs: 5_000,
  requestTimeoutMs: 30_000,
  timeoutCheckMs: 1_000,
  // Longer than any answer is waited for.
  idleTimeoutMs: 330_000,
  maxRequestsPerSocket: 1_000,
  maxConnections: 256,
  maxConnectionsPerClient: 192,
  tokensPerSecond: 50,
  maxTokens: defaultMaxTokens,
  requestsPerSecond: 1_000,
};
