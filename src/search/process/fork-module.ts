import { fork } from 'node:child_process';
import type { SyncError } from '../../core/errors.ts';

/** A `SyncError` as a process tells of it: without its cause, which stays where it happened. */
export type SentError = Pick<SyncError, 'message' | 'code' | 'recovery' | 'context'>;

/** A process of this program that is talked to by messages. */
interface ForkedModule<To, From> {
  readonly listen: (onMessage: (message: From) => void) => void;
  /** Lost where the process is gone, or about to be: `gone` tells. */
  readonly send: (message: To) => void;
  /** Ends it at once, whatever it does. */
  readonly kill: () => void;
  /** Closes the channel, at which it ends by itself. */
  readonly disconnect: () => void;
  /** Resolves when it is gone, with its signal or exit code, or with why it could not be started. */
  readonly gone: Promise<string>;
  /** It is gone, or about to be. */
  readonly isEnding: () => boolean;
}

interface ForkOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly youngMiB?: number;
}

/**
 * Runs a module as a process, with the number of this one as its argument. It gets no secret of this program: of the
 * environment only where temporary files go, the time zone, and what `env` adds. Beyond `maxHeapMiB` it ends instead of
 * the machine's memory. `youngMiB`: how much may be new in the heap before it is looked through; left out, as Node.js
 * has it.
 */
export function forkModule<To extends object, From>(
  module: URL,
  maxHeapMiB: number,
  { env = {}, youngMiB }: ForkOptions = {},
): ForkedModule<To, From> {
  const names = ['TMPDIR', 'SQLITE_TMPDIR', 'TZ', 'SystemRoot'];
  const child = fork(module, [String(process.pid)], {
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    execArgv: [
      `--max-old-space-size=${maxHeapMiB}`,
      ...(youngMiB === undefined ? [] : [`--max-semi-space-size=${youngMiB}`]),
    ],
    env: {
      ...Object.fromEntries(
        names.flatMap((name) => (name in process.env ? [[name, process.env[name]]] : [])),
      ),
      ...env,
    },
  });
  let isEnding = false;
  const kill = (): void => {
    isEnding = true;
    child.kill('SIGKILL');
  };
  return {
    send: (message) => {
      // With a callback a channel that has closed is no error.
      if (child.connected) child.send(message, () => undefined);
    },
    listen: (onMessage) => void child.on('message', onMessage),
    kill,
    disconnect: () => child.disconnect(),
    isEnding: () => isEnding,
    gone: new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        isEnding = true;
        resolve(signal ?? `exit code ${code}`);
      });
      child.on('error', (error) => {
        // A process that could not be started never exits; one that cannot be talked to is of no use.
        if (child.pid === undefined) resolve('code' in error ? String(error.code) : error.message);
        else kill();
      });
    }),
  };
}
