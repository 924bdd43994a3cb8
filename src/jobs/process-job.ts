import { DelayedError, type Job, UnrecoverableError, WaitingError } from 'bullmq';
import type PQueue from 'p-queue';
import * as z from 'zod';
import { type ErrorCode, type Recovery, SyncError, ThrottledError } from '../core/errors.ts';
import type { RunEvent, JobEnd } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import {
  addPublication,
  type ConnectorJob,
  parseConnectorJob,
  parsePublicationJob,
} from './open-queue-set.ts';
import {
  isMadeUpFor,
  type JobContext,
  type PublicationRequests,
  type RunResult,
  type ScheduledTarget,
  type SinkContext,
  sinkOfTarget,
  type WorkerContext,
} from './worker-context.ts';

/** A job that this worker has taken. */
interface TakenJob<Work> {
  readonly job: Job;
  readonly work: Work;
  readonly signal: AbortSignal;
}

/** Differences between the jobs of connectors and of publications. */
interface JobKind<Work> {
  /** Throws `UnrecoverableError` for a payload that this program did not write. */
  readonly parse: (data: unknown) => Work;
  /** The name of the connector or target. */
  readonly nameOf: (work: Work) => string;
  /** True where the config has it, in this sink. */
  readonly isKnown: (work: Work) => boolean;
  readonly askedMs: (job: Job, work: Work) => number;
  /** Names of the connectors or targets that this process works on. */
  readonly active: () => Set<string>;
  /** Called where nothing holds the job back. */
  readonly make: (taken: TakenJob<Work>) => Promise<Settlement>;
  readonly onEnd: (work: Work, settlement: Settlement, end: JobEnd) => Promise<void> | void;
  /** For the log. */
  readonly factsOf: (work: Work) => object;
  readonly said: string;
  /** The end of the work is logged without it. */
  readonly isLogged: (work: Work) => boolean;
  /** The beginning of a failure's text. */
  readonly failedAs: (name: string) => string;
}

const sameAgainMs = 10 * 60 * 1000;

/** A job that cannot run now is delayed without using an attempt. */
function createProcessor<Work>(context: SinkContext, kind: JobKind<Work>): JobProcessor {
  const delayLoggedAt = new Map<string, number>();
  /** A job that cannot run yet is checked every few seconds, perhaps for hours: log that only once in ten minutes. */
  const isNews = (name: string, settlement: Settlement): boolean => {
    if (settlement.kind === 'give-back' && !context.stopping.aborted) return false;
    if (settlement.kind !== 'delay' || settlement.end !== 'busy') {
      delayLoggedAt.delete(name);
      return true;
    }
    const nowMs = context.clock.now();
    if (nowMs - (delayLoggedAt.get(name) ?? Number.NEGATIVE_INFINITY) < sameAgainMs) return false;
    delayLoggedAt.set(name, nowMs);
    return true;
  };
  return async (job, token, signal) => {
    const work = kind.parse(job.data);
    const name = kind.nameOf(work);
    const taken = { job, work, signal: signal ?? new AbortController().signal };
    const settlement = await unlessHeld(context, kind, taken);
    const end = endOf(job, settlement);
    if (isNews(name, settlement) && !(end === 'done' && kind.isLogged(work))) {
      context.log.info({ ...kind.factsOf(work), end, ...factsOf(settlement) }, kind.said);
    }
    await kind.onEnd(work, settlement, end);
    return await carryOut(job, token, kind.failedAs(name), settlement);
  };
}

/**
 * During a deploy, a worker with the old config may get jobs of connectors and targets that only the new config has.
 */
const unknownForMs = 15 * 60 * 1000;

/**
 * Does the work of a job, unless something holds it back: this worker stops, the sink is away, the config lacks the
 * connector or target, or this process works on it already.
 */
async function unlessHeld<Work>(
  context: SinkContext,
  kind: JobKind<Work>,
  taken: TakenJob<Work>,
): Promise<Settlement> {
  const { job, work } = taken;
  // While BullMQ closes, it takes one more job, which may be the one just given back.
  if (context.closing.aborted) return { kind: 'give-back' };
  if (!kind.isKnown(work)) {
    const isNew = context.clock.now() - kind.askedMs(job, work) < unknownForMs;
    return isNew ? later(context) : { kind: 'complete', outcome: 'unknown' };
  }
  const [name, active] = [kind.nameOf(work), kind.active()];
  // The queue of a lost sink is held within seconds; until then no job may start a run.
  if ((await context.ledger.lost(context.sinkName)) !== null || active.has(name)) return later(context);
  active.add(name);
  try {
    return await kind.make(taken);
  } finally {
    active.delete(name);
  }
}

