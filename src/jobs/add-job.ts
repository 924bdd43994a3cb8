import { randomUUID } from 'node:crypto';
import type { JobsOptions, Queue } from 'bullmq';
import type { ConnectorName } from '../core/names.ts';
import type { ConnectorJob } from './connector-job.ts';
import { backfillKey } from './queue-names.ts';

const dayS = 24 * 60 * 60;
const backfillWithinMs = dayS * 1000;
/** Priorities of the queue are at most 2^21: in steps of five minutes they last until 2045. */
const priorityStepMs = 5 * 60 * 1000;
const firstDeadlineMs = Date.UTC(2026, 0, 1);
const lowestPriority = 2 ** 21 - 1;

export interface AddedJob {
  readonly id: string;
  /** False when one of the same connector waits or runs already; then `id` is that one's. */
  readonly isNew: boolean;
}

/**
 * `delayMs` from now it may start; `retryDelayMs` is the first pause after a failure. `deadlineMs`: by when its data should be
 * renewed; without it the job goes before all that have one.
 */
export function addSync(
  syncs: Queue,
  job: Omit<Extract<ConnectorJob, { kind: 'sync' }>, 'kind'>,
  {
    delayMs = 0,
    retryDelayMs,
    deadlineMs = null,
  }: {
    readonly delayMs?: number;
    readonly retryDelayMs: number;
    readonly deadlineMs?: number | null;
  },
): Promise<AddedJob> {
  return add(syncs, { ...job, kind: 'sync' }, retryDelayMs, {
    deduplication: { id: job.connector },
    delay: delayMs,
    ...(deadlineMs === null ? {} : { priority: priorityOf(deadlineMs) }),
  });
}

export function addBackfill(
  syncs: Queue,
  connector: ConnectorName,
  backfill: string,
  { retryDelayMs }: { readonly retryDelayMs: number },
): Promise<AddedJob> {
  return add(syncs, { connector, kind: 'backfill', backfill }, retryDelayMs, {
    deduplication: { id: backfillKey(connector) },
    // A backfill has time, but not for ever.
    priority: priorityOf(Date.now() + backfillWithinMs),
  });
}

/**
 * The priority of a job whose data should be renewed by `deadlineMs`: the earliest deadline goes first. Jobs without a
 * priority, those that a person asked for, go before all of these.
 */
export function priorityOf(deadlineMs: number): number {
  const step = Math.floor((deadlineMs - firstDeadlineMs) / priorityStepMs);
  return Math.min(lowestPriority, Math.max(1, step));
}

async function add(
  syncs: Queue,
  data: ConnectorJob,
  retryDelayMs: number,
  options: JobsOptions & { readonly deduplication: { readonly id: string } },
): Promise<AddedJob> {
  const added = await addOnce(syncs, data, retryDelayMs, options);
  if (added.isNew || !(await holdsPlaceForever(syncs, options.deduplication.id, added.id))) return added;
  await syncs.removeDeduplicationKey(options.deduplication.id);
  return addOnce(syncs, data, retryDelayMs, options);
}

async function addOnce(
  syncs: Queue,
  data: ConnectorJob,
  retryDelayMs: number,
  options: JobsOptions,
): Promise<AddedJob> {
  // Counted ids start again when Redis has lost its memory, while runs of before are still going on under theirs.
  const jobId = randomUUID();
  const job = await syncs.add(data.kind, data, {
    ...options,
    jobId,
    attempts: 5,
    backoff: { type: 'exponential', delay: retryDelayMs, jitter: 0.5 },
    keepLogs: 200,
    // They would say where the queue's client threw, in clear text.
    stackTraceLimit: 0,
    sizeLimit: 4096,
    removeOnComplete: { count: 500, age: 7 * dayS },
    removeOnFail: { count: 2000, age: 30 * dayS },
  });
  return { id: job.id ?? jobId, isNew: job.id === jobId };
}

/**
 * The queue frees a connector's place as its job ends, by a field of that job, and takes a place back only from a job that
 * is gone altogether. Where a job lost its fields (a Redis that evicts, a hand that tidied up), or lies in no list any
 * more, the place would be taken until somebody looks, and the connector never run again.
 */
async function holdsPlaceForever(syncs: Queue, place: string, holder: string): Promise<boolean> {
  const state = await syncs.getJobState(holder);
  if (state !== 'completed' && state !== 'failed' && state !== 'unknown') return false;
  // It may have ended since, as jobs do, and another one have come.
  return (await syncs.getDeduplicationJobId(place)) === holder;
}
