import { fork } from 'node:child_process';
import { builtModule } from '../core/program-files.ts';
import { SyncError } from '../core/errors.ts';
import { Worker } from 'node:worker_threads';
import type { Watched } from './watch-parent.ts';

/** A process of this program that answers calls. Disposed, it is killed; it also ends when this process does. */
export interface Child<Theirs extends Calls> extends AsyncDisposable {
  /** Rejects also with the signal's reason, and with the error of `died` once the process has ended. */
  readonly ask: Ask<Theirs>;
  /** Ends the process at once, also in the middle of work. */
  readonly kill: () => void;
  /** Closes the channel, at which it ends by itself. */
  readonly disconnect: () => void;
  /** Resolves when it has ended, with its signal or exit code, or with why it could not be started. */
  readonly ended: Promise<string>;
  /** True once it has ended or was killed: it takes no more calls. */
  readonly isEnding: () => boolean;
}

interface ChildOptions {
  /** Its path below `src`, without its extension; a URL: a module of a test. It calls `answerParent`. */
  readonly module: string | URL;
  /** Beyond it the process ends instead of the machine's memory. */
  readonly maxHeapMiB: number;
  /** New data that the heap takes between two collections; absent: the default of Node.js. */
  readonly youngMiB?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Functions that the process may call in this one. They must not reject. */
  readonly own?: Calls;
  /** Abort kills the process; pending calls reject with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Builds the error with which calls reject after the process ended unexpectedly. */
  readonly died: (how: string) => Error;
}

/** Environment variables that the process inherits; it needs no secret of this program. */
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

/** Functions that a process offers to the other one, by name. */
export type Calls = Readonly<Record<string, (given: never) => unknown>>;

/**
 * Has the other process call a function of its `Calls`. Rejects with the `SyncError` that the function threw; calls
 * begin in the order in which they are asked for.
 */
export type Ask<Theirs extends Calls> = <Name extends keyof Theirs & string>(
  name: Name,
  given: Parameters<Theirs[Name]>[0],
) => Promise<Awaited<ReturnType<Theirs[Name]>>>;

/** Gives the error to send for one that is no `SyncError`. */
export type Explain = (error: unknown, name: string, given: unknown) => SyncError;

export type Message =
  | { readonly kind: 'call'; readonly id: number; readonly name: string; readonly given: unknown }
  | { readonly kind: 'result'; readonly id: number; readonly result: unknown }
  /** Without the cause, which stays in its process. */
  | {
      readonly kind: 'error';
      readonly id: number;
      readonly error: Pick<SyncError, 'message' | 'code' | 'recovery' | 'context'>;
    };

interface Waiting {
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
}

export type Channel<Theirs extends Calls> = ReturnType<typeof openChannel<Theirs>>;

/** One side of the messages between two processes: sends calls, and answers those of the other side with `own`. */
export function openChannel<Theirs extends Calls>(
  send: (message: Message) => void,
  own: Calls,
  explain: Explain,
) {
  const waiting = new Map<number, Waiting>();
  let lastId = 0;
  let closed: Error | null = null;
  const answer = async ({ id, name, given }: Extract<Message, { kind: 'call' }>): Promise<void> => {
    try {
      const called = own[name];
      if (called === undefined) throw new TypeError(`no call is named ${name}`);
      send({ kind: 'result', id, result: await called(given as never) });
    } catch (thrown) {
      const error = thrown instanceof SyncError ? thrown : explain(thrown, name, given);
      const { message, code, recovery, context } = error;
      send({ kind: 'error', id, error: { message, code, recovery, context } });
    }
  };
  const ask: Ask<Theirs> = (name, given) => {
    const answered = new Promise<never>((resolve, reject) => {
      if (closed !== null) return reject(closed);
      lastId += 1;
      waiting.set(lastId, { resolve, reject });
      send({ kind: 'call', id: lastId, name, given });
    });
    // The caller may await it later, or not at all once another call has failed.
    answered.catch(() => undefined);
    return answered;
  };
  return {
    ask,
    /** Must be called with every message of the other process. */
    receive: (message: Message): void => {
      if (message.kind === 'call') return void answer(message);
      const one = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.kind === 'result') return one?.resolve(message.result as never);
      const { message: text, ...options } = message.error;
      one?.reject(new SyncError(text, options));
    },
    /** No answer comes: calls that wait and later ones reject with the error of the first `close`. */
    close: (error: Error): void => {
      closed ??= error;
      for (const { reject } of waiting.values()) reject(closed);
      waiting.clear();
    },
  };
}

/** Explains failures of functions that fail only through faults of this program. */
export function explainedAs(what: string, code: SyncError['code'], recovery: SyncError['recovery']): Explain {
  return (error) => {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    return new SyncError(`${what} (${name}: ${message.slice(0, 200)}). This is a bug: report it.`, {
      code,
      recovery,
    });
  };
}

interface AnswerOptions {
  readonly explain: Explain;
  /**
   * Once the parent has ended or has closed the channel. `kill`: no exit handler runs, as those of native code do.
   */
  readonly end?: 'exit' | 'kill';
  /** Calls may block for long: a thread ends the process when its parent has ended, even then. */
  readonly isWatched?: boolean;
  /** Limit on the total memory of a watched process: the process ends when it exceeds it. */
  readonly mostMiB?: number;
}

/**
 * Serves the parent process from the module of a child process: answers with `calls`, and ends together with the
 * parent. Returns the function that calls the parent.
 */
export function answerParent<Parents extends Calls = Calls>(
  calls: Calls,
  { explain, end = 'exit', isWatched = false, mostMiB }: AnswerOptions,
): Ask<Parents> {
  const stop = end === 'exit' ? () => process.exit() : () => process.kill(process.pid, 'SIGKILL');
  const send = (message: Message): void => {
    // Without a channel there is no reader.
    if (process.connected) process.send?.(message);
  };
  const channel = openChannel<Parents>(send, calls, explain);
  process.on('disconnect', stop);
  // If the parent ended while this process was loading, no 'disconnect' comes.
  if (!process.connected) stop();
  // Ctrl-C reaches every process of a terminal; it is the parent that ends this one.
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', () => undefined);
  process.on('message', (message) => channel.receive(message as Message));
  if (isWatched) {
    const workerData: Watched = { parent: Number(process.argv[2]), mostMiB: mostMiB ?? null };
    new Worker(builtModule('child/watch-parent'), { workerData }).unref();
  }
  return channel.ask;
}
