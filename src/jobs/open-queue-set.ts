import { randomUUID } from 'node:crypto';
import { type AdvancedRepeatOptions, type JobsOptions, Queue, UnrecoverableError } from 'bullmq';
import type { Redis } from 'ioredis';
import * as z from 'zod';
import { knownOrMade } from '../core/grouped.ts';
import { type ConnectorName, type EntityName, isConnectorName, isDeclaredName } from '../core/names.ts';
import { slotAfter } from '../settings/cron.ts';

const connector = z.custom<ConnectorName>((value) => typeof value === 'string' && isConnectorName(value));
const backfill = z.strictObject({
  entities: z
    .array(z.custom<EntityName>((name) => typeof name === 'string' && isDeclaredName(name)))
    .min(1)
    .readonly(),
  since: z.iso.datetime(),
  until: z.iso.datetime(),
  /** The length of one, as people write it. */
  window: z.string().min(1),
});
const connectorJob = z.discriminatedUnion('kind', [
  z.strictObject({
    connector,
    kind: z.literal('sync'),
    reason: z.enum(['schedule', 'manual', 'catch-up']),
    // The due time, in milliseconds since the epoch; null: at once.
    due: z.number().nullable(),
    /**
     * Set for a manual sync: who asked for it, for the ledger, whether this run may delete beyond the guards, and
     * whether it reads everything.
     */
    by: z.string().max(200).optional(),
    allowDeletes: z.boolean().optional(),
    isFull: z.boolean().optional(),
  }),
  z.strictObject({ connector, kind: z.literal('backfill'), backfill }),
]);
const connectorTick = z.strictObject({ sink: z.string().min(1), connector });
const tickJob = z.union([
  connectorTick,
  z.strictObject({ sink: z.string().min(1), target: z.string().min(1) }),
]);
const publicationJob = z.strictObject({
  target: z.string().min(1),
  /** A person who asked for it. */
  by: z.string().max(200).optional(),
});

/**
 * The payload of a job in a sink's queue. Redis stores it in plain text, so it holds names and times only. The worker
 * takes the API address and credentials from its settings, and the saved progress from the ledger.
 */
export type ConnectorJob = z.output<typeof connectorJob>;
/** The part that a backfill reads. */
export type AskedBackfill = z.output<typeof backfill>;
/** The payload of a scheduler's job, which only adds a job to one of the sink's queues. */
export type TickJob = z.output<typeof tickJob>;
export type ConnectorTick = z.output<typeof connectorTick>;

// Each throws `UnrecoverableError` for a payload that this program did not write: no further attempt may help.
export const parseConnectorJob = payloadParser(connectorJob, "a connector's name and what to do with it");
export const parseTickJob = payloadParser(tickJob, "a sink's id and the name of a connector or a target");
/** Names the target alone, whose settings define the publication. */
export const parsePublicationJob = payloadParser(publicationJob, "a target's name");

/** `expected`: the payload in words. */
function payloadParser<Data>(schema: z.ZodType<Data>, expected: string): (data: unknown) => Data {
  return (data) => {
    const parsed = schema.safeParse(data);
    if (parsed.success) return parsed.data;
    throw new UnrecoverableError(
      `Expected a job with only ${expected}; found an unknown payload. Remove the job.`,
    );
  };
}

const subject = z.union([z.object({ connector }), z.object({ target: z.string() })]);

/** The connector or target that a job of any queue is about; null: it names neither. */
export function subjectOf(data: unknown): z.output<typeof subject> | null {
  return subject.safeParse(data).data ?? null;
}

/** The queues of one deployment over one connection, which the caller owns. */
export type QueueSet = ReturnType<typeof openQueueSet>;

export function openQueueSet(redis: Redis, prefix: string, onError: (error: Error) => void) {
  const queues = new Map<string, Queue>();
  const open = (name: string): Queue =>
    knownOrMade(queues, name, () => {
      const queue = new Queue(name, { connection: redis, prefix, settings: tickSettings });
      return queue.on('error', onError);
    });
  return {
    redis,
    prefix,
    ticks: open(ticksQueue),
    /** Returns the same object for the same sink, as `publications` does. */
    syncs: (sinkId: string): Queue => open(syncsQueue(sinkId)),
    publications: (sinkId: string): Queue => open(publicationsQueue(sinkId)),
  };
}

/** Makes ticks use the same slots of a schedule as the rest of the program. */
export const tickSettings: AdvancedRepeatOptions = {
  repeatStrategy: (afterMs, { pattern = '', tz = 'UTC' }) => slotAfter({ pattern, timezone: tz }, afterMs),
};