function later({ clock, timings }: SinkContext): Settlement {
  return { kind: 'delay', untilMs: clock.now() + timings.busyDelayMs, end: 'busy' };
}

/** Outcomes of runs that may have stored something. */
const hasRead: ReadonlySet<string> = new Set(['ok', 'partial', 'degraded']);

/** The processor of a sink's queue of syncs and backfills. */
export function createJobProcessor(context: JobContext): JobProcessor {
  return createProcessor<ConnectorJob>(context, {
    parse: parseConnectorJob,
    nameOf: ({ connector }) => connector,
    isKnown: ({ connector }) => context.connectors.get(connector)?.sink.name === context.sinkName,
    askedMs: (job, work) => Math.max(job.timestamp, dueOf(work) ?? 0),
    active: () => context.running,
    make: async (taken) => await runUnlessFull(context, taken),
    onEnd: async ({ connector }, settlement, end) => {
      context.observe({ kind: 'job-ended', connector, end });
      // Before the job ends: a worker that is killed in between runs it again, and asks again.
      if (settlement.kind === 'complete' && hasRead.has(settlement.outcome)) {
        await context.publications.after(connector);
      }
    },
    factsOf: ({ connector, kind }) => ({ connector, job: kind }),
    said: 'job ended',
    isLogged: ({ kind }) => kind === 'sync',
    failedAs: (name) => name,
  });
}

function dueOf(work: ConnectorJob): number | null {
  return work.kind === 'sync' ? work.due : null;
}

/** Runs the job, unless the connector is paused or every slot is taken. */
async function runUnlessFull(context: JobContext, taken: TakenJob<ConnectorJob>): Promise<Settlement> {
  const { connector } = taken.work;
  if (!context.serves(connector)) return later(context);
  try {
    return await runInSlot(context, taken);
  } catch (error) {
    context.log.error({ connector, err: error }, 'the ledger could not be read');
    return { kind: 'fail', code: error instanceof SyncError ? error.code : 'INTERNAL', isFinal: false };
  } finally {
    context.suspects.delete(connector);
  }
}

async function runInSlot(context: JobContext, taken: TakenJob<ConnectorJob>): Promise<Settlement> {
  const { job, work, signal } = taken;
  const { connector } = work;
  const { closing, slots, sinkName, suspects } = context;
  using slot = await slots.take({
    priority: job.priority,
    patienceMs: context.timings.slotPatienceMs,
    signal: AbortSignal.any([signal, closing]),
  });
  if (slot === null) {
    if (!closing.aborted && slots.isFull()) await context.onFull(sinkName);
    return { kind: 'give-back' };
  }
  if ((await context.ledger.pause(connector)) !== null) return { kind: 'complete', outcome: 'paused' };
  const due = work.kind === 'sync' && work.reason === 'catch-up' ? work.due : null;
  if (due !== null && isMadeUpFor(due, await context.ledger.lastRun(connector))) {
    return { kind: 'complete', outcome: 'made-up-for' };
  }
  if (startsInARow(job) > 0) {
    // Retry suspects one at a time, so that jobs that merely shared the crashed process are not counted as poison.
    if (suspects.size > 0) return later(context);
    suspects.add(connector);
  }
  return await runJob(context, taken);
}

