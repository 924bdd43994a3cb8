import type { Job } from 'bullmq';
import PQueue from 'p-queue';
import type { JobEnd, PublicationEnd } from '../core/events.ts';
import { parsePublicationJob } from './job-payloads.ts';
import { addPublication } from './open-queue-set.ts';
import { startsInARow } from './report-progress.ts';
import {
  attemptJob,
  carryOut,
  endOf,
  factsOf,
  maxStarts,
  type JobProcessor,
  type Settlement,
} from './settle-run.ts';
import { unlessHeld } from './unless-held.ts';
import {
  type PublicationRequests,
  type ScheduledTarget,
  type SinkContext,
  sinkOfTarget,
  type WorkerContext,
} from './worker-context.ts';

interface PublicationContext extends SinkContext {
  /** Of all sinks: how many publications this process makes at a time. */
  readonly turns: PQueue;
}

/** Each has a process that writes files, and reads the sink beside the runs. */
export const mostAtATime = 2;

export function publicationTurns(): PQueue {
  return new PQueue({ concurrency: mostAtATime });
}

/** The processor of a sink's queue of publications. */
export function createPublicationProcessor(context: PublicationContext): JobProcessor {
  return async (job, token, signal) => {
    const work = parsePublicationJob(job.data);
    const { target } = work;
    const settlement = await publishUnlessHeld(context, job, work, signal ?? new AbortController().signal);
    const end = publicationEnd(endOf(job, settlement));
    context.observe({ kind: 'publication-ended', target, end });
    if (end !== 'busy' && (end !== 'given-back' || context.stopping.aborted)) {
      context.log.info({ target, end, ...factsOf(settlement) }, 'publication job ended');
    }
    return await carryOut(job, token, `publish-${target}`, settlement);
  };
}

/** Publishes, unless the job is held back as `unlessHeld` says. */
async function publishUnlessHeld(
  context: PublicationContext,
  job: Job,
  { target, by }: ReturnType<typeof parsePublicationJob>,
  signal: AbortSignal,
): Promise<Settlement> {
  const { targets, sinkName, publishing, log } = context;
  const known = {
    name: target,
    isKnown: () => targets.some((one) => one.name === target && sinkOfTarget(one) === sinkName),
    askedMs: job.timestamp,
    active: publishing,
  };
  return await unlessHeld(context, known, async () => {
    const starts = startsInARow(job);
    if (starts >= maxStarts) {
      log.error({ target, starts }, 'poison job: the process crashed on every start of this publication');
      return { kind: 'fail', code: 'POISON', isFinal: true };
    }
    const isFirst = starts === 0 && job.attemptsMade === 0;
    return await attemptJob(context, job, signal, {
      run: async (within, progress) =>
        await context.turns.add(async () => {
          within.throwIfAborted();
          await progress.begin();
          const outcome = await context.publish(target, within, isFirst ? (by ?? null) : null);
          return { kind: 'ended', end: { outcome, error: null, resumeAt: null } };
        }),
      isCancelled: () => Promise.resolve(false),
      heldDelayMs: () => context.timings.busyDelayMs,
      onFailed: (error) => {
        log.error({ target, err: error }, 'the publication failed; what was published before is unchanged');
      },
    });
  });
}

/** Of the ways in which a job ends, a publication knows fewer. */
function publicationEnd(end: JobEnd): PublicationEnd {
  if (end === 'delayed') return 'busy';
  if (end === 'poison') return 'failed';
  return end === 'paused' ? 'done' : end;
}

/** What the ends of syncs ask for; what Redis did not take is kept, and asked for again by `retry`. */
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
