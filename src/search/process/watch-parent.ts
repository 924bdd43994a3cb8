import { workerData } from 'node:worker_threads';

/**
 * A thread of a search process that ends it when the process that started it is gone, even in the middle of a
 * statement, where the process itself would hear of it only when that is through. Its data is the process number to
 * look for.
 */
const everyMs = 500;

setInterval(() => {
  if (process.ppid !== workerData) process.kill(process.pid, 'SIGKILL');
}, everyMs);