/** Makes the run of a job and settles it. Never rejects. */
async function runJob(context: JobContext, { job, work, signal }: TakenJob<ConnectorJob>) {
  const { clock } = context;
  const { busyDelayMs } = context.timings;
  const { connector } = work;
  const askedMs = dueOf(work) ?? job.timestamp;
  return await attemptJob(context, job, signal, {
    run: async (within, starts) => {
      await starts.begin();
      context.observe({
        kind: 'job-started',
        connector,
        reason: work.kind === 'sync' ? work.reason : 'backfill',
        lagMs: Math.max(0, clock.now() - askedMs),
      });
      const onEvent = (event: RunEvent): void => {
        if (event.kind !== 'page-committed') return;
        context.suspects.delete(connector);
        starts.onPage();
      };
      const shouldYield = (): Promise<boolean> => isSyncWaiting(context, connector);
      return { kind: 'ended', end: await context.run(work, { signal: within, onEvent, shouldYield }) };
    },
    // A tenth of the time waited so far.
    heldDelayMs: () => Math.min(12 * busyDelayMs, Math.max(busyDelayMs, (clock.now() - askedMs) / 10)),
    facts: { connector },
    failed: 'the run failed to start',
  });
}

/** Whether a job has the deduplication key of the connector's syncs. If Redis does not answer, the run continues. */
async function isSyncWaiting({ queue, onError }: JobContext, connector: ConnectorName): Promise<boolean> {
  try {
    return (await queue.getDeduplicationJobId(connector)) !== null;
  } catch (error) {
    onError(error instanceof Error ? error : new Error(String(error)));
    return false;
  }
}

/** Publications of this process at a time, over all sinks: each has a process that writes files beside the runs. */
export const mostAtATime = 2;

/** The processor of a sink's queue of publications. `turns`: those of all sinks. */
export function createPublicationProcessor(context: SinkContext, turns: PQueue): JobProcessor {
  return createProcessor(context, {
    parse: parsePublicationJob,
    nameOf: ({ target }) => target,
    isKnown: ({ target }) =>
      context.targets.some((one) => one.name === target && sinkOfTarget(one) === context.sinkName),
    askedMs: ({ timestamp }) => timestamp,
    active: () => context.publishing,
    make: async ({ job, work: { target, by = null }, signal }) => {
      const isFirst = startsInARow(job) === 0 && job.attemptsMade === 0;
      return await attemptJob(context, job, signal, {
        run: async (within, starts) =>
          await turns.add(async () => {
            within.throwIfAborted();
            await starts.begin();
            const outcome = await context.publish(target, within, isFirst ? by : null);
            return { kind: 'ended', end: { outcome, error: null, resumeAt: null } };
          }),
        heldDelayMs: () => context.timings.busyDelayMs,
        facts: { target },
        failed: 'the publication failed; what was published before is unchanged',
      });
    },
    onEnd: ({ target }, _settlement, end) => context.observe({ kind: 'publication-ended', target, end }),
    factsOf: ({ target }) => ({ target }),
    said: 'publication job ended',
    isLogged: () => true,
    failedAs: (name) => `publish-${name}`,
  });
}

/** Requests publications after syncs. Keeps the requests that Redis did not take; `retry` repeats them. */
export function openPublicationRequests({
  targets,
  sinks,
  queues,
  timings,
  onError,
}: Pick<WorkerContext, 'targets' | 'sinks' | 'queues' | 'timings' | 'onError'>): PublicationRequests {
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

/** A job whose process crashed on as many starts in a row fails. */
const maxStarts = 3;

/** The abort reason of a job's signal when the job lost its lock and another worker may take it. */
export const lockLost = 'lock lost';

/** Action for a job after its run. */
type Settlement =
  /**
   * `outcome`, which Redis keeps: that of a run or publication, or `paused`, `unknown`, `cancelled`, `made-up-for` if
   * the job started no run.
   */
  | { readonly kind: 'complete'; readonly outcome: string }
  /** Back to the front of the queue, for the next worker. */
  | { readonly kind: 'give-back' }
  /** Retry at `untilMs`; uses no attempt. */
  | { readonly kind: 'delay'; readonly untilMs: number; readonly end: 'delayed' | 'busy' }
  /** Uses an attempt; retried unless it was the last one or `isFinal`. */
  | { readonly kind: 'fail'; readonly code: ErrorCode; readonly isFinal: boolean }
  /** Another worker has the job. */
  | { readonly kind: 'lost' };

/** The end of a run or publication; with an error if it could not be made. */
export type Ending =
  { readonly kind: 'ended'; readonly end: RunResult } | { readonly kind: 'thrown'; readonly error: unknown };

export interface Circumstances {
  /** This worker lost the job's lock. */
  readonly isLockLost: boolean;
  readonly isStopping: boolean;
  readonly nowMs: number;
  readonly busyDelayMs: number;
  /** The delay if another process has the connector's lock. Longer, because each try costs API calls. */
  readonly heldDelayMs: number;
}

/** Decides what to do with a job from how its run ended. */
export function settleRun(ending: Ending, circumstances: Circumstances): Settlement {
  return ending.kind === 'ended'
    ? settleEnd(ending.end, circumstances)
    : settleError(ending.error, circumstances);
}

function settleEnd(end: RunResult, circumstances: Circumstances): Settlement {
  const { nowMs, busyDelayMs } = circumstances;
  // The sink's queue is held until its file is back; then the run resumes.
  if (end.error?.code === 'SINK_MOVED') return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'busy' };
  if (end.error?.code === 'FENCED') return settleFenced(end.error.recovery, circumstances);
  if (end.outcome === 'interrupted') return settleInterruption(circumstances);
  if (end.resumeAt !== null) return { kind: 'delay', untilMs: Date.parse(end.resumeAt), end: 'delayed' };
  if (end.outcome === 'failed') {
    return { kind: 'fail', code: end.error?.code ?? 'INTERNAL', isFinal: end.error?.recovery === 'stop' };
  }
  if (end.isDone !== false) return { kind: 'complete', outcome: end.outcome };
  return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'delayed' };
}

