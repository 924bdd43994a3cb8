import { workerData } from 'node:worker_threads';

export interface Watched {
  /** The number of the parent process. */
  readonly parent: number;
  /** Limit on the total memory of this process; null: no limit. */
  readonly mostMiB: number | null;
}

/**
 * A thread of a child process that ends the process when its parent has ended or it has taken too much memory, even in
 * the middle of a statement, where the process itself would notice only after it.
 */
const { parent, mostMiB } = workerData as Watched;
/** Memory grows faster than parents end. */
const everyMs = mostMiB === null ? 500 : 20;

setInterval(() => {
  const isTooLarge = mostMiB !== null && process.memoryUsage.rss() > mostMiB * 2 ** 20;
  if (isTooLarge || process.ppid !== parent) process.kill(process.pid, 'SIGKILL');
}, everyMs);
