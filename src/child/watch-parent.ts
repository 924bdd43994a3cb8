import { workerData } from 'node:worker_threads';

/**
 * A thread of a child process that ends the process when its parent has ended, even in the middle of a statement, where
 * the process itself would notice only after it. Its data is the number of the parent process.
 */
const everyMs = 500;

setInterval(() => {
  if (process.ppid !== workerData) process.kill(process.pid, 'SIGKILL');
}, everyMs);
