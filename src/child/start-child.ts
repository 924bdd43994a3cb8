import { fork } from 'node:child_process';
import { builtModule } from '../core/program-files.ts';
import { explainedAs, openChannel, type Ask, type Calls, type Message } from './channel.ts';

/** A process of this program that answers calls. Disposed, it is killed; it also ends when this process does. */
export interface Child<Theirs extends Calls> extends AsyncDisposable {
  /** Rejects also with the signal's reason, and with the error of `died` once the process has ended. */
  readonly ask: Ask<Theirs>;
  /** Ends it at once, whatever it does. */
  readonly kill: () => void;
  /** Closes the channel, at which it ends by itself. */
  readonly disconnect: () => void;
  /** Resolves when it has ended, with its signal or exit code, or with why it could not be started. */
  readonly ended: Promise<string>;
  /** It has ended or was killed: not to be asked again. */
  readonly isEnding: () => boolean;
}

interface ChildOptions {
  /** Its path below `src`, without its extension; a URL: a module of a test. It calls `answerParent`. */
  readonly module: string | URL;
  /** Beyond it the process ends instead of the machine's memory. */
  readonly maxHeapMiB: number;
  /** How much new data the heap takes between two collections; left out, as Node.js has it. */
  readonly youngMiB?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** What the process may ask of this one. They do not reject. */
  readonly own?: Calls;
  /** Aborted, it kills the process, and calls reject with its reason. */
  readonly signal?: AbortSignal;
  /** What calls reject with after the process ended unexpectedly. */
  readonly died: (how: string) => Error;
}

/** All that it gets of the environment, because it needs no secret of this program. */
const passedOn = ['TMPDIR', 'SQLITE_TMPDIR', 'TZ', 'SystemRoot'];

/** Runs a module as a process, with the number of this one as its argument. */
export function startChild<Theirs extends Calls>(options: ChildOptions): Child<Theirs> {
  const { module, maxHeapMiB, youngMiB, env = {}, own = {}, signal, died } = options;
  const child = fork(typeof module === 'string' ? builtModule(module) : module, [String(process.pid)], {
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    execArgv: [
      `--max-old-space-size=${maxHeapMiB}`,
      ...(youngMiB === undefined ? [] : [`--max-semi-space-size=${youngMiB}`]),
    ],
    env: {
      ...Object.fromEntries(
        passedOn.flatMap((name) => (name in process.env ? [[name, process.env[name]]] : [])),
      ),
      ...env,
    },
  });
  let isEnding = false;
  const kill = (): void => {
    isEnding = true;
    child.kill('SIGKILL');
  };
  const send = (message: Message): void => {
    // With a callback a channel that has closed is no error: `ended` says so.
    if (child.connected) child.send(message, () => undefined);
  };
  const channel = openChannel<Theirs>(
    send,
    own,
    explainedAs('A call of a child process failed', 'INTERNAL', 'stop'),
  );
  child.on('message', (message) => channel.receive(message as Message));
  const exited = new Promise<string>((resolve) => {
    child.once('exit', (code, by) => resolve(by ?? `exit code ${code}`));
    child.on('error', (error) => {
      // A process that could not be started never exits; one that cannot be sent messages is of no use.
      if (child.pid === undefined) resolve('code' in error ? String(error.code) : error.message);
      else kill();
    });
  });
  const onAbort = (): void => {
    kill();
    channel.close(signal?.reason as Error);
  };
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted === true) onAbort();
  const ended = exited.then((how) => {
    isEnding = true;
    signal?.removeEventListener('abort', onAbort);
    channel.close(died(how));
    return how;
  });
  return {
    ask: channel.ask,
    kill,
    disconnect: () => child.disconnect(),
    ended,
    isEnding: () => isEnding,
    [Symbol.asyncDispose]: async () => {
      kill();
      await ended;
    },
  };
}
