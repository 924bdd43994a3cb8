import { fork } from 'node:child_process';

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

/**
 * Runs a module as a process, with the number of this one as its argument. It gets no secret of this program: of the environment
 * only where temporary files go, the time zone, and what `env` adds. Beyond `maxHeapMiB` it ends instead of the machine's memory.
 */
export function forkModule<To extends object, From>(
  module: URL,
  maxHeapMiB: number,
  env: Readonly<Record<string, string>> = {},
): ForkedModule<To, From> {
  const names = ['TMPDIR', 'SQLITE_TMPDIR', 'TZ', 'SystemRoot'];
  const child = fork(module, [String(process.pid)], {
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    execArgv: [`--max-old-space-size=${maxHeapMiB}`],
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