/** The queue of the schedulers' jobs. All names in this file are part of Redis keys. */
const ticksQueue = 'ticks';

/** One queue per sink: a file is on one machine, so only workers that can open it may take its jobs. */
export function syncsQueue(sinkId: string): string {
  return `syncs-${sinkId}`;
}

/**
 * A separate queue, so that a slow target holds up no connector; one for each sink, because publications read from it.
 */
export function publicationsQueue(sinkId: string): string {
  return `publications-${sinkId}`;
}

/** The id contains the sink, because a worker writes and removes only the schedulers of its own sinks. */
export function schedulerId(sinkId: string, connector: string): string {
  return `${sinkId}:${connector}`;
}

/** The name of a job that publishes into a target, and of the tick that adds it. */
export function publicationName(target: string): string {
  return `publish-${target}`;
}

/** No id of a connector's scheduler begins so: a sink's id is random. */
export function publicationSchedulerId(sinkId: string, target: string): string {
  return `publish:${sinkId}:${target}`;
}

/** The connector of a scheduler id of this sink, or `publish-<target>`; null for an id of another sink. */
export function scheduledName(id: string, sinkId: string): string | null {
  const [own, publish] = [schedulerId(sinkId, ''), publicationSchedulerId(sinkId, '')];
  if (id.startsWith(publish)) return publicationName(id.slice(publish.length));
  return id.startsWith(own) ? id.slice(own.length) : null;
}

/** Hash from a sink's name to the host and path of its file. */
export function sinksKey(prefix: string): string {
  return `${prefix}:sinks`;
}

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

interface Backoff {
  /** The first one after a failure. */
  readonly retryDelayMs: number;
}

/**
 * The job may start `delayMs` from now. `deadlineMs` is when its data should be renewed; a job without a deadline goes
 * before all jobs that have one.
 */
export function addSync(
  syncs: Queue,
  job: Omit<Extract<ConnectorJob, { kind: 'sync' }>, 'kind'>,
  {
    delayMs = 0,
    deadlineMs = null,
    ...backoff
  }: Backoff & { readonly delayMs?: number; readonly deadlineMs?: number | null },
): Promise<AddedJob> {
  return addJob(syncs, 'sync', { ...job, kind: 'sync' } satisfies ConnectorJob, backoff, {
    deduplication: { id: job.connector },
    delay: delayMs,
    ...(deadlineMs === null ? {} : { priority: priorityOf(deadlineMs) }),
  });
}

export function addBackfill(
  syncs: Queue,
  connector: ConnectorName,
  backfill: AskedBackfill,
  backoff: Backoff,
): Promise<AddedJob> {
  const job: ConnectorJob = { connector, kind: 'backfill', backfill };
  return addJob(syncs, 'backfill', job, backoff, {
    // At most one sync and one backfill of a connector wait or run at a time.
    deduplication: { id: `backfill:${connector}` },
    // A deadline in a day: most syncs go first, but a backfill cannot starve.
    priority: priorityOf(Date.now() + backfillWithinMs),
  });
}

/**
 * At most one job of a target waits, and one runs. A request during a publication adds another job, because the running
 * one may have read the sink before.
 */
export function addPublication(
  publications: Queue,
  target: string,
  backoff: Backoff,
  asked: { readonly by?: string } = {},
): Promise<AddedJob> {
  return addJob(publications, publicationName(target), { target, ...asked }, backoff, {
    deduplication: { id: target, keepLastIfActive: true },
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

/** Adds a job unless one with its deduplication id is there. */
async function addJob(
  queue: Queue,
  name: string,
  data: object,
  { retryDelayMs }: Backoff,
  options: JobsOptions & { readonly deduplication: { readonly id: string } },
): Promise<AddedJob> {
  const addOnce = async (): Promise<AddedJob> => {
    // Not sequential: after Redis loses its data, a counter restarts and would reuse the ids of jobs that still run.
    const jobId = randomUUID();
    const job = await queue.add(name, data, {
      ...options,
      jobId,
      attempts: 5,
      backoff: { type: 'exponential', delay: retryDelayMs, jitter: 0.5 },
      // Stack traces would be stored in plain text.
      stackTraceLimit: 0,
      sizeLimit: 4096,
      removeOnComplete: { count: 500, age: 7 * dayS },
      removeOnFail: { count: 2000, age: 30 * dayS },
    });
    return { id: job.id ?? jobId, isNew: job.id === jobId };
  };
  const added = await addOnce();
  const { id } = options.deduplication;
  if (added.isNew || !(await isStaleHolder(queue, id, added.id))) return added;
  await queue.removeDeduplicationKey(id);
  return await addOnce();
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