function settleError(error: unknown, circumstances: Circumstances): Settlement {
  const { nowMs, heldDelayMs } = circumstances;
  if (error instanceof ThrottledError) {
    return { kind: 'delay', untilMs: nowMs + error.retryAfterMs, end: 'delayed' };
  }
  if (!(error instanceof SyncError)) return { kind: 'fail', code: 'INTERNAL', isFinal: false };
  if (error.code === 'CONNECTOR_BUSY') return { kind: 'delay', untilMs: nowMs + heldDelayMs, end: 'busy' };
  const isInterrupted = error.code === 'INTERRUPTED' || error.code === 'CANCELLED';
  const outcome = isInterrupted ? 'interrupted' : 'failed';
  return settleEnd({ outcome, error, resumeAt: null }, circumstances);
}

/**
 * Overtaken by another worker, or by a server that gave way to its standby. In the first case that worker has the job,
 * or holds the connector, which the next try finds out; in the second the connector is free.
 */
function settleFenced(recovery: Recovery, { isLockLost, nowMs, busyDelayMs }: Circumstances): Settlement {
  if (isLockLost) return { kind: 'lost' };
  if (recovery === 'stop') return { kind: 'fail', code: 'FENCED', isFinal: true };
  return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'busy' };
}

function settleInterruption({ isLockLost, isStopping }: Circumstances): Settlement {
  if (isLockLost) return { kind: 'lost' };
  if (isStopping) return { kind: 'give-back' };
  // Neither this worker nor the queue ended the run, so a person cancelled it: do not retry.
  return { kind: 'complete', outcome: 'cancelled' };
}

interface Attempt {
  /** Rejects where the run or publication could not be made. */
  readonly run: (signal: AbortSignal, starts: Starts) => Promise<Ending>;
  readonly heldDelayMs: () => number;
  /** For the log. */
  readonly facts: object;
  /** For the log: the attempt failed without a report. */
  readonly failed: string;
}

/**
 * Makes one attempt of a job and settles it. Counts the start and its end, so that a job that crashes its process is
 * found. Never rejects.
 */
async function attemptJob(
  context: SinkContext,
  job: Job,
  signal: AbortSignal,
  { run, heldDelayMs, facts, failed }: Attempt,
): Promise<Settlement> {
  if (startsInARow(job) >= maxStarts) {
    context.log.error({ ...facts, starts: maxStarts }, 'poison job: the process crashed on every start');
    return { kind: 'fail', code: 'POISON', isFinal: true };
  }
  const starts = countStarts(job, context);
  const ending = await run(interruptible(signal), starts).catch((error: unknown): Ending => ({
    kind: 'thrown',
    error,
  }));
  const isLockLost = signal.aborted && signal.reason === lockLost;
  // Another worker may have the job by now and count its own starts.
  if (isLockLost) {
    context.log.warn(job.data as object, 'lost the lock of a job: its run stopped; another worker takes it');
  } else {
    await starts.end();
  }
  const settlement = settleRun(ending, {
    isLockLost,
    isStopping: context.stopping.aborted,
    nowMs: context.clock.now(),
    busyDelayMs: context.timings.busyDelayMs,
    heldDelayMs: heldDelayMs(),
  });
  if (ending.kind === 'thrown' && settlement.kind === 'fail') {
    context.log.error({ ...facts, err: ending.error }, failed);
  }
  return settlement;
}

