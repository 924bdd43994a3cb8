import type { Job, Queue } from 'bullmq';
import * as z from 'zod';
import { addJob, parsePayload, type AddedJob } from '../add-job.ts';
import type { QueueSet } from '../open-queue-set.ts';
import {
  type PublicationRequests,
  type ServedSink,
  type WorkerTimings,
  sinkOfTarget,
  type ScheduledTarget,
} from '../worker-context.ts';

/** The payload of a job that publishes into a target: what is to be published, the target itself says. */
export interface PublicationJob {
  readonly target: string;
}

const publicationJob = z.strictObject({ target: z.string().min(1) });

/**
 * At most one job of a target waits, and one runs: what is asked for during a publication is made by another one after
 * it, because the one that runs may have read the sink before.
 */
export function addPublication(
  publications: Queue,
  target: string,
  { retryDelayMs }: { readonly retryDelayMs: number },
): Promise<AddedJob> {
  return addJob(publications, `publish-${target}`, { target }, retryDelayMs, {
    deduplication: { id: target, keepLastIfActive: true },
  });
}

/** Throws `SyncError` INTERNAL for a payload that this program did not write. */
export function parsePublicationJob(job: Job): PublicationJob {
  return parsePayload(publicationJob, job.data, "a target's name");
}

interface RequestOptions {
  readonly targets: readonly ScheduledTarget[];
  readonly sinks: readonly ServedSink[];
  readonly queues: Pick<QueueSet, 'publications'>;
  readonly timings: Pick<WorkerTimings, 'retryDelayMs'>;
  readonly onError: (error: Error) => void;
}

/** What the ends of syncs ask for; what Redis did not take is kept, and asked for again by `retry`. */
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
