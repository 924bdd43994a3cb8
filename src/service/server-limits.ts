/** What one client, or many, may take of the server. Times in milliseconds. */
export interface ServerLimits {
  readonly maxBodyBytes: number;
  /** A client that sends its headers drop by drop is cut off with 408. */
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  /** How often the two timeouts are looked at. */
  readonly timeoutCheckMs: number;
  readonly maxRequestsPerSocket: number;
  /** Further connections are closed as soon as they are accepted. */
  readonly maxConnections: number;
  /** Live tokens; the oldest one goes when another is asked for. */
  readonly maxTokens: number;
}

export const defaultServerLimits: ServerLimits = {
  maxBodyBytes: 1024 * 1024,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  timeoutCheckMs: 2_000,
  maxRequestsPerSocket: 1_000,
  maxConnections: 256,
  maxTokens: 1_000,
};
