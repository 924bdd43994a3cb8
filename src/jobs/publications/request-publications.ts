import type { QueueSet } from '../open-queue-set.ts';
import type { PublicationRequests, ServedSink, WorkerTimings } from '../worker-context.ts';
import { addPublication } from './publication-job.ts';
import { sinkOfTarget, type ScheduledTarget } from './scheduled-target.ts';

interface RequestOptions {
  readonly targets: readonly ScheduledTarget[];
  readonly sinks: readonly ServedSink[];
  readonly queues: Pick<QueueSet, 'publications'>;
  readonly timings: Pick<WorkerTimings, 'retryDelayMs'>;
  readonly onError: (error: Error) => void;
}

export function openPublicationRequests(options: RequestOptions): PublicationRequests {
  const { targets, sinks, queues, timings, onError } = options;
  const owed = new Set<ScheduledTarget>();
  const retry = async (): Promise<void> => {
    for (const target of owed) {
      const sink = sinks.find(({ name }) => name === sinkOfTarget(target));
      if (sink !== undefined) await addPublication(queues.publications(sink.id), target.name, timings);
      owed.delete(target);
    }
  };
  return {
    async after(connector) {
      for (const target of targets) {
        const follows = target.when.kind === 'after-sync';
        if (follows && target.connectors.some(({ name }) => name === connector)) owed.add(target);
      }
      await retry().catch(onError);
    },
    retry,
  };
}
