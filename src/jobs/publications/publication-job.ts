import type { Job, Queue } from 'bullmq';
import * as z from 'zod';
import { addJob, parsePayload, type AddedJob } from '../add-job.ts';

/** The payload of a job that publishes into a target: what is to be published, the target itself says. */
export interface PublicationJob {
  readonly target: string;
}

const publicationJob = z.strictObject({ target: z.string().min(1) });

/**
 * At most one job of a target waits, and one runs: what is asked for during a publication is made by another one after it, because the one that
 * runs may have read the sink before.
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
