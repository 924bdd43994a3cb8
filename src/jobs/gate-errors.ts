import type { Clock } from '../core/clock.ts';
import type { JobLog } from './job-log.ts';

const quietMs = 30_000;
/** What the client says to a command while it has no connection; why it has none, it has said before. */
const echo = /^(Stream isn't writeable|Connection is closed)/;

/**
 * Logs a kind of error at most once in 30 s, with the number that came in between: a Redis out of memory makes a worker
 * emit tens of thousands of them in seconds. A command that failed because the connection is away is no kind of its own while
 * that is told. All connections of a process go through one gate: an outage is one kind, however many of them meet it.
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

/** A system's code where there is one, else the first word of the message (`OOM`, `NOAUTH`): never as many as messages. */
export function errorKind(error: Error): string {
  if ('code' in error && typeof error.code === 'string') return error.code;
  // What a script may not do comes without a word of its own.
  if (error.message.startsWith("ERR The user executing the script can't ")) return 'NOPERM';
  // Redis 6 wraps what a script met: "ERR Error running script (call to f_…): @user_script: 36: -OOM command not allowed …".
  const text = error.message.replace(/^ERR Error running script .*: -(?=[A-Z]+ )/, '');
  return text.split(/[\s:]/, 1)[0] ?? error.name;
}
