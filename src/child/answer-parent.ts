import { Worker } from 'node:worker_threads';
import { builtModule } from '../core/program-files.ts';
import type { Watched } from './watch-parent.ts';
import { openChannel, type Ask, type Calls, type Explain, type Message } from './channel.ts';

interface AnswerOptions {
  readonly explain: Explain;
  /**
   * Once the parent has ended or has closed the channel. `kill`: no exit handler runs, as those of native code do.
   */
  readonly end?: 'exit' | 'kill';
  /** Calls may block for long: a thread ends the process when its parent has ended, even then. */
  readonly isWatched?: boolean;
  /** Of all its memory: a watched process that has more ends. */
  readonly mostMiB?: number;
}

/**
 * What the module of a child process calls: answers its parent with `calls`, and ends with it. Gives what asks the
 * parent.
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
