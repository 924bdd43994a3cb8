import { SyncError } from './errors.ts';

/** What a person asked for cannot be done as it was asked: exit code 2. */
export function usage(message: string): SyncError {
  return new SyncError(message, { code: 'USAGE', recovery: 'stop' });
}
