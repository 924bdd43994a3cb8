import { randomUUID } from 'node:crypto';
import type { JobsOptions, Queue } from 'bullmq';
import * as z from 'zod';
import { type ConnectorName, isConnectorName } from '../core/names.ts';
import { backfillKey } from './queue-names.ts';
import { SyncError } from '../core/errors.ts';

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

/**
 * What a job of a sink's queue carries through Redis, where it lies in clear text: names, and nothing else. Where to
 * read, with which credentials and how far the last run came are known to the worker from its settings and the ledger.
 */
export type ConnectorJob =
  | {
      readonly connector: ConnectorName;
      readonly kind: 'sync';
      readonly reason: 'schedule' | 'manual' | 'catch-up';
      /** When it was meant to start, in milliseconds since the epoch; null: as soon as somebody asked. */
      readonly due: number | null;
    }
  | { readonly connector: ConnectorName; readonly kind: 'backfill'; readonly backfill: string };

/** What a scheduler produces: it only leads to a job in the sink's queue. */
export interface TickJob {
  readonly sink: string;
  readonly connector: ConnectorName;
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
const tickJob = z.strictObject({ sink: z.string().min(1), connector });

/** Throws `SyncError` INTERNAL for anything that this program did not put there. */
export function parseConnectorJob(data: unknown): ConnectorJob {
  return parse(connectorJob, data, "a connector's name and what to do with it");
}

/** Throws `SyncError` INTERNAL for anything that this program did not put there. */
export function parseTickJob(data: unknown): TickJob {
  return parse(tickJob, data, "a sink's id and a connector's name");
}

function parse<Data>(schema: z.ZodType<Data>, data: unknown, expected: string): Data {
  const parsed = schema.safeParse(data);
  if (parsed.success) return parsed.data;
  throw new SyncError(
    `A job should carry ${expected}, and nothing else; something foreign was found. Remove the job.`,
    { code: 'INTERNAL', recovery: 'stop' },
  );
}
