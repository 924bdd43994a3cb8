import type { Clock } from '../core/clock.ts';
import type { JobLog } from './job-log.ts';

const quietMs = 30_000;

/**
 * Logs a kind of error at most once in 30 s, with the number that came in between: a Redis out of memory makes a worker
 * emit tens of thousands of them in seconds.
 */
export function gateErrors(log: JobLog, clock: Clock): (error: Error) => void {
  const kinds = new Map<string, { loggedAtMs: number; held: number }>();
  return (error) => {
    const kind = errorKind(error);
    const known = kinds.get(kind);
    if (known !== undefined && clock.now() - known.loggedAtMs < quietMs) {
      known.held += 1;
      return;
    }
    log.error({ err: error, kind, repeated: known?.held ?? 0 }, 'the queue reports an error');
    kinds.set(kind, { loggedAtMs: clock.now(), held: 0 });
  };
}

/** A system's code where there is one, else the first word of the message (`OOM`, `NOAUTH`): never as many as messages. */
export function errorKind(error: Error): string {
  if ('code' in error && typeof error.code === 'string') return error.code;
  return error.message.split(/[\s:]/, 1)[0] ?? error.name;
}
