/** What clients may take of the monitor. Times in milliseconds. */
export interface MonitorLimits {
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  /** How often the two timeouts are looked at. */
  readonly timeoutCheckMs: number;
  /** Further connections are closed as soon as they are accepted. */
  readonly maxConnections: number;
  readonly maxRequestsPerSocket: number;
  /** No request has a body that anybody reads. */
  readonly maxBodyBytes: number;
  /** What `/readyz` is given before it answers that nobody knows; the promise is two seconds. */
  readonly readyWithinMs: number;
  /** Wrong tokens that are looked at within `wrongTriesMs`, of all clients together. */
  readonly wrongTries: number;
  readonly wrongTriesMs: number;
}

export const defaultMonitorLimits: MonitorLimits = {
  headersTimeoutMs: 5000,
  requestTimeoutMs: 10_000,
  timeoutCheckMs: 2000,
  maxConnections: 64,
  maxRequestsPerSocket: 1000,
  maxBodyBytes: 1024,
  readyWithinMs: 1500,
  wrongTries: 10,
  wrongTriesMs: 10_000,
};
