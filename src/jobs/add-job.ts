import { randomUUID } from 'node:crypto';
import type { JobsOptions, Queue } from 'bullmq';
import * as z from 'zod';
import { type ConnectorName, isConnectorName } from '../core/names.ts';
import { backfillKey } from './open-queue-set.ts';
import { SyncError } from '../core/errors.ts';

const dayS = 24 * 60 * 60;
const backfillWithinMs = dayS * 1000;
/** The queue allows priorities up to 2^21: steps of five minutes last until 2045. */
const priorityStepMs = 5 * 60 * 1000;
const firstDeadlineMs = Date.UTC(2026, 0, 1);
const lowestPriority = 2 ** 21 - 1;

export interface AddedJob {
  readonly id: string;
  /** False if a job of the same connector already waits or runs; `id` is then the id of that job. */
  readonly isNew: boolean;
}

/**
 * The job may start `delayMs` from now; `retryDelayMs` is the first backoff after a failure. `deadlineMs` is when its
 * data should be renewed; a job without a deadline goes before all jobs that have one.
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
    // A deadline in a day: most syncs go first, but a backfill cannot starve.
    priority: priorityOf(Date.now() + backfillWithinMs),
  });
}

/**
 * The priority of a job whose data should be renewed by `deadlineMs`: the earliest deadline goes first. Manual jobs
 * have no priority and go before all of these.
 */
export function priorityOf(deadlineMs: number): number {
  const step = Math.floor((deadlineMs - firstDeadlineMs) / priorityStepMs);
  return Math.min(lowestPriority, Math.max(1, step));
}

function add(
  syncs: Queue,
  data: ConnectorJob,
  retryDelayMs: number,
  options: DeduplicatedOptions,
): Promise<AddedJob> {
  return addJob(syncs, data.kind, data, retryDelayMs, options);
}

type DeduplicatedOptions = JobsOptions & { readonly deduplication: { readonly id: string } };

/** Adds a job unless one with its deduplication id is there. `retryDelayMs` is the first backoff after a failure. */
export async function addJob(
  queue: Queue,
  name: string,
  data: object,
  retryDelayMs: number,
  options: DeduplicatedOptions,
): Promise<AddedJob> {
  const added = await addOnce(queue, name, data, retryDelayMs, options);
  if (added.isNew || !(await isStaleHolder(queue, options.deduplication.id, added.id))) return added;
  await queue.removeDeduplicationKey(options.deduplication.id);
  return addOnce(queue, name, data, retryDelayMs, options);
}

async function addOnce(
  queue: Queue,
  name: string,
  data: object,
  retryDelayMs: number,
  options: JobsOptions,
): Promise<AddedJob> {
  // Not sequential: after Redis loses its data, a counter restarts and would reuse the ids of jobs that still run.
  const jobId = randomUUID();
  const job = await queue.add(name, data, {
    ...options,
    jobId,
    attempts: 5,
    backoff: { type: 'exponential', delay: retryDelayMs, jitter: 0.5 },
    keepLogs: 200,
    // Stack traces would be stored in plain text.
    stackTraceLimit: 0,
    sizeLimit: 4096,
    removeOnComplete: { count: 500, age: 7 * dayS },
    removeOnFail: { count: 2000, age: 30 * dayS },
  });
  return { id: job.id ?? jobId, isNew: job.id === jobId };
}

/**
 * Whether the job `holder` has ended or is in no list, but still has the deduplication key. The queue releases the key
 * when the job ends, by a field of that job, and otherwise only if the job no longer exists. If eviction or manual
 * cleanup removed the job's fields or its list entry, the key would stay and the connector would never run again.
 */
async function isStaleHolder(syncs: Queue, key: string, holder: string): Promise<boolean> {
  const state = await syncs.getJobState(holder);
  if (state !== 'completed' && state !== 'failed' && state !== 'unknown') return false;
  // The job may have ended normally meanwhile, and a new one may have the key.
  return (await syncs.getDeduplicationJobId(key)) === holder;
}

/**
 * The payload of a job in a sink's queue. Redis stores it in plain text, so it holds names only. The worker takes the
 * API address and credentials from its settings, and the saved progress from the ledger.
 */
export type ConnectorJob =
  | {
      readonly connector: ConnectorName;
      readonly kind: 'sync';
      readonly reason: 'schedule' | 'manual' | 'catch-up';
      /** The due time, in milliseconds since the epoch; null: at once. */
      readonly due: number | null;
    }
  | { readonly connector: ConnectorName; readonly kind: 'backfill'; readonly backfill: string };

/** The payload of a scheduler's job, which only adds a job to one of the sink's queues. */
export type TickJob = ConnectorTick | TargetTick;

export interface ConnectorTick {
  readonly sink: string;
  readonly connector: ConnectorName;
}

export interface TargetTick {
  readonly sink: string;
  readonly target: string;
}

const connector = z.custom<ConnectorName>((value) => typeof value === 'string' && isConnectorName(value));
const connectorJob = z.discriminatedUnion('kind', [
  z.strictObject({
    connector,
    kind: z.literal('sync'),
    reason: z.enum(['schedule', 'manual', 'catch-up']),
    due: z.number().nullable(),
  }),
  z.strictObject({ connector, kind: z.literal('backfill'), backfill: z.string().min(1) }),
]);
const tickJob = z.union([
  z.strictObject({ sink: z.string().min(1), connector }),
  z.strictObject({ sink: z.string().min(1), target: z.string().min(1) }),
]);

/** Throws `SyncError` INTERNAL for a payload that this program did not write. */
export function parseConnectorJob(data: unknown): ConnectorJob {
  return parsePayload(connectorJob, data, "a connector's name and what to do with it");
}

/** Throws `SyncError` INTERNAL for a payload that this program did not write. */
export function parseTickJob(data: unknown): TickJob {
  return parsePayload(tickJob, data, "a sink's id and the name of a connector or a target");
}

/** Throws `SyncError` INTERNAL for another payload than the expected one, which is told in words. */
export function parsePayload<Data>(schema: z.ZodType<Data>, data: unknown, expected: string): Data {
  const parsed = schema.safeParse(data);
  if (parsed.success) return parsed.data;
  throw new SyncError(`Expected a job with only ${expected}; found an unknown payload. Remove the job.`, {
    code: 'INTERNAL',
    recovery: 'stop',
  });
}