/** BullMQ aborts with a string; code that rejects with a signal's reason needs an Error. */
function interruptible(signal: AbortSignal): AbortSignal {
  const run = new AbortController();
  const interrupt = (): void =>
    run.abort(
      new SyncError(`interrupted: ${String(signal.reason)}`, { code: 'INTERRUPTED', recovery: 'stop' }),
    );
  if (signal.aborted) interrupt();
  else signal.addEventListener('abort', interrupt, { once: true });
  return run.signal;
}

/**
 * A queue's processor must declare all three parameters: BullMQ passes a signal only to a function whose `length` is 3
 * or more.
 */
export type JobProcessor = (
  job: Job,
  token: string | undefined,
  signal: AbortSignal | undefined,
) => Promise<unknown>;

/**
 * Applies a settlement to its job: returns, or throws an error that the queue understands. The text of a failure begins
 * with `name`.
 */
async function carryOut(job: Job, token: string | undefined, name: string, settlement: Settlement) {
  switch (settlement.kind) {
    case 'complete':
      return { outcome: settlement.outcome };
    case 'give-back':
      await job.moveToWait(token);
      throw new WaitingError();
    case 'delay':
      await job.moveToDelayed(settlement.untilMs, token);
      throw new DelayedError();
    case 'fail': {
      // Only the code: Redis stores this text unencrypted, and a message may quote an API response.
      const text = `${name}: ${settlement.code}`;
      throw settlement.isFinal ? new UnrecoverableError(text) : new Error(text);
    }
    case 'lost':
      throw new Error(`${name}: lock lost; another worker takes over`);
  }
}

/** Facts of a settlement for the log. */
function factsOf(settlement: Settlement): object {
  if (settlement.kind === 'complete') return { outcome: settlement.outcome };
  if (settlement.kind === 'fail') return { code: settlement.code };
  return settlement.kind === 'delay' ? { until: new Date(settlement.untilMs).toISOString() } : {};
}

/** How the job ended, in a word. */
function endOf(job: Job, settlement: Settlement): JobEnd {
  switch (settlement.kind) {
    case 'complete':
      return settlement.outcome === 'paused' || settlement.outcome === 'unknown'
        ? settlement.outcome
        : 'done';
    case 'give-back':
    case 'lost':
      return 'given-back';
    case 'delay':
      return settlement.end;
    case 'fail': {
      if (settlement.code === 'POISON') return 'poison';
      const isLastAttempt = job.attemptsMade + 1 >= (job.opts.attempts ?? 1);
      return settlement.isFinal || isLastAttempt ? 'failed' : 'retry';
    }
  }
}

const stored = z.object({ starts: z.number().int().min(0) });

/** Consecutive starts of this job whose process crashed before a page was stored. */
function startsInARow(job: Job): number {
  const parsed = stored.safeParse(job.progress);
  return parsed.success ? parsed.data.starts : 0;
}

type Starts = ReturnType<typeof countStarts>;

/** Keeps in the job how many starts in a row neither stored a page nor ended, as after a crash. */
function countStarts(job: Job, { queue, onError }: SinkContext) {
  let starts = startsInARow(job);
  let writing = Promise.resolve();
  const write = async (now: number): Promise<void> => {
    starts = now;
    writing = queue.updateJobProgress(job.id ?? '', { starts }).catch((error: Error) => {
      starts = 1;
      onError(error);
    });
    await writing;
  };
  return {
    /** Counts this start; resolves when the write to Redis has succeeded or failed. */
    begin: () => write(starts + 1),
    /** A page is stored. */
    onPage: (): void => {
      if (starts > 0) void write(0);
    },
    /** The run ended without a crash. */
    end: async (): Promise<void> => {
      await writing;
      if (starts > 0) await write(0);
    },
  };
}
