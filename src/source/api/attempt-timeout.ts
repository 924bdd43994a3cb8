/** One attempt took longer than it may take in all, or its body came too slowly. */
export class AttemptTimeoutError extends Error {
  override readonly name = 'AttemptTimeoutError';
}
