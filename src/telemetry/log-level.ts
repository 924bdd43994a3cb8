import { SyncError } from '../core/errors.ts';

const levels: readonly string[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** The level as it was given. Throws USAGE, naming those there are, for an unknown one. */
export function checkLogLevel(level: string): string {
  if (levels.includes(level)) return level;
  throw new SyncError(`LOG_LEVEL: expected one of ${levels.join(', ')}, got "${level}".`, {
    code: 'USAGE',
    recovery: 'stop',
  });
}
