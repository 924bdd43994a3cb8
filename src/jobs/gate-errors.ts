import type { Clock } from '../core/clock.ts';
import type { JobLog } from './worker-context.ts';

const quietMs = 30_000;
/** The error of a command sent without a connection; the cause was reported when the connection broke. */
const echo = /^(Stream isn't writeable|Connection is closed)/;

/**
 * Logs each kind of error at most once in 30 s, with the number suppressed in between: a Redis out of memory makes a
 * worker emit tens of thousands of errors in seconds. A command that failed for lack of a connection is not logged if
 * the cause was logged within 30 s. All connections of a process share one gate, so that an outage is logged once.
 */
export function gateErrors(log: JobLog, clock: Clock): (error: Error) => void {
  const kinds = new Map<string, { loggedAtMs: number; held: number }>();
  const isQuiet = ({ loggedAtMs }: { readonly loggedAtMs: number }): boolean =>
    clock.now() - loggedAtMs < quietMs;
  return (error) => {
    const kind = errorKind(error);
    const known = kinds.get(kind);
    if (known !== undefined && isQuiet(known)) {
      known.held += 1;
      return;
    }
    if (echo.test(error.message) && [...kinds.values()].some(isQuiet)) return;
    log.error(
      { err: error, kind, repeated: known?.held ?? 0 },
      'Redis reports an error: running syncs continue, new ones start when Redis answers again',
    );
    kinds.set(kind, { loggedAtMs: clock.now(), held: 0 });
  };
}

/**
 * The system error code if there is one, else the first word of the message (`OOM`, `NOAUTH`): a small set of values.
 */
export function errorKind(error: Error): string {
  if ('code' in error && typeof error.code === 'string') return error.code;
  // A command denied inside a script has no error code.
  if (error.message.startsWith("ERR The user executing the script can't ")) return 'NOPERM';
  // Redis 6 wraps errors inside scripts: "ERR Error running script (call to f_…): @user_script: 36: -OOM command not
  // allowed …".
  const text = error.message.replace(/^ERR Error running script .*: -(?=[A-Z]+ )/, '');
  return text.split(/[\s:]/, 1)[0] ?? error.name;
}
