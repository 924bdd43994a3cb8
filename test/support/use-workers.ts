import { onTestFinished } from 'vitest';
import { openScheduledWorld } from './scheduled-world.ts';
import { startWorkerProcess, type WorkerProcess } from './worker-process.ts';

export type Workers = Awaited<ReturnType<typeof useWorkers>>;

/** A world for one test, and workers of it: at its end they are killed, and the world is closed. */
export async function useWorkers(options: Parameters<typeof openScheduledWorld>[0]) {
  const world = await openScheduledWorld(options);
  const started: WorkerProcess[] = [];
  onTestFinished(async () => {
    for (const { child } of started) child.kill('SIGKILL');
    await Promise.all(started.map(({ ended }) => ended));
    await world[Symbol.asyncDispose]();
  });
  const start = (
    ...[timings, more]: [Parameters<typeof startWorkerProcess>[1]?, Parameters<typeof startWorkerProcess>[2]?]
  ) => {
    const worker = startWorkerProcess(world, timings, more);
    started.push(worker);
    return worker;
  };
  return { ...world, started, start };
}
